"""The direct strategy and the extension make the same catalog by the same commits."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import pytest

from lake_assets.config.lake import DUCKLAKE_VERSION
from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.catalog_database import NotDirectError
from lake_assets.lake.commit.direct import register_directly
from lake_assets.lake.commit.extension import register_by_extension, replace_by_extension
from lake_assets_tests.lake.commit.strategy_pair import NOTHING, Catalogs, StrategyLake, StrategyPair, empty_pair, row
from lake_assets_tests.tiers import soak

NW = "region=NW,date=2026-02-11"
SW = "region=a%2Fb%3D[x]* O'Hare ünïcode,date=2026-02-11"
NULL = "region=__HIVE_DEFAULT_PARTITION__,date=2026-02-11"
POSTGRES = pytest.param("postgres", marks=[pytest.mark.servers, pytest.mark.more])


@pytest.fixture(params=[{}] if duckdb.__version__ < "2" else [{DUCKLAKE_VERSION: name} for name in spec.VERSIONS])
def options(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The `attach_options` of new lakes: with DuckDB 2, one for each version of DuckLake's specification."""
    monkeypatch.setattr(spec, "TESTED", frozenset(spec.VERSIONS))
    return dict(request.param)


@pytest.fixture
def pair(catalog: Catalogs, options: dict[str, Any], tmp_path: Path) -> StrategyPair:
    """A lake with commits by the extension, and one with direct commits; each has one partition."""
    direct, extension = pair = empty_pair(catalog, tmp_path, options)
    for side in (direct, extension):
        side.replace(NW, [row(5), row(6)], strategy=replace_by_extension)
    return pair


def agree(pair: StrategyPair, but: frozenset[str] = frozenset()) -> None:
    direct, extension = (side.catalog() for side in pair)
    for title in extension.keys() - but:
        assert direct[title] == extension[title], title


def both(pair: StrategyPair, text: str, *files: Any, **options: Any) -> None:
    direct, extension = (side.replace(text, *files, **options) for side in pair)
    assert (direct.rows_before, direct.snapshot_id) == (extension.rows_before, extension.snapshot_id)


@pytest.mark.parametrize("catalog", ["sqlite", POSTGRES, *soak(["duckdb"])], indirect=True)
def test_new_replaced_cleared_and_extended_partitions(pair: StrategyPair) -> None:
    both(pair, NW, [row(1), row(100)], [row(50)])
    agree(pair)
    both(pair, SW, [row(n) for n in range(20)])
    both(pair, NW, [row(7)])
    both(pair, SW, [row(2)], [row(3)], [row(4)])
    both(pair, NULL, [row(1)])
    both(pair, NULL, [row(2), row(3)])
    both(pair, NW)
    both(pair, NW)
    both(pair, NW, [row(n) for n in (30, 9, 100, 2, 77)], [NOTHING, row(8), row(11), NOTHING], row_group_size=2)
    agree(pair)
    both(pair, SW, [NOTHING, NOTHING])
    both(pair, SW, [row(1)])
    agree(pair)
    for side in pair:
        side.replace(NW, [row(3)], [row(4)], strategy=replace_by_extension)
        side.execute("DELETE FROM lake.t WHERE i64 = 30")
        side.execute("INSERT INTO lake.t (i64, region, date) VALUES (1, 'NE', DATE '2026-02-12')")
    direct, extension = (side.query("SELECT rowid, * FROM lake.t ORDER BY ALL") for side in pair)
    assert direct == extension


@pytest.mark.more
def test_registered_files(catalog: Catalogs, tmp_path: Path) -> None:
    pair = empty_pair(catalog, tmp_path)

    def register(files: dict[str, Any]) -> None:
        strategies = (register_directly, register_by_extension)
        ours, theirs = (side.register(files, by) for side, by in zip(pair, strategies, strict=True))
        assert [(r.rows_before, r.snapshot_id) for r in ours] == [(r.rows_before, r.snapshot_id) for r in theirs]

    null, odd = "region=__HIVE_DEFAULT_PARTITION__,date=2026-02-12", "region=a%2Fb O'Hare,date=2026-02-12"
    register({NW: [row(1), row(100)], null: [row(2), NOTHING], odd: [row(3)]})
    register({NW: [row(7)], odd: [NOTHING]})
    for side in pair:
        assert side.replace(NW, [row(3)]).rows_before == 3
    register({NW: [row(4)]})
    for side in pair:  # the manifests name files of either lake's own folder
        side.execute("DELETE FROM lake.ingest_files")
    agree(pair)


def refused(side: StrategyLake, reason: str) -> None:
    before = side.catalog()
    with pytest.raises(NotDirectError, match=reason):
        side.replace(NW, [row(9)])
    assert side.catalog() == before


