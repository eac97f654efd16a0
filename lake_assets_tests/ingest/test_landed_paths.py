"""Paths that land: every spelling of a value in a folder, the empty value, and values in the names of files."""

import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from lake_assets.base.errors import EmptySourceError, PartitionError, StorageError
from lake_assets.config.layout.partition import Partition
from lake_assets.config.streams import StreamConfig
from lake_assets.ingest.dry_run import plan_stream
from lake_assets.ingest.ingest_all import ingest_all
from lake_assets.orchestration.partition_keys import cell_of_key, partition_key, partitions_def
from lake_assets.storage.store import Store
from lake_assets.streams.detection.scan import scan
from lake_assets.streams.locator import PartitionLocator
from lake_assets.streams.pending import scan_landing
from lake_assets.streams.select import Wanted, select
from lake_assets.streams.stream import list_landed, list_landed_in
from lake_assets.upkeep.checks.check_run import checks_of
from lake_assets.upkeep.checks.facts import Scope
from lake_assets.upkeep.report.state import read_stream_state
from lake_assets.wings.land.writer import LandingWriter
from lake_assets_tests.ingest.index.indexing import index, with_partition
from lake_assets_tests.tiers import more
from lake_assets_tests.upkeep.checks.checked import check, run_check
from lake_assets_tests.world import NW, SW, World, plan, sales

VALUES = [
    "a b",
    "é",
    "(1)",
    "a+b",
    "x;y",
    "10:30",
    "a=b",
    "50%",
    "%41",
    "it's",
    "[x]",
    "plain",
    "漢 {字}",
    "~a@b!",
    "A&B",
]
ROWS = pa.table({"id": list(range(len(VALUES))), "k": VALUES})


def by_duckdb(folder: str, rows: pa.Table) -> None:
    _ = rows  # which DuckDB finds by the name
    duckdb.sql(f"COPY rows TO '{folder}' (FORMAT parquet, PARTITION_BY (k), OVERWRITE_OR_IGNORE)")


def by_pyarrow(folder: str, rows: pa.Table) -> None:
    ds.write_dataset(
        rows,
        folder,
        basename_template="of_pyarrow_{i}.parquet",
        format="parquet",
        partitioning=ds.partitioning(pa.schema([("k", pa.string())]), flavor="hive"),
        existing_data_behavior="overwrite_or_ignore",
    )


def by_pandas(folder: str, rows: pa.Table) -> None:
    rows.to_pandas().to_parquet(folder, partition_cols=["k"])


def by_polars(folder: str, rows: pa.Table) -> None:
    frame = pl.from_arrow(rows)
    assert isinstance(frame, pl.DataFrame)
    frame.write_parquet(folder, partition_by="k", mkdir=True)


def by_nothing_encoded(folder: str, rows: pa.Table) -> None:
    for row in rows.to_pylist():
        target = Path(folder) / f"k={row['k']}"
        target.mkdir(parents=True, exist_ok=True)
        duckdb.sql(f"COPY (SELECT {row['id']} AS id) TO '{target}/raw.parquet'".replace("it's", "it''s"))


WRITERS: dict[str, Callable[[str, pa.Table], None]] = {
    "duckdb": by_duckdb,
    "pyarrow": by_pyarrow,
    "pandas": by_pandas,
    "polars": by_polars,
    "raw": by_nothing_encoded,
}


def of_text(world: World) -> World:
    world.options = {"partitions": {"k": {}}}
    return world


def refresh(world: World) -> dict[str, str | None]:
    """Ingest every landed partition, each as a refresh of its own prefix; returns the errors."""
    wanted = list(list_landed(world.stream)[0])
    return {
        str(o.partition): str(o.error) if o.error else None for o in ingest_all(world.stream, wanted, world.sessions)
    }


def in_lake(world: World) -> list[tuple[Any, ...]]:
    return world.query("SELECT id, k FROM lake.sales ORDER BY ALL")


def failed_checks(world: World) -> dict[str, str]:
    results = [run_check(world.stream, name, Scope()) for name in checks_of(world.stream)]
    return {result.name: result.description for result in results if not result.passed}


