"""What a Python program imports from `lake_assets`, and nothing that it does not need."""

import datetime as dt
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import lake_assets
from lake_assets import LakeAssetsError, PartitionsFailedError, open_stream
from lake_assets.base.errors import CatalogError, ConfigError, NoLakeError, OutsidePartitionError, PartitionError
from lake_assets_tests.faults.without_spark import sessions
from lake_assets_tests.world import NW, SW, World, sales

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["sessions"]

NW_VALUES = {"region": "NW", "date": dt.date(2026, 2, 11)}
PAGE = Path(lake_assets.__file__).parents[1].joinpath("docs/python.md").read_text("utf-8")
CONFIG = """\
lakes:
  shop: {{catalog: {{type: sqlite, path: catalog.sqlite}}, storage: data}}
streams:
{streams}
spark: {{spark.sql.shuffle.partitions: 3}}
"""
STREAM = """\
  {name}:
    source: landing
    partitions: {{region: {{}}, date: {{type: date, start: 2026-01-01}}}}
    destination: {{table: {name}}}
"""


def config_file(folder: Path, *names: str) -> Path:
    file = folder / "lake.yaml"
    file.write_text(CONFIG.format(streams="".join(STREAM.format(name=name) for name in names)))
    return file


@pytest.mark.parametrize(
    ("statement", "heavy"),
    [
        ("import lake_assets; dir(lake_assets); from lake_assets import LakeAssetsError", set()),
        ("from lake_assets import load_config, LakeConfig", {"pyarrow"}),
        ("from lake_assets import connect, open_stream, Stream, StreamPartition", {"pyarrow", "duckdb"}),
    ],
)
def test_an_import_imports_no_package_that_it_does_not_need(statement: str, heavy: set[str]) -> None:
    script = f"{statement}; import sys; print(*{{'dagster', 'pyspark', 'duckdb', 'pyarrow'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= heavy


def test_every_public_name_is_there_and_has_a_docstring() -> None:
    assert set(lake_assets.__all__) <= set(dir(lake_assets))
    assert Path(lake_assets.__file__).with_name("py.typed").exists()
    for name in lake_assets.__all__:
        assert getattr(lake_assets, name).__doc__, name
        assert f"`{name}" in PAGE, name


def test_a_partition_is_ingested_and_read_as_arrow(local_world: World) -> None:
    stream, spark = local_world.stream, local_world.sessions()
    with pytest.raises(NoLakeError, match="ingest a partition first"):
        stream.partition(NW).read()
    with stream.lake.open(create=True):
        pass
    with pytest.raises(CatalogError, match=r"the lake has no table main\.sales yet: ingest a partition first"):
        stream.partition(NW).read()
    local_world.land(NW, sales(1.5, 2))

    result = stream.partition(NW_VALUES).ingest(spark=spark)
    read = stream.partition({"date": "2026-02-11", "region": "NW"}).read()

    assert (result.row.status, result.row.row_count) == ("committed", 2)
    assert isinstance(read, pa.Table)
    assert sorted(read["total"].to_pylist()) == [1.5, 2]
    assert read.schema.field("date").type == pa.date32()
    assert set(read["region"].to_pylist()) == {"NW"}
    assert stream.partition(NW).read(columns=["total", "id"]).column_names == ["total", "id"]
    empty = stream.partition(SW).read()
    assert (empty.num_rows, empty.column_names) == (0, ["id", "total", "region", "date"])
    for column in ("nowhere", 'id" FROM sales --'):
        with pytest.raises(CatalogError, match=r"nowhere|sales --"):
            stream.partition(NW).read(columns=[column])


def test_a_snapshot_is_found_compared_and_restored(local_world: World) -> None:
    stream = local_world.stream
    for totals in ([1.5, 2], [3]):
        local_world.land(NW, sales(*totals))
        stream.partition(NW).ingest(spark=local_world.sessions())

    newest, first = stream.partition(NW_VALUES).history()
    difference = stream.partition(NW_VALUES).diff(first.snapshot, keys=["id"])
    dry = stream.partition(NW).restore(first.snapshot, dry_run=True)
    restored = stream.partition(NW_VALUES).restore(first.snapshot, hold=True)

    assert (newest.rows_before, newest.rows, first.rows) == (2, 1, 2)
    assert (difference.inserted, difference.deleted, difference.updated) == (0, 1, 1)
    assert dry.row is None
    assert restored.row is not None
    assert restored.row.snapshot_id == newest.snapshot + 1
    assert sorted(stream.partition(NW).read()["total"].to_pylist()) == [1.5, 2]
    assert stream.partition(NW).ingest().row.status == "skipped"
    assert stream.partition(NW).release().mode == "release"
    assert [entry.mode for entry in stream.history(limit=2)] == ["release", "restore"]
    with pytest.raises(PartitionError, match="is not held"):
        stream.partition(NW).release()


