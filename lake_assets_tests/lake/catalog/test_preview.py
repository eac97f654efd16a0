"""What a user sees of a partition, by its own files: what queries find, or nothing where only queries find it."""

import pytest

from lake_assets.lake.catalog.preview import view_of_files
from lake_assets.lake.session import LakeSession
from lake_assets_tests.world import NW, SW, World

NULL = "region=__HIVE_DEFAULT_PARTITION__,date=2026-02-11"

Preview = tuple[tuple[str | None, ...], ...]


def preview(world: World, lake: LakeSession, text: str) -> Preview | None:
    view = view_of_files(lake, world.stream.table, world.partition(text))
    return None if view is None else view.preview


def test_the_rows_are_those_of_the_partition(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for text, totals in ((NULL, (1, 2, 3)), (SW, (4,))):
        world.commit(text, *totals)

    with world.stream.lake.open(read_only=True) as lake:
        view = view_of_files(lake, world.stream.table, world.partition(NULL))
        was_attached = lake.is_attached
        monkeypatch.setattr("lake_assets.lake.catalog.preview.PREVIEW_ROWS", 2)
        assert len(preview(world, lake, NULL) or ()) == 2
        described = tuple((name, sql) for name, sql, *_ in lake.rows("DESCRIBE lake.sales"))

    assert view is not None
    assert view.preview == tuple((str(n), f"{n + 1}.0", None, "2026-02-11") for n in range(3))
    assert (view.columns, view.rows) == (described, 3)
    assert was_attached == (world.catalog["type"] == "duckdb")


def test_the_types_of_columns_have_the_names_that_duckdb_gives_them(local_world: World) -> None:
    columns = (
        "d DECIMAL(10, 2), t TIMESTAMPTZ, n TIMESTAMP_NS, u UUID, l DECIMAL(4,1)[], m MAP(VARCHAR, BIGINT), "
        's STRUCT("a b" TIMESTAMPTZ, c STRUCT(x FLOAT)), "odd ""name""" BLOB, region VARCHAR, date DATE'
    )
    with local_world.stream.lake.open(create=True) as lake:
        lake.rows(f"CREATE TABLE lake.sales ({columns})")
        lake.rows("ALTER TABLE lake.sales SET PARTITIONED BY (region, date)")
        view = view_of_files(lake, local_world.stream.table, local_world.partition(NW))
        described = tuple((name, sql) for name, sql, *_ in lake.rows("DESCRIBE lake.sales"))

    assert view is not None
    assert (view.columns, view.rows, view.preview) == (described, 0, ())


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
    local_world.commit(NW, 1, 2)
    local_world.execute("CALL lake.set_option('data_inlining_row_limit', 10, table_name => 'sales')", statement)
    with local_world.stream.lake.open(read_only=True) as lake:
        assert preview(local_world, lake, NW) is None