@pytest.mark.parametrize("mode", ["replace", *more(["append", "index"])])
@pytest.mark.parametrize("writer", WRITERS)
def test_what_each_writer_lands_is_read_back(local_world: World, writer: str, mode: str) -> None:
    of_text(local_world).options["mode"] = mode
    refused = {"raw": {"%41", "a=b"} if mode == "index" else {"%41"}}.get(writer, set())  # raw, %41 is A
    rows = ROWS.filter(pa.array([value not in refused for value in VALUES]))
    WRITERS[writer](local_world.source["path"], rows)

    assert set(refresh(local_world).values()) == {None}

    assert in_lake(local_world) == sorted((row["id"], row["k"]) for row in rows.to_pylist())
    assert failed_checks(local_world) == {}


@pytest.mark.parametrize("mode", ["replace", *more(["append", "index"])])
def test_two_spellings_of_a_partition_are_one_partition(local_world: World, mode: str) -> None:
    of_text(local_world).options["mode"] = mode
    for number, writer in enumerate(WRITERS):
        rows = pa.table({"id": [number], "k": ["é 10:30 (1)"]})
        WRITERS[writer](local_world.source["path"], rows)
    assert len(list(Path(local_world.source["path"]).iterdir())) == 3
    partition = Partition.from_values(local_world.stream.config.partition_columns, {"k": "é 10:30 (1)"})

    landed, left_out = list_landed(local_world.stream)
    assert (list(landed), left_out.objects) == ([partition], ())
    assert landed == list_landed_in(local_world.stream, [partition])
    (planned,) = plan_stream(local_world.stream, [partition]).partitions
    assert len(planned.reads.objects) == len(WRITERS)
    assert refresh(local_world) == {str(partition): None}
    assert [number for number, _ in in_lake(local_world)] == list(range(len(WRITERS)))
    prefixes = {"NW": ["k=NW/"], "2026-02-11": ["k=2026-02-11/"], "a b": ["k=a b/", "k=a%20b/"]}
    for value, listed in prefixes.items():  # once where every writer spells it alike
        assert local_world.stream.prefixes(Partition.from_values(partition.columns, {"k": value})) == listed
    (state,) = read_stream_state(local_world.stream).partitions
    assert (state.state, state.is_waiting, state.objects) == ("committed", False, len(WRITERS))
    assert failed_checks(local_world) == {}


COMPOSED, DECOMPOSED = (unicodedata.normalize(form, "São Paulo, 한국") for form in ("NFC", "NFD"))


def land_in_both_forms(world: World) -> None:
    """The folder that macOS names has rows which are composed, as the others are."""
    for number, form in enumerate((COMPOSED, DECOMPOSED)):
        with world.landing.create(f"k={form}/a.parquet") as file:
            pq.write_table(pa.table({"id": [number], "k": [COMPOSED]}), file)


@pytest.mark.parametrize("written", [{}, {"k": {"values": [DECOMPOSED]}}], ids=["found", "values"])
@pytest.mark.parametrize("mode", ["replace", *more(["append"])])
def test_composed_and_decomposed_folders_are_one_partition(
    local_world: World, mode: str, written: dict[str, Any]
) -> None:
    of_text(local_world).options |= {"mode": mode} | ({"partitions": written} if written else {})
    land_in_both_forms(local_world)
    config = local_world.stream.config
    partition = Partition.from_values(config.partition_columns, {"k": DECOMPOSED})
    assert partition == Partition.from_values(config.partition_columns, {"k": COMPOSED})

    landed, left_out = list_landed(local_world.stream)
    assert (list(landed), left_out.objects, partition.path) == ([partition], (), f"k={COMPOSED}")
    assert landed == list_landed_in(local_world.stream, [partition])
    for text in (DECOMPOSED, COMPOSED, f"{DECOMPOSED[:3]}*"):
        wanted = Wanted(texts=("k=" + text.replace(",", "%2C"),), waiting=True)
        assert select(local_world.stream, wanted).partitions == (partition,)
    assert refresh(local_world) == {str(partition): None}

    assert in_lake(local_world) == [(0, COMPOSED), (1, COMPOSED)]
    assert not scan_landing(local_world.stream).pending
    assert [state.state for state in read_stream_state(local_world.stream).partitions] == ["committed"]
    assert failed_checks(local_world) == {}