@pytest.mark.soak
def test_partitions_of_more_than_whole_files_are_left_to_the_extension(pair: StrategyPair) -> None:
    direct, _ = pair
    direct.replace(NW, [row(1), row(2)])
    direct.execute("DELETE FROM lake.t WHERE i64 = 10")
    deletes = "SELECT count(*) FROM __ducklake_metadata_lake.ducklake_delete_file"
    assert direct.query(deletes) == [(1,)]
    refused(direct, "rows were deleted")
    direct.replace(NW, [row(1)], strategy=replace_by_extension)
    direct.execute("CALL lake.set_option('data_inlining_row_limit', 10, table_name => 't')")
    direct.execute("INSERT INTO lake.t (i64, region, date) VALUES (1, 'NW', DATE '2026-02-11')")
    refused(direct, "the table has inlined rows")
    direct.execute("CALL ducklake_flush_inlined_data('lake')")
    direct.replace(NW, [row(1), row(2)])
    direct.execute("DELETE FROM lake.t WHERE i64 = 10")
    assert direct.query(deletes) == [(1,)]  # the second is inlined
    refused(direct, "rows were deleted")
    direct.execute("CALL ducklake_flush_inlined_data('lake')")
    direct.replace(NW, [row(1)], strategy=replace_by_extension)
    direct.execute("ALTER TABLE lake.t SET PARTITIONED BY (date)")
    refused(direct, "partitioned by date")
    direct.execute("ALTER TABLE lake.t SET PARTITIONED BY (region, year(date))")
    refused(direct, "plain values")
    direct.execute("ALTER TABLE lake.t SET PARTITIONED BY (region, date)")
    refused(direct, "another partitioning")


ONE_FOUND = {"i64 = 10": 1, "i64 >= 10": 1, "i8 < 2": 1, "region = 'NW'": 1, "f32 = 0.5": 1, "text LIKE 'ü1%'": 1}


@pytest.mark.more
@pytest.mark.parametrize(
    "files", [[[row(30), NOTHING, row(9)], [row(100)]], [[NOTHING, NOTHING]]], ids=["some", "null"]
)
def test_the_first_files_of_a_table(
    catalog: Catalogs, options: dict[str, Any], tmp_path: Path, files: list[Any]
) -> None:
    pair = empty_pair(catalog, tmp_path, options)
    both(pair, NW, *files, row_group_size=2)
    agree(pair)
    both(pair, SW, [NOTHING])
    both(pair, NW, [row(1)])
    agree(pair)
    counted(pair, {"true": 2} | ONE_FOUND)


def counted(pair: StrategyPair, conditions: Mapping[str, int]) -> None:
    """How many rows a plain client finds by conditions, in both lakes."""
    for side in pair:
        with side.client() as client:
            for condition, count in conditions.items():
                found = client.execute(f"SELECT count(*) FROM lake.t WHERE {condition}").fetchall()
                assert found == [(count,)], condition


@pytest.mark.more
def test_the_first_file_after_changed_columns(pair: StrategyPair) -> None:
    for side in pair:
        side.execute("ALTER TABLE lake.t RENAME COLUMN i8 TO small")
    both(pair, NW, [row(1)])
    agree(pair)
    for side in pair:
        side.execute("ALTER TABLE lake.t ADD COLUMN note VARCHAR")
    both(pair, SW, [row(1) | {"note": "a"}])
    both(pair, SW, [row(1) | {"note": "b"}])
    agree(pair, frozenset({"files", "mappings"}))  # the numbers of mappings differ
    names = (
        "SELECT source_name, target_field_id, parent_column, is_partition "
        "FROM __ducklake_metadata_lake.ducklake_name_mapping ORDER BY ALL"
    )
    assert pair[0].query(names) == pair[1].query(names)
    counted(pair, {"small = 1": 2, "note = 'b'": 1, "note IS NULL": 1})


WIDE = {"i8": "INTEGER", "u32": "UBIGINT", "f32": "DOUBLE", "amount": "DECIMAL(20,2)"}
WIDE_NESTED = {
    "shape": "STRUCT(x BIGINT, deep STRUCT(y DOUBLE[], z VARCHAR), more STRUCT(day DATE)[])",
    "counts": "MAP(VARCHAR, STRUCT(n BIGINT, share FLOAT))",
}
FOUND = {
    "note IS NULL": 4, "note = 'a'": 1, "note >= 'z'": 1, "i8 = 100000": 1, "i8 = 50": 1, "u32 > 4294967296": 1,
    "f32 = 1e300": 1, "amount = 12.5": 1,
}  # fmt: skip
FOUND_NESTED = {
    "shape.x = 50": 1, f"shape.x > {2**40}": 2, "shape.deep.z = 'z2'": 1, "shape.deep.z IS NULL": 4,
    "shape.more IS NULL": 4, "shape.more[1].day = DATE '2026-01-03'": 1, "counts['a'].share = 0.5": 1,
    "counts['k50'].n = 50": 1,
}  # fmt: skip


def grown(n: int) -> dict[str, Any]:
    """A row whose nested columns have values of the new fields and types."""
    return row(n) | {
        "shape": {"x": 2**40 + n, "deep": {"y": [0.5], "z": f"z{n}"}, "more": [{"day": row(n)["day"]}, None]},
        "counts": [("a", {"n": n, "share": n / 4})],
    }


@pytest.mark.more
def test_columns_that_were_added_or_widened_at_any_depth(pair: StrategyPair) -> None:
    """Earlier files lack the added column and fields, and have narrower types of the others."""
    for side in pair:
        side.replace(SW, [row(1), row(50)], strategy=replace_by_extension)
        side.execute("ALTER TABLE lake.t ADD COLUMN note VARCHAR")
        for column, kind in (WIDE | WIDE_NESTED).items():
            side.execute(f"ALTER TABLE lake.t ALTER COLUMN {column} SET DATA TYPE {kind}")
    for side in pair:
        side.replace(NW, [row(7) | {"note": "b"}], strategy=replace_by_extension)
    both(pair, NW, [grown(2) | {"i8": 100_000, "u32": 2**40, "f32": 1e300, "note": "a"}], [grown(3)])
    both(pair, "region=NE,date=2026-02-11", [row(4) | {"note": "z"}], [NOTHING])
    agree(pair)
    counted(pair, FOUND | FOUND_NESTED)
