"""Advice of errors about columns that are not as the table has them."""

from functools import partial

import pyarrow as pa
import pytest

from lake_assets_tests.advice.cases import Case, Steps, follow, named
from lake_assets_tests.tiers import more
from lake_assets_tests.world import NW, SW, World

CASES: list[Case] = []
WITH_SPARK: list[Case] = []


def case(steps: Case) -> Case:
    CASES.append(steps)
    return steps


def with_spark(steps: Case) -> Case:
    WITH_SPARK.append(steps)
    return steps


@with_spark
def a_result_is_mended_in_the_transform(local_world: World) -> Steps:
    local_world.land(SW, pa.table({"total": [5.0], "note": ["a"]}))
    local_world.ingest(SW)
    local_world.land(NW, pa.table({"total": [1.0], "note": ["a"]}))
    local_world.options = {"transform": {"sql": "SELECT total, 1 AS more FROM source"}}
    yield "give it the table's columns"
    local_world.options = {"transform": {"sql": "SELECT total, array(note) AS note FROM source"}}
    yield "cast it in the transform"
    cast = {"sql": "SELECT total, to_json(array(note)) AS note FROM source"}
    local_world.options = {"transform": cast}
    local_world.ingest(NW)
    local_world.options = {"columns": {"note": {"type": "varchar"}}}
    local_world.land(NW, pa.table({"total": [2.0], "note": pa.array([7])}))
    yield "land it as that type, cast it in a transform"
    local_world.options |= {"transform": cast}
    return [2, 5]


@case
def an_object_of_another_type_than_the_first_of_a_table_is_landed_as_another(local_world: World) -> Steps:
    local_world.land(NW, pa.table({"total": [1.0], "note": ["a"]}), "1.parquet")
    local_world.land(NW, pa.table({"total": [2.0], "note": [["b"]]}), "2.parquet")
    yield "let its writer cast it to"
    local_world.land(NW, pa.table({"total": [2.0], "note": ["['b']"]}), "2.parquet")
    return [1, 2]


@case
def a_column_is_landed_as_its_declared_type_or_another_one_is_declared(local_world: World) -> Steps:
    local_world.options = {"columns": {"note": {"type": "bigint"}}}
    local_world.land(NW, pa.table({"total": [1.0], "note": ["a"]}))
    yield "for a new table, declare another one in `columns`."
    local_world.options = {"columns": {"note": {"type": "varchar"}}}
    local_world.ingest(NW)
    assert local_world.totals() == [1]
    local_world.land(SW, pa.table({"total": [2.0], "note": [["a"]]}))
    yield partial(local_world.ingest, SW), "land it as that type"
    local_world.land(SW, pa.table({"total": [2.0], "note": ["a"]}))
    local_world.ingest(SW)
    return [1, 2]


@case
def an_object_of_other_columns_than_the_first_of_a_table_is_landed_with_its(local_world: World) -> Steps:
    local_world.land(NW, pa.table({"total": [1.0], "note": ["a"]}), "1.parquet")
    local_world.land(NW, pa.table({"total": [2.0]}), "2.parquet")
    yield "land it again with the columns of the others, or set schema_policy: evolve, which fills missing ones."
    local_world.options = {"schema_policy": "evolve"}
    local_world.ingest(NW)
    assert local_world.totals() == [1, 2]
    local_world.options = {"schema_policy": "strict"}
    local_world.land(NW, pa.table({"total": [3.0], "note": ["b"]}), "2.parquet")
    return [1, 3]


@case
def a_file_to_register_has_the_columns_of_the_table_or_is_read_in_another_mode(local_world: World) -> Steps:
    local_world.options = {"mode": "index"}
    local_world.commit(SW, 5)
    local_world.land(NW, pa.table({"id": [0], "total": [1.0], "more": ["a"]}))
    yield "land it again with the table's columns, or use mode: replace with schema_policy: evolve."
    local_world.options = {"mode": "replace", "schema_policy": "evolve"}
    return [1, 5]


@pytest.mark.parametrize("steps", [*CASES, *more(WITH_SPARK)], ids=named)
def test_advice_that_is_followed_ends_in_the_right_rows(steps: Case, request: pytest.FixtureRequest) -> None:
    follow(steps, request)