def test_a_partition_has_a_text_a_mapping_and_keywords(local_world: World) -> None:
    stream = local_world.stream
    named = stream.partition(NW)

    assert named == stream.partition(NW_VALUES) == stream.partition(region="NW", date="2026-02-11")
    assert named == stream.partition(named.partition) == stream.partition(named)
    assert (str(named), named.stream) == ("region=NW/date=2026-02-11", stream)
    with pytest.raises(PartitionError, match="the partition is named twice: give a text or mapping, or its values"):
        stream.partition(NW, region="NW")
    for text in ("region=NW", "region=NW|SW,date=2026-02-11", "date=2026-02"):
        with pytest.raises(PartitionError) as error:
            stream.partition(text)
        assert str(error.value) == (
            f"'{text}' can select several partitions: write one value for each column, region=…,date=…; "
            "`ingest` and `plan` of the stream take several."
        )


def test_a_selected_partition_is_the_one_whatever_its_values(local_world: World) -> None:
    """The grammar's signs are part of the value there."""
    Path(local_world.source["path"]).mkdir(exist_ok=True)
    stream = local_world.stream
    for region in ("N*", "a|b", "A..B", ".", "last:7", "a,b=c/d", "%2A", "ä\n ", "..", "N/A, x%2F", 7, None):
        partition = stream.partition(region=region, date="2026-02-11")

        assert partition.partition.values[0] == (None if region is None else str(region))
        for selection in (partition, [partition.partition], [{"region": region, "date": dt.date(2026, 2, 11)}]):
            (planned,) = stream.plan(selection).partitions
            assert planned.partition == partition.partition


def test_a_selection_is_planned_and_ingested(local_world: World) -> None:
    stream, spark = local_world.stream, local_world.sessions()
    local_world.land(NW, sales(1))
    local_world.land(SW, sales(2))
    local_world.land("region=NE,date=2026-03-01", sales(3))

    planned = stream.plan("date=2026-02")
    outcomes = stream.ingest("date=2026-02", spark=spark)
    mixed = stream.ingest(["date=2026-03", stream.partition(NW), NW_VALUES], spark=spark)

    of_february = [local_world.partition(text) for text in (NW, SW)]
    assert [(each.partition, each.action) for each in planned.work] == [
        (partition, "replace the partition") for partition in of_february
    ]
    assert [each.status for each in outcomes] == ["committed"] * 2
    assert {each.partition.values[0]: each.status for each in mixed} == {"NW": "skipped", "NE": "committed"}
    assert local_world.totals() == [1, 2, 3]


def test_no_partitions_are_no_work(local_world: World) -> None:
    local_world.land(NW, sales(1))

    assert local_world.stream.plan([]).partitions == ()
    assert local_world.stream.ingest([]) == []
    assert local_world.stream.ingest("region=NE") == []
    assert [each.status for each in local_world.stream.ingest([SW], landed_only=True)] == ["left_out"]
    assert local_world.data_files() == set()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"region": "NW"}, "the partition names region, and the stream's partition columns are region, date"),
        ({"region": "NW", "date": dt.datetime(2026, 2, 11, tzinfo=dt.UTC)}, "write it as YYYY-MM-DD"),
        ({"region": "NW", "date": 20260211}, "is not of type date"),
        ({"region": "", "date": "2026-02-11"}, "partition value region is empty"),
        ({"region": 1.5, "date": "2026-02-11"}, "partition value region is of Python's type float"),
    ],
)
def test_a_mapping_that_does_not_fit_is_refused(local_world: World, values: dict[str, object], message: str) -> None:
    with pytest.raises(PartitionError, match=message):
        local_world.stream.partition(values).ingest()


