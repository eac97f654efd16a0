"""The preview of a partition from its own files: the rows of a query, or none where only a query has them."""

import pytest

from lake_assets.lake.catalog.preview import preview_of_files
from lake_assets.lake.session import LakeSession
from lake_assets_tests.world import NW, SW, World, sales

NULL = "region=__HIVE_DEFAULT_PARTITION__,date=2026-02-11"


def preview(world: World, lake: LakeSession, text: str, rows: int = 10) -> list[tuple[object, ...]] | None:
    columns = [(name, sql) for name, sql, *_ in lake.rows("DESCRIBE lake.sales")]
    return preview_of_files(lake, world.stream.table, world.partition(text), columns, rows, 81)


@pytest.mark.parametrize("text", [NW, NULL])
def test_the_rows_are_those_of_the_partition(world: World, text: str) -> None:
    for other, totals in ((text, (1, 2, 3)), (SW, (4,))):
        world.land(other, sales(*totals))
        world.ingest(other)
    region = None if text == NULL else "NW"

    with world.stream.lake.open(read_only=True) as lake:
        assert preview(world, lake, text) == [(str(n), f"{n + 1}.0", region, "2026-02-11") for n in range(3)]
        assert len(preview(world, lake, text, rows=2) or ()) == 2


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM lake.sales WHERE total = 1",
        "ALTER TABLE lake.sales RENAME COLUMN total TO amount",
        "ALTER TABLE lake.sales ADD COLUMN note VARCHAR",
        "INSERT INTO lake.sales VALUES (9, 9, 'NW', '2026-02-11')",
    ],
)
def test_only_a_query_shows_what_other_clients_changed(local_world: World, statement: str) -> None:
    local_world.land(NW, sales(1, 2))
    local_world.ingest(NW)
    with local_world.stream.lake.open() as lake:
        lake.rows("CALL lake.set_option('data_inlining_row_limit', 10, table_name => 'sales')")
        lake.rows(statement)
    with local_world.stream.lake.open(read_only=True) as lake:
        assert preview(local_world, lake, NW) is None