@pytest.mark.parametrize("options", [{"mode": "index"}, {"partitions": {"k": {"exact": True}}}], ids=["index", "exact"])
def test_two_forms_are_two_partitions_where_values_are_exact(local_world: World, options: dict[str, Any]) -> None:
    of_text(local_world).options |= options
    for number, form in enumerate((COMPOSED, DECOMPOSED)):
        by_nothing_encoded(local_world.source["path"], pa.table({"id": [number], "k": [form]}))
    assert set(refresh(local_world).values()) == {None}
    assert in_lake(local_world) == [(0, COMPOSED), (1, DECOMPOSED)]
    assert failed_checks(local_world) == {}


@pytest.mark.parametrize("mode", ["replace", "append"])
def test_a_lake_with_decomposed_values_of_an_earlier_version_gets_no_row_twice(local_world: World, mode: str) -> None:
    of_earlier = {"partitions": {"k": {"exact": True}}, "mode": mode}
    local_world.options = of_earlier
    by_nothing_encoded(local_world.source["path"], pa.table({"id": [1], "k": [DECOMPOSED]}))
    assert set(refresh(local_world).values()) == {None}
    local_world.options = {"partitions": {"k": {}}, "mode": mode}

    ((partition, error),) = refresh(local_world).items()
    (planned,) = plan_stream(local_world.stream, list(list_landed(local_world.stream)[0])).partitions

    assert partition == f"k={COMPOSED}"
    assert "the lake has rows of partition" in str(error)
    assert "set `exact: true` for k" in str(error) == "".join(map(str, planned.decision.errors))
    assert in_lake(local_world) == [(1, DECOMPOSED)]
    local_world.options = of_earlier
    assert set(refresh(local_world).values()) == {None}
    assert in_lake(local_world) == [(1, DECOMPOSED)]


@pytest.mark.parametrize(
    ("layout", "options"),
    [
        ({"template": "{title,,}/{now(),2025,YY}-{now(),,MM}"}, {}),
        ({"template": "{title}/v={n}"}, {"path_columns": {"n": "integer"}}),
        *more([({"template": "{title}"}, {}), ({"template": "a={title}", "nested": True}, {})]),
        *more([({"template": "{title,,}", "compat": "olake"}, {})]),
    ],
    ids=lambda value: value.get("template"),
)
def test_what_land_writes_is_read_in_each_layout(
    local_world: World, layout: dict[str, Any], options: dict[str, Any]
) -> None:
    compat = "compat" in layout
    local_world.options = {"layout": layout, "partitions": {"title": {}}} | options
    titles = ["_draft", ".NET", "plain", "a/_b", "a/.c", None, "_delta_log", "_temporary", ".", ".hive-staging_1"]
    if compat:
        titles = titles[:6]
    rows = [{"id": n, "title": title, "n": 1} for n, title in enumerate(titles)]
    with LandingWriter("sales", local_world.config.streams["sales"]) as writer:
        writer.write(pa.Table.from_pylist(rows))

    assert set(refresh(local_world).values()) == {None}

    expected = {None if title is None and not compat else title for title in titles}
    assert {title for (title,) in local_world.query("SELECT title FROM lake.sales")} == expected
    assert read_stream_state(local_world.stream).left_out.unmatched == ()


def test_folders_of_engines_are_no_partitions(local_world: World) -> None:
    local_world.options = {"layout": "{region}/{date}"}
    path = Path(local_world.source["path"])
    local_world.landing  # noqa: B018 - makes the folder
    for folder in ("_temporary/0", "_delta_log", ".hive-staging_x", "NW/2026-02-11/_temporary", "_dead_letters/sales"):
        (path / folder).mkdir(parents=True)
        duckdb.from_arrow(sales(1)).to_parquet(f"{path / folder}/a.parquet")
    duckdb.from_arrow(sales(1)).to_parquet(f"{path}/NW/2026-02-11/a.parquet")

    landed, left_out = list_landed(local_world.stream)

    assert [str(p) for p in landed] == ["region=NW/date=2026-02-11"]
    assert (left_out.counts["hidden"], len(left_out.objects), left_out.listed) == (5, 5, 6)


