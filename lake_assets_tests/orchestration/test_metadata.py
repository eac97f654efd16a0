import datetime as dt

import dagster as dg
import pytest

from lake_assets.ingest.view import view_partition
from lake_assets.lake.catalog.preview import PartitionView
from lake_assets.lake.session import LakeSession
from lake_assets.layout.partition import Partition, PartitionColumn
from lake_assets.orchestration.metadata import (
    markdown,
    preview_markdown,
    table_schema,
)
from lake_assets_tests.world import World

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
    view = PartitionView((("id", "BIGINT"), ("na|me", "VARCHAR")), 12_000, (("1", "x|y"), ("2", None), ("3", "z" * 81)))

    assert preview_markdown(view).splitlines() == [
        r"| id | na\|me |",
        "| --- | --- |",
        r"| 1 | x\|y |",
        "| 2 | *NULL* |",
        f"| 3 | {'z' * 80}… |",
        "",
        "first 3 of 12,000 rows",
    ]


def test_the_schema_marks_the_partition_columns() -> None:
    schema = table_schema([("total", "DOUBLE"), ("Region", "VARCHAR")], ["region"])

    assert schema.columns == [
        dg.TableColumn("total", "DOUBLE"),
        dg.TableColumn("Region", "VARCHAR", description="Partition column"),
    ]


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


def test_there_is_no_view_of_a_table_that_is_not_there(local_world: World) -> None:
    with local_world.stream.lake.open(create=True) as lake:
        assert view_partition(lake, local_world.stream.table, Partition((REGION,), ("NW",))) is None
