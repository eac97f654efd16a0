import datetime as dt
import json
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake_assets.base.texts import durations
from lake_assets.config.layout.partition import Partition, PartitionColumn
from lake_assets.config.storages import LocalStorage
from lake_assets.ingest.view import view_partition
from lake_assets.lake.catalog.preview import PartitionView
from lake_assets.lake.session import LakeSession
from lake_assets.orchestration.metadata import markdown, preview_markdown, table_schema
from lake_assets.storage.formats.parquet_files import column_descriptions
from lake_assets.storage.store import Store
from lake_assets_tests.orchestration.in_process import Materialize, logged
from lake_assets_tests.world import NW, World, sales

REGION = PartitionColumn("region", "string")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a|b", r"a\|b"),
        ("two\nlines\tand more", "two lines and more"),
        ("<script>alert(1)</script>", r"\<script\>alert(1)\</script\>"),
        ("*_`[x](y)", r"\*\_\`\[x\](y)"),
        ("\\|", r"\\\|"),
        ("ünïcode 2013-01-01", "ünïcode 2013-01-01"),
    ],
)
def test_nothing_in_a_value_acts_as_markdown(text: str, shown: str) -> None:
    assert markdown(text) == shown


def test_a_preview_is_a_table_that_says_how_much_it_leaves_out() -> None:
    view = PartitionView(
        (("id", "BIGINT"), ("na|me", "VARCHAR")), 12_000, (("1", "x|y"), ("2", None), ("3", "zz " * 30))
    )

    assert preview_markdown(view).splitlines() == [
        r"| id | na\|me |",
        "| --- | --- |",
        r"| 1 | x\|y |",
        "| 2 | *NULL* |",
        f"| 3 | {'zz ' * 26}zz… |",
        "",
        "first 3 of 12,000 rows",
    ]


@pytest.mark.parametrize(
    ("columns", "value", "rows", "place"),
    [(6, "x" * 40, 2, "page"), (12, "1", 4, "page"), (60, "x" * 20, 4, "dialog"), (60, "1", 5, "dialog")],
)
def test_a_preview_that_is_wider_than_its_place_has_a_line_for_each_column(
    columns: int, value: str, rows: int, place: str
) -> None:
    names = tuple((f"column_{number}", "VARCHAR") for number in range(columns))

    text = preview_markdown(PartitionView(names, 50, ((value, None, *[value] * (columns - 2)),) * 10))

    lines = text.splitlines()
    assert lines[0] == f"| column | {' | '.join(f'row {number + 1}' for number in range(rows))} |"
    shown = value if len(value) <= 24 else f"{value[:24]}…"
    assert lines[2] == rf"| column\_0 | {' | '.join([shown] * rows)} |"
    assert lines[3] == rf"| column\_1 | {' | '.join(['*NULL*'] * rows)} |"
    assert len(lines) == 2 + columns + 2
    assert lines[-1] == f"first {rows} of 50 rows"
    assert (len(text) < 1000) == (place == "page")  # where Dagster shows it


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        ({}, "0.00 s"),
        ({"list": 0.001, "job": 1.7, "commit": 0.02}, "1.7 s: job 1.7 s, commit 0.02 s"),
        ({"job": 252.0}, "4 min 12 s"),
        ({"list": 0.06, "job": 59.97}, "1 min 0 s: list 0.06 s, job 1 min 0 s"),
    ],
)
def test_the_seconds_of_all_steps_are_one_text(seconds: dict[str, float], text: str) -> None:
    assert durations(seconds) == text


def test_the_schema_marks_the_partition_columns_and_has_descriptions() -> None:
    columns = [("total", "DOUBLE"), ("Region", "VARCHAR"), ("date", "DATE")]

    schema = table_schema(columns, ["region", "date"], {"total": "Gross", "date": "Local"})

    assert schema.columns == [
        dg.TableColumn("total", "DOUBLE", description="Gross"),
        dg.TableColumn("Region", "VARCHAR", description="Partition column"),
        dg.TableColumn("date", "DATE", description="Partition column: Local"),
    ]