LOGS = {
    "Delta": "_delta_log/00000000000000000003.json",
    "Delta's checkpoint": "_delta_log/00000000000000000010.checkpoint.parquet",
    "Hudi": ".hoodie/hoodie.properties",
    "Iceberg": "metadata/v1.metadata.json",
    "Iceberg of a catalog": "metadata/00001-9c12d441-03fe-4693-9a96-a0705ddf69c1.gz.metadata.json",
    "Delta in a partition": "region=NW/date=2026-02-11/_delta_log/00000000000000000000.json",
}


@pytest.mark.parametrize("case", LOGS)
def test_the_folder_of_a_table_with_a_log_is_refused_by_every_reader_until_the_log_is_gone(
    local_world: World, case: str
) -> None:
    local_world.options = {"sensor": {"type": "objects"}}
    local_world.land(NW, sales(1))
    log = Path(local_world.source["path"]) / LOGS[case]
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("{}", encoding="utf-8")
    config = local_world.config.streams["sales"]
    readers: tuple[Callable[[], object], ...] = (
        lambda: plan(local_world.stream, local_world.partition(NW)),
        lambda: local_world.ingest(NW),
        lambda: list_landed(local_world.stream),
        lambda: scan(config, Store(config.source), ""),
    )

    for reader in readers:
        with pytest.raises(StorageError, match=r"is the folder of a table of \w+, whose log"):
            reader()

    log.unlink()
    assert local_world.ingest(NW).row.status == "committed"
    assert local_world.totals() == [1]


def test_a_table_with_a_log_beside_what_a_stream_reads_is_none_of_its_own(local_world: World) -> None:
    local_world.land(NW, sales(1))
    for folder in ("orders", "region=SW/date=2026-02-11"):
        log = Path(local_world.source["path"]) / folder / LOGS["Delta"]
        log.parent.mkdir(parents=True)
        log.write_text("{}", encoding="utf-8")

    assert local_world.ingest(NW).row.status == "committed"
    assert [str(p) for p in list_landed(local_world.stream)[0]] == [NW.replace(",", "/")]


# An empty value: refused, NULL, or a value of its own.

CA, EMPTY, NULL = "state=CA", "state=", "state=__HIVE_DEFAULT_PARTITION__"
STATES = pa.table({"id": [1, 2, 3], "state": ["CA", "", None]})
WITH_EMPTY = [(1, "CA"), (2, ""), (3, None)]


def with_empty(empty: str | None, **more: Any) -> dict[str, Any]:
    return {"partitions": {"state": {} if empty is None else {"empty": empty}}} | more


def write_states(world: World) -> None:
    """The folders that pyarrow writes: state=CA, state= and state=__HIVE_DEFAULT_PARTITION__."""
    root = Path(world.source["path"])
    root.mkdir(parents=True, exist_ok=True)
    ds.write_dataset(STATES, root, partitioning=["state"], partitioning_flavor="hive", format="parquet")
    assert (root / "state=").is_dir()


def test_an_empty_value_lies_in_no_partition_by_default_and_is_named(local_world: World) -> None:
    local_world.options = with_empty(None)
    write_states(local_world)

    state = read_stream_state(local_world.stream)

    assert {partition.partition.path for partition in state.partitions} == {CA, NULL}
    (unmatched,) = state.left_out.unmatched
    assert unmatched.key == "state=/part-0.parquet"
    assert "the path has an empty value of state: set `empty: value` or `empty: null`" in str(unmatched.why)
    with pytest.raises(PartitionError, match="is empty"):
        local_world.partition(EMPTY)


