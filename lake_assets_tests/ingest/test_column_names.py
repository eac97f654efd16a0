"""Every column name that DuckLake accepts works in both jobs and in every strategy and mode; others are refused."""

from dataclasses import replace

import dagster as dg
import pyarrow as pa
import pytest

from lake_assets.base.errors import CatalogError, SchemaError
from lake_assets.ingest.view import view_partition
from lake_assets.lake.catalog.catalog_database import NotDirectError
from lake_assets.lake.catalog.table import read_table
from lake_assets.lake.commit import strategy
from lake_assets.lake.commit.extension import replace_by_extension
from lake_assets.orchestration.metadata import materialization_metadata
from lake_assets.upkeep.checks.check_run import checks_of
from lake_assets.upkeep.checks.facts import Scope
from lake_assets.upkeep.maintenance.compaction import compact
from lake_assets_tests.ingest.index.indexing import index
from lake_assets_tests.tiers import more
from lake_assets_tests.upkeep.checks.checked import run_check
from lake_assets_tests.world import NW, SW, World

NAMES = (
    "a b",
    "é",
    'a"b',
    "it's",
    "a.b",
    "a",
    "a, b",
    "😀",
    "select",
    "a`b",
    "100%",
    "{x}",
    "?",
    "$1",
    "a\nb",
    "-",
    "007",
)


def odd(first: int = 0, names: tuple[str, ...] = NAMES) -> pa.Table:
    plain = {name: pa.array([first + n, first + n + 100]) for n, name in enumerate(names)}
    nested = pa.array([{"x y": first, "b": "z"}, None], pa.struct([("x y", pa.int64()), ("b", pa.string())]))
    return pa.table(plain | {"str uct": nested, "li.st": pa.array([[1.5], []])})


def rows(world: World) -> list[tuple[object, ...]]:
    return world.query("SELECT COLUMNS(* EXCLUDE (region, date)) FROM lake.sales ORDER BY 1")


def expected(*tables: pa.Table) -> list[tuple[object, ...]]:
    result = [tuple(row.values()) for table in tables for row in table.to_pylist()]
    return sorted(result, key=lambda row: str(row[0]).zfill(9))


def checked(world: World) -> dict[str, bool]:
    return {name: run_check(world.stream, name, Scope(None, None)).passed for name in checks_of(world.stream)}


@pytest.mark.parametrize(
    "world", [("sqlite", "local"), *more([(("duckdb", "local"),), (("postgres", "s3"),)])], indirect=True
)
def test_every_column_name_works_in_every_strategy_the_checks_and_the_ui(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.land(NW, odd())
    with monkeypatch.context() as patch:
        patch.setattr(strategy, "STRATEGIES", (replace_by_extension,))
        world.ingest(NW)
    world.land(SW, odd(1000))
    world.ingest(SW)  # directly
    world.land(NW, odd(2000))

    result = world.ingest(NW)

    assert rows(world) == expected(odd(1000), odd(2000))
    assert set(checked(world).values()) == {True}
    assert world.query('SELECT "a b" FROM lake.sales WHERE "a, b" = 2006 AND "a.b" = 2004') == [(2000,)]
    with world.stream.lake.open(read_only=True) as lake:
        view = view_partition(lake, world.stream.table, world.partition(NW))
    shown = materialization_metadata(replace(result, view=view))["dagster/column_schema"].value
    assert isinstance(shown, dg.TableSchema)
    assert {"a b", "é", "😀", "a\nb"} <= {column.name for column in shown.columns}


def test_the_direct_strategy_refuses_a_column_with_the_path_of_a_field(local_world: World) -> None:
    with local_world.stream.lake.open(create=True) as lake:
        lake.rows('CREATE TABLE lake.sales ("a, b" BIGINT, a STRUCT(b BIGINT), region VARCHAR)')
        with lake.read() as catalog, pytest.raises(NotDirectError, match=r"two columns of .* have one path"):
            read_table(catalog, local_world.stream.table)


@pytest.mark.more
def test_every_name_is_added_to_a_table_by_a_transform_and_compacted(either_lake: World) -> None:
    either_lake.options |= {"schema_policy": "evolve", "target_file_size": "1MiB"}
    either_lake.land(NW, odd(0, NAMES[:1]))
    either_lake.ingest(NW)
    either_lake.options["transform"] = {"sql": "SELECT *, `a b` + `a``b` AS `a b, added` FROM source"}
    for number in range(3):
        either_lake.land(NW, odd(number), f"{number}.parquet")
    changes = either_lake.ingest(NW).changes
    assert len(changes) == len(NAMES)
    assert "added column a b, added BIGINT" in map(str, changes)

    done = list(compact(either_lake.stream, 2, either_lake.sessions))

    assert [item.files_after for item in done] == [1] * len(done)
    assert either_lake.query('SELECT sum("é"), sum("a b, added"), count(*) FROM lake.sales') == [(312, 666, 8)]


def test_every_name_is_indexed(indexed_world: World, strategy: str) -> None:
    indexed_world.land(NW, odd())
    indexed_world.land(SW, odd(1000))

    result = index(indexed_world)

    assert [outcome.error for outcome in result.values()] == [None, None], strategy
    assert rows(indexed_world) == expected(odd(), odd(1000))


def test_columns_that_sql_cannot_distinguish_are_refused_with_a_hint(local_world: World) -> None:
    for table, told in (
        (pa.table({"": [1]}), "has a column of the name '', which SQL cannot have: rename one where it is written"),
        (pa.table({"é": [1], "É": [2]}), "has the columns 'é' and 'É', which SQL cannot tell apart"),
    ):
        uri = local_world.land(NW, table)
        with pytest.raises(SchemaError, match=f"^the object {uri} {told}"):
            local_world.ingest(NW)


INTERNAL = ("_ducklake_internal_row_id", "_ducklake_internal_snapshot_id")
RESERVED = [(name,) for name in (*INTERNAL, "row_id", "begin_snapshot", "end_snapshot")]


@pytest.mark.more
@pytest.mark.parametrize("refusals", [RESERVED, [tuple(f"c{n}" for n in range(2000))]])
def test_a_name_that_only_inlining_forbids_works_without_inlining(
    local_world: World, refusals: list[tuple[str, ...]]
) -> None:
    for names in refusals:
        local_world.land(NW, pa.table({name: [1] for name in names}))
        with pytest.raises(CatalogError) as refused:
            local_world.ingest(NW)

        assert "attach_options: {data_inlining_row_limit: 0}" in str(refused.value)
        assert "in `columns`" in str(refused.value)
        assert "reachable" not in str(refused.value)
        assert len(str(refused.value)) < 600

    names = tuple(name for refusal in refusals for name in refusal)
    local_world.lake_options = {"attach_options": {"data_inlining_row_limit": 0}}
    for number in (1, 2):
        local_world.land(NW, pa.table({name: [number] for name in names}))
        local_world.ingest(NW)
    assert rows(local_world) == [(2,) * len(names)]


def note(value: object, data_type: pa.DataType | None = None) -> pa.Table:
    return pa.table({"id": [1], "note": pa.array([value], data_type)})


def test_the_error_for_a_type_has_a_hint(local_world: World) -> None:
    local_world.land(NW, note(1, pa.int32()))
    local_world.ingest(NW)
    for rows, told in (
        (note("x"), "is string, and the table's is int32"),
        (note(2**40), "set schema_policy: evolve, which widens the table's column"),
        (note(1).append_column("more", pa.array([1])), "evolve, with which the table gains new columns"),
    ):
        local_world.land(SW, rows)
        with pytest.raises(SchemaError, match=told):
            local_world.ingest(SW)