def described(field: pa.Field, **metadata: str) -> pa.Field:
    return field.with_metadata(metadata)


def test_columns_are_described_by_the_landed_files_and_before_these_by_the_config(
    local_world: World, tmp_path: Path, materialize: Materialize
) -> None:
    schema = pa.schema(
        [
            described(pa.field("id", pa.int64()), comment="Number of the receipt"),
            described(pa.field("total", pa.float64()), description="Net"),
        ]
    )
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table([[1], [2.5]], schema=schema), path)
    local_world.land(NW, path.read_bytes())
    local_world.options["columns"] = {"Total": "Gross, in USD", "date": "Local day of the till"}

    for _ in range(2):  # committed, then skipped
        (event,) = materialize("2026-02-11|NW").get_asset_materialization_events()
        shown = event.materialization.metadata["dagster/column_schema"].value
        assert isinstance(shown, dg.TableSchema)
        assert {column.name: column.description for column in shown.columns} == {
            "id": "Number of the receipt",
            "total": "Gross, in USD",
            "region": "Partition column",
            "date": "Partition column: Local day of the till",
        }


def test_a_comment_that_spark_writes_describes_its_column(tmp_path: Path) -> None:
    fields = [{"name": "Total", "type": "double", "nullable": True, "metadata": {"comment": "Gross"}}, {"name": "id"}]
    spark = {"type": "struct", "fields": fields[:1]}
    for name, written in (("a", json.dumps(spark)), ("b", "{"), ("c", json.dumps({"fields": fields}))):
        table = pa.table({"Total": [1.0]}).replace_schema_metadata(
            {"org.apache.spark.sql.parquet.row.metadata": written}
        )
        pq.write_table(table, tmp_path / f"{name}.parquet")
    store = Store(LocalStorage(path=str(tmp_path)))

    assert [column_descriptions(store, f"{name}.parquet") for name in "abc"] == [{"total": "Gross"}, {}, {}]


@pytest.mark.more
def test_a_description_of_an_unknown_column_is_a_warning_that_names_it(
    local_world: World, materialize: Materialize, instance: dg.DagsterInstance
) -> None:
    local_world.land(NW, sales(1))
    local_world.options["columns"] = {"totl": "Gross, in USD"}

    assert materialize("2026-02-11|NW", instance=instance).success

    text = "streams.sales.columns describes totl, which the table main.sales does not have"
    assert text in logged(instance)


def fill(lake: LakeSession) -> None:
    lake.rows("CREATE TABLE lake.sales (at_time TIMESTAMPTZ, raw BLOB, tags VARCHAR[], region VARCHAR)")
    for region, rows in (("O'Hare", 12), (None, 1)):
        lake.rows(
            "INSERT INTO lake.sales SELECT '2026-02-11 10:00:00+00', '\\xFF|'::BLOB, ['a', NULL], ? FROM range(?)",
            [region, rows],
        )


@pytest.mark.parametrize(("region", "rows"), [("O'Hare", 12), (None, 1), ("O", 0)])
def test_a_view_shows_one_partition_only_and_at_most_ten_rows(
    local_world: World, region: str | None, rows: int
) -> None:
    with local_world.stream.lake.open(create=True) as lake:
        assert view_partition(lake, local_world.stream.table, Partition((REGION,), (region,))) is None
        fill(lake)

        view = view_partition(lake, local_world.stream.table, Partition((REGION,), (region,)))

    assert view is not None
    assert view.columns == (
        ("at_time", "TIMESTAMP WITH TIME ZONE"),
        ("raw", "BLOB"),
        ("tags", "VARCHAR[]"),
        ("region", "VARCHAR"),
    )
    assert view.rows == rows
    assert view.preview is not None
    assert len(view.preview) == min(rows, 10)
    assert {(raw, tags, found) for _, raw, tags, found in view.preview} <= {("\\xFF|", "[a, NULL]", region)}
    times = {dt.datetime.fromisoformat(time or "") for time, *_ in view.preview}
    assert times <= {dt.datetime(2026, 2, 11, 10, tzinfo=dt.UTC)}
