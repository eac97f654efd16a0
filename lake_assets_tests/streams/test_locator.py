"""The partition of an object is the one whose run reads it."""

from pathlib import Path

import pytest

from lake_assets.api.stream import open_stream
from lake_assets.config.models import LakeConfig
from lake_assets.layout.partition import Partition
from lake_assets.streams.locator import PartitionLocator
from lake_assets.streams.stream import OpenStream


def stream_of(folder: Path, layout: str) -> OpenStream:
    document = {
        "lakes": {"test": {"catalog": {"type": "sqlite", "path": f"{folder}/c.sqlite"}, "storage": f"{folder}/data"}},
        "streams": {
            "s": {
                "source": f"{folder}/landing",
                "layout": layout,
                "partitions": {"p": {"type": "integer", "values": [7]}, "r": {"empty": "null"}},
                "path_columns": {"store": "string"} if "{store}" in layout else {},
                "destination": {"table": "s"},
            }
        },
    }
    return open_stream(LakeConfig.model_validate(document))


@pytest.mark.parametrize("layout", ["p={p}/r={r}", "{store}/p={p}/r={r}", "p={p}/{store}/r={r}"])
def test_an_object_is_read_by_the_run_of_its_partition_or_is_refused(tmp_path: Path, layout: str) -> None:
    stream = stream_of(tmp_path, layout)
    locator = PartitionLocator(stream.config)
    texts = [(p, r) for p in ("7", "07", "+7") for r in ("a", "A", "a%2Fb", "a%2fb", "%61", "")]
    keys = [f"{layout.format(p=p, r=r, store='x')}/file.parquet" for p, r in texts]
    for key in keys:
        path = tmp_path / "landing" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")

    located = {key: partition for key in keys if isinstance(partition := locator.find(key), Partition)}

    assert {text for (text, _), key in zip(texts, keys, strict=True) if key in located} == {"7"}
    for partition in set(located.values()):
        read = {obj.key for obj in stream.manifest(partition).objects}
        assert read == {key for key, other in located.items() if other == partition}