def test_objects_of_an_empty_value_that_is_null_are_those_of_the_partition_null(local_world: World) -> None:
    local_world.options = with_empty("null")
    write_states(local_world)

    found, unmatched = list_landed(local_world.stream)

    null = local_world.partition(NULL)
    assert (local_world.partition(EMPTY), unmatched.objects) == (null, ())
    assert {str(partition): len(manifest.objects) for partition, manifest in found.items()} == {CA: 1, NULL: 2}
    assert found[null] == local_world.stream.manifest(null)


def test_an_empty_value_is_a_partition_of_its_own_from_end_to_end(local_world: World) -> None:
    local_world.options = with_empty("value")
    write_states(local_world)
    wanted = [local_world.partition(text) for text in (CA, EMPTY, NULL)]

    assert len({*wanted}) == 3
    for status in ("committed", "skipped"):
        outcomes = list(ingest_all(local_world.stream, wanted, local_world.sessions))
        assert [outcome.is_done and outcome.row.status for outcome in outcomes] == [status] * 3

    assert local_world.query("SELECT id, state FROM lake.sales ORDER BY id") == WITH_EMPTY
    assert local_world.query("SELECT id FROM lake.sales WHERE state = ?", "") == [(2,)]
    assert {row.load_partition for row in local_world.ledger()} == {CA, EMPTY, NULL}
    state = read_stream_state(local_world.stream)
    states = {item.partition.path: item.state for item in state.partitions}
    assert states == dict.fromkeys((CA, EMPTY, NULL), "committed")
    assert state.left_out.unmatched == ()
    local_world.ingest(EMPTY, force=True)  # replaces itself and nothing else
    assert local_world.query("SELECT id, state FROM lake.sales ORDER BY id") == WITH_EMPTY


def test_a_file_that_is_registered_in_place_has_the_empty_value(indexed_world: World, strategy: str) -> None:  # noqa: ARG001
    indexed_world.options |= with_empty("value")
    write_states(indexed_world)

    outcomes = index(indexed_world)

    assert [outcome.error for outcome in outcomes.values()] == [None] * 3
    assert indexed_world.query("SELECT id, state FROM lake.sales ORDER BY id") == WITH_EMPTY


@pytest.mark.parametrize(("empty", "folders"), [("value", {CA, EMPTY, NULL}), ("null", {CA, NULL}), (None, {CA, NULL})])
def test_land_writes_an_empty_value_if_it_is_one(tmp_path: Path, empty: str | None, folders: set[str]) -> None:
    stream = StreamConfig.model_validate({"source": str(tmp_path), "destination": {"table": "t"}} | with_empty(empty))

    with LandingWriter("sales", stream) as writer:
        writer.write(STATES)

    assert {path.parent.name for path in tmp_path.rglob("*.parquet")} == folders
    locator = PartitionLocator(stream)
    assert {str(locator.find(f"{folder}/a.parquet")) for folder in folders} == folders


