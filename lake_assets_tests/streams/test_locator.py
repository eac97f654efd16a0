"""The partition of an object is the one whose run reads it."""

import random
from itertools import product
from pathlib import Path

import pytest

from lake_assets.api import open_stream
from lake_assets.config.layout.partition import Partition
from lake_assets.config.models import LakeConfig
from lake_assets.streams.calendar import Calendar
from lake_assets.streams.left_out import class_of
from lake_assets.streams.locator import PartitionLocator
from lake_assets.streams.stream import OpenStream


def stream_of(folder: Path, **layout: str) -> OpenStream:
    has_store = any("{store}" in text for text in layout.values())
    document = {
        "lakes": {"test": {"catalog": {"type": "sqlite", "path": f"{folder}/c.sqlite"}, "storage": f"{folder}/data"}},
        "streams": {
            "s": {
                "source": f"{folder}/landing",
                **layout,
                "partitions": {"p": {"type": "integer", "values": [7]}, "r": {"empty": "null"}},
                "path_columns": {"store": "string"} if has_store else {},
                "destination": {"table": "s"},
            }
        },
    }
    return open_stream(LakeConfig.model_validate(document))


@pytest.mark.parametrize(
    "given",
    [
        *({"layout": text} for text in ("p={p}/r={r}", "{store}/p={p}/r={r}", "p={p}/{store}/r={r}")),
        {"files": "{p}_{r}.parquet"},
        {"files": "s-{r}-{p}_*.parquet", "layout": "in"},
        {"files": "*_{store}_{p}_{r}.parquet", "layout": "{batch}"},
    ],
)
def test_an_object_is_read_by_the_run_of_its_partition_or_is_refused(tmp_path: Path, given: dict[str, str]) -> None:
    stream = stream_of(tmp_path, **given)
    layout = "/".join(part for part in (given.get("layout"), given.get("files", "file.parquet")) if part)
    layout = layout.replace("*", "0").replace("{batch}", "b")
    locator = PartitionLocator(stream.config)
    texts = [(p, r) for p in ("7", "07", "+7") for r in ("a", "A", "a%2Fb", "a%2fb", "%61", "")]
    keys = [layout.format(p=p, r=r, store="x") for p, r in texts]
    for key in keys:
        path = tmp_path / "landing" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")

    located = {key: partition for key in keys if isinstance(partition := locator.find(key), Partition)}

    assert {text for (text, _), key in zip(texts, keys, strict=True) if key in located} == {"7"}
    for partition in set(located.values()):
        read = {obj.key for obj in stream.manifest(partition).objects}
        assert read == {key for key, other in located.items() if other == partition}


@pytest.mark.parametrize(
    "layout",
    ["p={p}/r={r}", "{p}-{r}", "{batch}/p={p}/r={r}", "p={p}/{store}/r={r}", "a={r}/b={p}/c={r}", "/p={p}/in/r={r}"],
)
def test_what_a_locator_has_seen_before_changes_nothing(tmp_path: Path, layout: str) -> None:
    config = stream_of(tmp_path, layout=layout).config
    texts = list(product(("7", "8", "07", "x"), ("a", "b", "a%2Fb", "a%2fb", "_a", ".", "", "A\u030a", "\u00c5")))
    keys = [f"{layout.strip('/').format(p=p, r=r, store=s, batch=s)}/f.parquet" for p, r in texts for s in ("x", "_y")]
    keys += [key.replace("r=", "R=") for key in keys] + [
        key.replace("/f.", f"/{n}/f.") for key in keys for n in ("in", "_in")
    ]
    keys += ["f.parquet", *(key.partition("/")[2] for key in keys)]
    seen = PartitionLocator(config, Calendar(config))

    for seed in range(3):
        random.Random(seed).shuffle(keys)
        for key in keys:
            assert str(seen.find(key)) == str(PartitionLocator(config, Calendar(config)).find(key)), key
    assert any(isinstance(seen.find(key), Partition) for key in keys)


@pytest.mark.parametrize(
    ("key", "kind", "reason"),
    [
        ("s_7_a.parquet", None, ""),
        ("s_7_.parquet", None, ""),  # NULL
        ("s_x_a.parquet", "unmatched", "partition value p='x' is not of type integer"),
        ("s_7.parquet", "unmatched", "the path is not of the layout 's_{p}_{r}.parquet': rename the object"),
        ("in/s_7_a.parquet", "unmatched", "the path is not of the layout 's_{p}_{r}.parquet': rename the object"),
        ("s_07_a.parquet", "spelling", "does not begin with s_7_a.parquet: rename the object"),
        ("stock_7_a.parquet", "not_data", "does not fit `files: s_{p}_{r}.parquet`"),
        ("s_7_a.csv", "not_data", "does not fit `files: s_{p}_{r}.parquet`"),
        ("_s_7_a.parquet", "hidden", "is hidden"),
    ],
)
def test_an_object_of_a_flat_folder_is_in_a_partition_or_in_a_class(
    tmp_path: Path, key: str, kind: str | None, reason: str
) -> None:
    where = PartitionLocator(stream_of(tmp_path, files="s_{p}_{r}.parquet").config).find(key)

    assert (None if isinstance(where, Partition) else class_of(where)) == kind
    assert reason in str(where)


@pytest.mark.parametrize(
    ("stream", "name", "is_read"),
    [
        ({"format": "csv"}, "b.csv", True),
        ({"format": "csv"}, "b.csv.gz", True),
        ({"format": "csv"}, "b.csv.filepart", False),
        ({"format": "csv"}, "b.csv.1", False),
        ({"format": "csv"}, "b.csv~", False),
        ({"format": "csv"}, "b.CSV.tmp", False),
        ({"format": "csv", "files": "*.csv.1"}, "b.csv.1", True),
        ({"format": "csv", "files": "*.filepart"}, "b.csv.filepart", True),
        ({"format": "json"}, "b.ndjson.zst", True),
        ({"format": "json"}, "b.json.md5", False),
        ({"format": "auto"}, "b.parquet.PART", False),
        ({"files": "*"}, "b", True),
        ({"files": "*"}, "b.crdownload", False),
        ({"files": "*"}, "b_$folder$", False),
        ({"files": "b*"}, "b.parquet._COPYING_", False),
    ],
)
def test_what_a_tool_hangs_behind_a_name_is_no_data(
    tmp_path: Path, stream: dict[str, str], name: str, is_read: bool
) -> None:
    where = PartitionLocator(stream_of(tmp_path, **stream).config).find(f"p=7/r=a/{name}")

    assert (None if isinstance(where, Partition) else class_of(where)) == (None if is_read else "not_data")


def test_dead_letters_are_hidden_from_a_stream_of_texts(tmp_path: Path) -> None:
    locator = PartitionLocator(stream_of(tmp_path, files="*.csv").config)

    found = [locator.find(key) for key in ("_dead_letters/s/p=7/r=a/x.parquet", "p=7/r=a/x.parquet")]

    assert [class_of(reason) for reason in found if not isinstance(reason, Partition)] == ["hidden", "not_data"]