def test_a_number_names_its_own_folder_only_and_no_partition_of_another_stream(local_world: World) -> None:
    local_world.landing  # noqa: B018 - makes the folder
    nw = local_world.partition(NW)
    local_world.options = {"partitions": {"shop": {"type": "integer"}}}

    assert local_world.stream.partition(shop=7).plan().partition.path == "shop=7"
    with pytest.raises(PartitionError, match="write shop=7"):
        local_world.stream.partition(shop="007")
    with pytest.raises(PartitionError, match="is of another stream: the partition columns of sales are shop"):
        local_world.stream.partition(nw).read()


def test_a_plan_changes_nothing_and_refuses_what_an_ingest_refuses(local_world: World) -> None:
    local_world.land(NW, sales(1, 2))
    before = "region=NW,date=2025-12-31"

    planned = local_world.stream.partition(NW).plan()

    assert planned.action == "replace the partition"
    assert len(planned.landed.objects) == 1
    assert local_world.data_files() == set()
    with pytest.raises(OutsidePartitionError):
        local_world.stream.partition(before).plan()
    with pytest.raises(OutsidePartitionError):
        local_world.stream.partition(before).ingest()
    assert local_world.stream.partition(before).plan(outside=True).action.startswith("fail")


def test_many_partitions_fail_alone_and_the_error_has_all_outcomes(local_world: World) -> None:
    local_world.land(NW, sales(1))
    local_world.land(SW, b"no parquet")

    with pytest.raises(PartitionsFailedError, match="1 of 2 partitions failed:\nregion=SW/date=2026-02-11: ") as error:
        local_world.stream.ingest([NW, NW_VALUES, SW], spark=local_world.sessions())

    statuses = {outcome.partition.values[0]: outcome.status for outcome in error.value.outcomes}
    assert statuses == {"NW": "committed", "SW": "failed"}
    assert isinstance(error.value, LakeAssetsError)
    assert local_world.totals() == [1]
    again = local_world.stream.ingest([NW, SW], spark=local_world.sessions(), check=False)
    assert sorted(outcome.status for outcome in again) == ["failed", "skipped"]


def test_a_session_that_runs_is_used_and_left_running(local_world: World, spark: "SparkSession") -> None:
    local_world.land(NW, sales(1))

    assert local_world.stream.partition(NW).ingest().row.status == "committed"

    assert spark.range(3).count() == 3


@pytest.mark.more
def test_a_session_is_started_for_work_alone_and_stopped_again(tmp_path: Path, local_world: World) -> None:
    """In a process of its own, for in this one a session runs."""
    local_world.source["path"] = str(tmp_path / "landing")
    local_world.land(NW, sales(1))
    config_file(tmp_path, "sales")
    script = f"""
import lake_assets.spark.spark_session as module
from lake_assets import open_stream
from lake_assets.spark.jvm import has_session
started = []
def start(conf, start=module.start_session):
    started.append(conf["spark.sql.shuffle.partitions"])
    return start(conf)
module.start_session = start
sales = open_stream("lake.yaml")
print(sales.partition("{NW}").ingest().row.status, started, has_session())
print(sales.partition("{NW}").ingest().row.status, started, has_session())
"""

    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.stdout.splitlines() == ["committed ['3'] False", "skipped ['3'] False"], done.stderr


def test_a_stream_is_opened_by_path_or_config_and_named_among_several(tmp_path: Path) -> None:
    file = config_file(tmp_path, "sales")

    by_path = open_stream(str(file))
    by_config = open_stream(lake_assets.load_config(file), "sales")

    assert (by_path.name, by_path.config) == (by_config.name, by_config.config)
    assert by_path.spark.settings == {"spark.sql.shuffle.partitions": "3"}
    several = config_file(tmp_path, "sales", "returns")
    with pytest.raises(ConfigError, match="the config has several streams: name one of sales, returns"):
        open_stream(several)
    with pytest.raises(ConfigError, match="there is no stream 'orders': use sales or returns"):
        open_stream(several, "orders")


def test_a_release_is_that_of_a_partition(local_world: World) -> None:
    stream, partition = local_world.stream, local_world.stream.partition(NW)
    for totals in ([1.5, 2], [3]):
        local_world.land(NW, sales(*totals))
        partition.ingest(spark=local_world.sessions())
    _, first = stream.history(limit=2)
    partition.restore(first.snapshot, hold=True)
    assert partition.release().mode == "release"
