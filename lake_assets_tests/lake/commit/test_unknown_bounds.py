"""No query skips rows because a file's bounds are unknown, whichever client adds files after it."""

from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake_assets.base.duckdb_engine import literal
from lake_assets.lake.catalog.bounds import merged
from lake_assets.lake.commit.direct import replace_directly
from lake_assets.lake.commit.extension import replace_by_extension
from lake_assets.lake.commit.strategy import Strategy
from lake_assets.schema.ducklake_types import sql_type
from lake_assets_tests.lake.commit.strategy_pair import (
    NOTHING,
    SCHEMA,
    Catalogs,
    StrategyLake,
    empty_lake,
    empty_pair,
    row,
)
from lake_assets_tests.tiers import more, soak

NW = "region=NW,date=2026-02-11"
SW = "region=SW,date=2026-02-11"
NE = "region=NE,date=2026-02-11"
POSTGRES = pytest.param("postgres", marks=pytest.mark.servers)
MORE_POSTGRES = pytest.param("postgres", marks=[pytest.mark.servers, pytest.mark.soak])
CATALOGS = pytest.mark.parametrize("catalog", ["sqlite", MORE_POSTGRES], indirect=True)
ALONE = [name for name in SCHEMA.names if name not in {"flag", "tags", "shape", "counts"}]

# Its first row group has no bounds, so DuckLake takes those of the file for unknown.
UNKNOWN = [NOTHING, NOTHING, row(40)]


@pytest.fixture
def side(catalog: Catalogs, tmp_path: Path) -> StrategyLake:
    return empty_lake(catalog, tmp_path / "lake", replace_directly)


def insert_by_a_client(side: StrategyLake, partition: str, number: int) -> None:
    """Add a row by a client of DuckLake that knows nothing of this package."""
    keys = dict(part.split("=") for part in partition.split(","))
    added = pa.Table.from_pylist([row(number)], SCHEMA)
    with side.client() as client:
        client.register("added", added)
        client.execute("INSERT INTO lake.t BY NAME SELECT *, ? AS region, ?::DATE AS date FROM added", [*keys.values()])


def bounds(side: StrategyLake, column: str) -> tuple[str | None, str | None]:
    """The bounds of a column of the whole table."""
    (found,) = side.query(
        "SELECT min_value, max_value FROM __ducklake_metadata_lake.ducklake_table_column_stats "
        "JOIN __ducklake_metadata_lake.ducklake_column USING (table_id, column_id) WHERE column_name = ?",
        column,
    )
    return found


def missed(side: StrategyLake, *numbers: int) -> list[tuple[str, int]]:
    """The columns and rows that a condition on the column does not find."""
    result = []
    with side.client() as client:
        for name in ALONE:
            sql = sql_type(SCHEMA.field(name).type, name)
            texts = client.execute(f"SELECT i64, {name}::VARCHAR FROM lake.t WHERE i64 IS NOT NULL").fetchall()
            assert sorted(i64 for i64, _ in texts) == sorted(10 * number for number in numbers)
            for i64, text in texts:
                condition = f"{name} = {literal(text)}::{sql}"
                if client.execute(f"SELECT count(*) FROM lake.t WHERE {condition}").fetchall() != [(1,)]:
                    result.append((name, i64))
    return result


@pytest.mark.more
@CATALOGS
@pytest.mark.parametrize(
    ("strategy", "next_strategy", "is_first"),
    [
        (replace_directly, None, False),
        (replace_by_extension, replace_directly, False),
        *soak(
            [
                (replace_directly, replace_directly, True),
                (replace_directly, replace_by_extension, False),
                (replace_by_extension, None, True),
                (replace_by_extension, replace_by_extension, True),
            ]
        ),
    ],
)
def test_values_below_those_of_a_later_commit_are_found(
    side: StrategyLake, strategy: Strategy, next_strategy: Strategy | None, *, is_first: bool
) -> None:
    if not is_first:
        side.replace(NW, [row(30)], strategy=replace_by_extension)
    side.replace(SW, UNKNOWN, strategy=strategy, row_group_size=2)
    if next_strategy is None:
        insert_by_a_client(side, NE, 70)
    else:
        side.replace(NE, [row(70)], strategy=next_strategy)
    assert missed(side, *([] if is_first else [30]), 40, 70) == []


@pytest.mark.more
@pytest.mark.parametrize("catalog", [POSTGRES], indirect=True)
def test_bounds_of_a_client_that_commits_during_the_correction_are_kept(
    side: StrategyLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catalogs of the other types admit one writer at a time."""
    side.replace(NW, [row(30)], strategy=replace_by_extension)
    tries = iter([70])

    def merged_later(*arguments: Any) -> Any:  # between reading the table's bounds and writing them
        for number in tries:
            insert_by_a_client(side, NE, number)
        return merged(*arguments)

    monkeypatch.setattr("lake_assets.lake.catalog.corrected_bounds.merged", merged_later)
    side.replace(SW, UNKNOWN, strategy=replace_by_extension, row_group_size=2)

    assert next(tries, None) is None
    assert missed(side, 30, 40, 70) == []
    assert bounds(side, "i64") == ("300", "700")


@CATALOGS
@pytest.mark.parametrize("strategy", [replace_directly, *more([replace_by_extension])])
def test_bounds_that_another_client_left_unknown_are_taken_from_the_files(
    side: StrategyLake, strategy: Strategy
) -> None:
    side.replace(NW, [row(30)], strategy=replace_by_extension)
    with side.ducklake.open() as session:
        session.rows(f"UPDATE {session.metadata}.ducklake_table_column_stats SET min_value = NULL, max_value = NULL")
    side.replace(SW, [row(40)], strategy=strategy)
    insert_by_a_client(side, NE, 70)
    assert missed(side, 30, 40, 70) == []


@pytest.mark.more
@CATALOGS
def test_bounds_of_a_file_without_statistics_are_read_from_its_data(
    catalog: Catalogs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = empty_pair(catalog, tmp_path)
    write = pq.write_table
    for side in pair:
        side.replace(SW, [NOTHING, NOTHING])
        assert bounds(side, "i64") == (None, None)
        side.replace(NW, [row(30)], strategy=replace_by_extension)
        with monkeypatch.context() as patch:
            patch.setattr(pq, "write_table", partial(write, write_statistics=False))
            side.replace(SW, [row(40)])
        side.replace(NW, [row(31)])
    expected = {
        "i8": ("30", "40"),
        "text": ("", None),  # for conditions only
        "amount": ("7.50", "10.00"),
        "instant": ("2026-02-11 12:00:30+00", "2026-02-11 12:00:40+00"),
    }
    for side in pair:
        assert {name: bounds(side, name) for name in expected} == expected
        insert_by_a_client(side, NE, 70)
        assert missed(side, 31, 40, 70) == []