def test_dagster_has_a_key_for_an_empty_value(local_world: World) -> None:
    local_world.options = {"partitions": {"state": {"empty": "value", "values": ["CA", "", "__EMPTY__"]}}}
    stream = local_world.stream
    columns = stream.config.partition_columns

    keys = partitions_def(stream).get_partition_keys()

    assert keys == ["CA", "__EMPTY__", "%5F_EMPTY__"]
    assert [cell_of_key(columns, key) for key in keys] == [Partition(columns, (v,)) for v in ("CA", "", "__EMPTY__")]
    assert [partition_key(cell_of_key(columns, key)) for key in keys] == keys


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"partitions": {"n": {"type": "integer", "empty": "value"}}}, "empty is for the type string"),
        ({"partitions": {"s": {"in": "rows", "empty": "null"}}}, "empty: null is for paths"),
        ({"partitions": {"s": {"empty": "null"}}, "mode": "index"}, "partitions.s is empty: null"),
        ({"partitions": {"s": {"empty": "value"}}, "layout": "{s}"}, "a folder that is {s} alone"),
        ({"partitions": {"s": {"empty": "maybe"}}}, "'null', 'value' or 'refuse'"),
    ],
)
def test_the_config_refuses_impossible_settings_of_empty_values(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        StreamConfig.model_validate({"source": "/landing", "destination": {"table": "t"}} | options)


# Objects of one flat folder, with the values of their partitions in their names.

FLAT = {"files": "sales_{date}_{region}_*.parquet"}
NWX = "region=NWX,date=2026-02-11"


@pytest.mark.parametrize("mode", ["replace", *more(["append", "index"])])
def test_each_mode_reads_the_objects_of_a_flat_folder_that_are_the_partitions(world: World, mode: str) -> None:
    world.options = FLAT | {"mode": mode}
    for text in (NW, SW, NWX):
        world.land(text, with_partition(world.partition(text).texts()["region"], rows=2), "a")
    stray = world.land(NW, with_partition("NW"), "a").replace("2026-02-11", "2026-02-30")
    with world.landing.create(stray.rpartition("/")[2]) as file:
        file.write(b"x")
    assert set(scan_landing(world.stream).pending) == {world.partition(text) for text in (NW, SW, NWX)}

    first = world.ingest(NW)

    assert first.row.row_count == 2
    assert first.row.source_glob.endswith("/sales_2026-02-11_NW_*.parquet")
    assert plan(world.stream, world.partition(NW)).decision.action == "skip"
    assert set(scan_landing(world.stream).pending) == {world.partition(SW), world.partition(NWX)}

    world.land(NW, with_partition("NW", rows=3), "b")
    again = world.ingest(NW)

    assert again.row.row_count == {"replace": 5}.get(mode, 3)
    assert world.totals(NW) == [0, 0, 1, 1, 2]
    for outcome in ingest_all(world.stream, [world.partition(text) for text in (SW, NWX)], world.sessions):
        assert outcome.error is None
    assert len(world.totals()) == 9
    assert not scan_landing(world.stream).pending
    assert [(item.uri, item.kind) for item in list_landed(world.stream)[1].objects] == [(stray, "unmatched")]
    assert read_stream_state(world.stream).counts["committed"] == 3


def test_a_column_of_the_rows_beside_the_date_of_the_names(local_world: World) -> None:
    local_world.options = {
        "files": "sales_{date}_*.parquet",
        "partitions": {
            "region": {"values": ["NW", "SW"], "in": "rows"},
            "date": {"type": "date", "start": "2026-02-10"},
        },
    }
    for name, regions in (("a", "NW"), ("b", "SW")):
        local_world.land(NW, with_partition(regions).drop_columns("date"), name)

    for text in (NW, SW):
        assert local_world.ingest(text).row.row_count == 2

    assert local_world.totals(SW) == [0, 1]
    assert not scan_landing(local_world.stream).pending


def test_in_a_flat_folder_an_absent_partition_is_named_and_a_bad_object_quarantined(
    local_world: World,
) -> None:
    local_world.options = FLAT | {"on_bad_object": "quarantine"}
    local_world.land(NWX, sales(1), "a")

    with pytest.raises(EmptySourceError, match=r"sales_2026-02-11_NW_\*\.parquet"):
        local_world.ingest(NW)

    local_world.land(NW, sales(1), "a")
    bad = local_world.land(NW, b"x" * 100, "b")
    local_world.ingest(NW)
    with local_world.stream.lake.open() as lake:
        assert set(local_world.stream.quarantined(lake)[local_world.partition(NW)]) == {bad}
    local_world.unland(NW, "a")
    local_world.unland(NW, "b")
    with pytest.raises(EmptySourceError, match=r"sales_2026-02-11_NW_\*\.parquet"):
        local_world.ingest(NW)
    assert local_world.totals(NW) == [1]


def test_an_object_of_the_table_in_no_partition_fails_the_check_and_one_of_another_table_does_not(
    local_world: World,
) -> None:
    local_world.options = FLAT
    local_world.land(NW, sales(1), "a")
    local_world.ingest(NW)
    for name, passes in (("stock_2026-02-11.parquet", True), ("sales_today_NW_0.parquet", False)):
        with local_world.landing.create(name) as file:
            file.write(b"x")
        result = check(local_world, "landing_zone")
        assert result.passed is passes

    assert "1 object in no partition" in result.description
