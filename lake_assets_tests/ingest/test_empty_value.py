"""An empty value of a partition column: refused, NULL, or a value of its own."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from lake_assets.config.streams import Stream
from lake_assets.errors import PartitionError
from lake_assets.ingest.api import ingest_all
from lake_assets.landing.writer import LandingWriter
from lake_assets.layout.partition import Partition
from lake_assets.orchestration.partition_keys import partition_key, partition_of, partitions_def
from lake_assets.report.state import read_state
from lake_assets.streams.landing_zone import list_landed
from lake_assets.streams.locator import PartitionLocator
from lake_assets_tests.ingest.index.indexing import index
from lake_assets_tests.world import World

CA, EMPTY, NULL = "state=CA", "state=", "state=__HIVE_DEFAULT_PARTITION__"
ROWS = pa.table({"id": [1, 2, 3], "state": ["CA", "", None]})
ALL = [(1, "CA"), (2, ""), (3, None)]


def options(empty: str | None, **more: Any) -> dict[str, Any]:
    return {"partitions": {"state": {} if empty is None else {"empty": empty}}} | more


def write(world: World) -> None:
    """The folders that pyarrow writes: state=CA, state= and state=__HIVE_DEFAULT_PARTITION__."""
    root = Path(world.source["path"])
    root.mkdir(parents=True, exist_ok=True)
    ds.write_dataset(ROWS, root, partitioning=["state"], partitioning_flavor="hive", format="parquet")
    assert (root / "state=").is_dir()


def test_by_default_it_lies_in_no_partition_and_is_named(local_world: World) -> None:
    local_world.options = options(None)
    write(local_world)

    state = read_state(local_world.stream)

    assert {partition.partition.path for partition in state.partitions} == {CA, NULL}
    (unmatched,) = state.left_out.unmatched
    assert unmatched.key == "state=/part-0.parquet"
    assert "the path has an empty value of state: set `empty: value` or `empty: null`" in str(unmatched.why)
    with pytest.raises(PartitionError, match="is empty"):
        local_world.partition(EMPTY)


def test_as_null_its_objects_are_those_of_the_partition_null(local_world: World) -> None:
    local_world.options = options("null")
    write(local_world)

    found, unmatched = list_landed(local_world.stream)

    null = local_world.partition(NULL)
    assert local_world.partition(EMPTY) == null
    assert unmatched.objects == ()
    assert {str(partition): len(manifest.objects) for partition, manifest in found.items()} == {CA: 1, NULL: 2}
    alone = local_world.stream.manifest(null)
    assert local_world.stream.fingerprint(found[null]) == local_world.stream.fingerprint(alone)


def test_as_a_value_it_is_a_partition_of_its_own_from_end_to_end(local_world: World) -> None:
    local_world.options = options("value")
    write(local_world)
    wanted = [local_world.partition(text) for text in (CA, EMPTY, NULL)]

    assert len({*wanted}) == 3
    for status in ("committed", "skipped"):
        outcomes = list(ingest_all(local_world.stream, wanted, local_world.sessions))
        assert [outcome.result and outcome.result.row.status for outcome in outcomes] == [status] * 3

    assert local_world.query("SELECT id, state FROM lake.sales ORDER BY id") == ALL
    assert local_world.query("SELECT id FROM lake.sales WHERE state = ?", "") == [(2,)]
    with local_world.stream.lake.open() as lake:
        assert {path for (path,) in lake.rows("SELECT load_partition FROM lake.ingest_runs")} == {CA, EMPTY, NULL}
    state = read_state(local_world.stream)
    assert {partition.partition.path: partition.state for partition in state.partitions} == dict.fromkeys(
        (CA, EMPTY, NULL), "committed"
    )
    assert state.left_out.unmatched == ()
    local_world.ingest(EMPTY, force=True)  # replaces itself and nothing else
    assert local_world.query("SELECT id, state FROM lake.sales ORDER BY id") == ALL


def test_a_file_that_is_registered_in_place_has_the_empty_value(indexed_world: World, strategy: str) -> None:  # noqa: ARG001
    indexed_world.options |= options("value")
    write(indexed_world)

    outcomes = index(indexed_world)

    assert [outcome.error for outcome in outcomes.values()] == [None] * 3
    assert indexed_world.query("SELECT id, state FROM lake.sales ORDER BY id") == ALL


@pytest.mark.parametrize(("empty", "folders"), [("value", {CA, EMPTY, NULL}), ("null", {CA, NULL}), (None, {CA, NULL})])
def test_land_writes_it_as_a_value_if_it_is_one(tmp_path: Path, empty: str | None, folders: set[str]) -> None:
    stream = Stream.model_validate({"source": str(tmp_path), "destination": {"table": "t"}} | options(empty))

    with LandingWriter("sales", stream) as writer:
        writer.write(ROWS)

    assert {path.parent.name for path in tmp_path.rglob("*.parquet")} == folders
    locator = PartitionLocator(stream)
    assert {str(locator.find(f"{folder}/a.parquet")) for folder in folders} == folders


def test_dagster_has_a_key_for_it(local_world: World) -> None:
    local_world.options = {"partitions": {"state": {"empty": "value", "values": ["CA", "", "__EMPTY__"]}}}
    stream = local_world.stream
    columns = stream.config.columns

    keys = partitions_def(stream).get_partition_keys()

    assert keys == ["CA", "__EMPTY__", "%5F_EMPTY__"]
    assert [partition_of(columns, key) for key in keys] == [Partition(columns, (v,)) for v in ("CA", "", "__EMPTY__")]
    assert [partition_key(partition_of(columns, key)) for key in keys] == keys


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"partitions": {"n": {"type": "integer", "empty": "value"}}}, "empty is for the type string"),
        ({"partitions": {"s": {"in": "rows", "empty": "null"}}}, "empty: null is for paths"),
        ({"partitions": {"s": {"empty": "null"}}, "mode": "index"}, "partitions.s is empty: null"),
        ({"partitions": {"s": {"empty": "value"}}, "layout": "{s}"}, "a folder that is {s} alone"),
        ({"partitions": {"s": {"empty": "maybe"}}}, "'null', 'value' or 'refuse'"),
    ],
)
def test_the_config_refuses_impossible_settings(more: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Stream.model_validate({"source": "/landing", "destination": {"table": "t"}} | more)
