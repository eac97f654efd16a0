"""Every column name that DuckLake accepts works in both jobs and in every strategy and mode; others are refused."""

from collections.abc import Callable
from dataclasses import replace

import dagster as dg
import pyarrow as pa
import pytest

from lake_assets.checks.check_run import checks_of, run_check
from lake_assets.checks.result import Scope
from lake_assets.errors import CatalogError, LakeAssetsError, SchemaError
from lake_assets.ingest.view import view_partition
from lake_assets.lake.catalog.database import NotDirectError, catalog_view
from lake_assets.lake.catalog.table import read_table
from lake_assets.lake.commit import strategy
from lake_assets.lake.commit.extension import replace_by_extension
from lake_assets.lake.ducklake import DuckLake
from lake_assets.maintenance.compaction import compact
from lake_assets.orchestration.metadata import materialization_metadata
from lake_assets_tests.ingest.index.indexing import index
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
    "world", [("sqlite", "local"), ("duckdb", "local"), ("postgres", "s3")], indirect=True, ids="-".join
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
        with catalog_view(lake) as catalog, pytest.raises(NotDirectError, match=r"two columns of .* have one path"):
            read_table(catalog, local_world.stream.table)


def test_every_column_name_works_in_a_transform(local_world: World) -> None:
    local_world.options["transform"] = {"sql": "SELECT * FROM source"}
    local_world.land(NW, odd())
    local_world.ingest(NW)
    local_world.options["transform"] = {"sql": "SELECT *, `a b` + `a``b` AS `a b, added` FROM source"}
    local_world.options["schema_policy"] = "evolve"

    changes = local_world.ingest(NW).changes

    assert [str(change) for change in changes] == ["added column a b, added BIGINT"]
    assert local_world.query('SELECT "a b", "a b, added" FROM lake.sales ORDER BY 1') == [(0, 9), (100, 209)]


def test_every_name_is_added_to_a_table_and_compacted(either_lake: World) -> None:
    either_lake.options["schema_policy"] = "evolve"
    either_lake.options["target_file_size"] = "1MiB"
    either_lake.land(NW, odd(0, NAMES[:1]))
    either_lake.ingest(NW)
    for number in range(3):
        either_lake.land(NW, odd(number), f"{number}.parquet")
    assert len(either_lake.ingest(NW).changes) == len(NAMES) - 1

    done = list(compact(either_lake.stream, 2, either_lake.sessions))

    assert [item.files_after for item in done] == [1] * len(done)
    assert either_lake.query('SELECT sum("é"), count(*) FROM lake.sales') == [(312, 8)]


def test_every_name_is_indexed(indexed_world: World, strategy: str) -> None:
    indexed_world.land(NW, odd())
    indexed_world.land(SW, odd(1000))

    result = index(indexed_world)

    assert [outcome.error for outcome in result.values()] == [None, None], strategy
    assert rows(indexed_world) == expected(odd(), odd(1000))


@pytest.mark.parametrize(
    ("table", "told"),
    [
        (pa.table({"": [1]}), "has a column of the name '', which SQL cannot have: rename one where it is written"),
        (pa.table({"é": [1], "É": [2]}), "has the columns 'é' and 'É', which SQL cannot tell apart"),
        (
            pa.table({"s": pa.array([[{"x": 1, "X": 2}]], pa.list_(pa.struct([("x", pa.int8()), ("X", pa.int8())])))}),
            "in its column 's' the fields 'x' and 'X', which SQL cannot tell apart: rename one",
        ),
    ],
    ids=["empty", "case", "field"],
)
def test_columns_that_sql_cannot_distinguish_are_refused_with_a_hint(
    local_world: World, table: pa.Table, told: str
) -> None:
    local_world.land(NW, table)
    with pytest.raises(SchemaError, match="SQL cannot") as refused:
        local_world.ingest(NW)

    assert told in str(refused.value)
    assert str(refused.value).startswith(f"the object {local_world.landing.uri('')}")


RESERVED = [
    (name,)
    for name in (
        "_ducklake_internal_row_id",
        "_ducklake_internal_snapshot_id",
        "row_id",
        "begin_snapshot",
        "end_snapshot",
    )
]


@pytest.mark.parametrize("refusals", [RESERVED, [tuple(f"c{n}" for n in range(2000))]], ids=["reserved", "many"])
def test_a_name_that_only_inlining_forbids_works_without_inlining(
    local_world: World, refusals: list[tuple[str, ...]]
) -> None:
    for names in refusals:
        local_world.land(NW, pa.table({name: [1] for name in names}))
        with pytest.raises(CatalogError) as refused:
            local_world.ingest(NW)

        assert "attach_options: {data_inlining_row_limit: 0}" in str(refused.value)
        assert "in a transform" in str(refused.value)
        assert "reachable" not in str(refused.value)
        assert len(str(refused.value)) < 600

    names = tuple(name for refusal in refusals for name in refusal)
    local_world.lake_options = {"attach_options": {"data_inlining_row_limit": 0}}
    for number in (1, 2):
        local_world.land(NW, pa.table({name: [number] for name in names}))
        local_world.ingest(NW)
    assert rows(local_world) == [(2,) * len(names)]


def test_a_lake_that_was_moved_names_the_option(local_world: World) -> None:
    with DuckLake(local_world.config.lakes["test"]).open(create=True):
        pass
    local_world.storage = {"type": "local", "path": local_world.storage["path"] + "-moved"}

    with pytest.raises(CatalogError) as refused, DuckLake(local_world.config.lakes["test"]).open():
        pass

    assert "does not match existing data path" in str(refused.value)
    assert str(refused.value).endswith("set attach_options: {override_data_path: true}.")


def failure(world: World, text: str) -> str:
    with pytest.raises(LakeAssetsError) as refused:
        world.ingest(text)
    return str(refused.value)


def note(value: object, data_type: pa.DataType | None = None) -> pa.Table:
    return pa.table({"id": [1], "note": pa.array([value], data_type)})


@pytest.mark.parametrize("transform", [None, {"sql": "SELECT * FROM source"}], ids=["pass-through", "transform"])
def test_a_column_without_values_has_the_type_of_other_objects(local_world: World, transform: object) -> None:
    local_world.options["transform"] = transform
    for number, value in enumerate((None, None, "x")):
        local_world.land(NW, note(value), f"{number}.parquet")

    local_world.ingest(NW)

    assert local_world.query("SELECT id, note FROM lake.sales ORDER BY note") == [(1, "x"), (1, None), (1, None)]


def test_the_error_for_a_type_has_a_hint(local_world: World) -> None:
    local_world.land(NW, note(None))
    local_world.ingest(NW)
    told: Callable[[pa.Table], str] = lambda rows: (local_world.land(SW, rows), failure(local_world, SW))[1]  # noqa: E731

    text = told(note("x"))
    assert "is string, and the table's is int32" in text
    assert text.endswith("drop it from the table: schema_policy: evolve adds it again.")
    assert "set schema_policy: evolve, which widens the table's column" in told(note(2**40))
    assert "set schema_policy: evolve, with which the table gains new columns" in told(
        note(1).append_column("more", pa.array([1]))
    )
