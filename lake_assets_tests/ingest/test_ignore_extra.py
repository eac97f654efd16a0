"""A stream that takes the columns that its table knows, and leaves out others."""

from typing import Any

import pyarrow as pa
import pytest

from lake_assets.errors import SchemaError
from lake_assets_tests.world import NW, SW, World


@pytest.fixture
def ignoring(local_world: World) -> World:
    local_world.options = {"schema_policy": "ignore_extra"}
    local_world.land(NW, table())
    local_world.ingest(NW)
    return local_world


def table(**columns: Any) -> pa.Table:
    point = pa.array(
        [{"x": 1, "y": [{"z": 2}]}], pa.struct([("x", pa.int64()), ("y", pa.list_(pa.struct([("z", pa.int64())])))])
    )
    return pa.table({"id": pa.array([1], pa.int64()), "point": point} | columns)


def test_columns_and_fields_that_the_table_lacks_are_left_out(ignoring: World) -> None:
    before = ignoring.query("DESCRIBE lake.sales")
    point = [{"new": "a", "Y": [{"more": 1, "z": 5}, None], "x": 4}]
    ignoring.land(NW, table(id=pa.array([3], pa.int8()), point=point, note=["new"], nothing=pa.nulls(1)))
    ignoring.land(NW, table(), "2.parquet")

    result = ignoring.ingest(NW)

    assert result.changes == ()
    assert ignoring.query("DESCRIBE lake.sales") == before
    assert ignoring.query("SELECT id, point FROM lake.sales ORDER BY id") == [
        (1, {"x": 1, "y": [{"z": 2}]}),
        (3, {"x": 4, "y": [{"z": 5}, None]}),
    ]
    assert ignoring.ingest(NW).row.status == "skipped"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (table(more=[1]).drop_columns("id"), "it lacks 'id':"),
        (table(point=[{"x": 1, "more": 2}]), "it lacks 'point.y':"),
        (table(id=["1"]), "column 'id' of the object .* is string, and the table's is int64"),
        (table(point=[{"x": 1.5, "y": []}]), "field 'point.x' of the object .* is double, and the table's is int64"),
        (table(Id=[2]), "the columns 'id' and 'Id', which SQL cannot tell apart"),
        (
            table(
                point=pa.array(
                    [(1, [], 2)], pa.struct([("x", pa.int64()), ("y", pa.list_(pa.null())), ("X", pa.int64())])
                )
            ),
            "it has 'point.X':",
        ),
    ],
    ids=["missing", "missing field", "other type", "other type of a field", "two columns", "two fields"],
)
def test_everything_else_is_refused(ignoring: World, rows: pa.Table, message: str) -> None:
    ignoring.land(NW, rows)

    with pytest.raises(SchemaError, match=message):
        ignoring.ingest(NW)

    assert ignoring.query("SELECT id, point FROM lake.sales") == [(1, {"x": 1, "y": [{"z": 2}]})]


def test_a_transform_reads_what_all_objects_have_and_more_of_its_result_is_left_out(local_world: World) -> None:
    sql = "SELECT id + 1 AS id, p.a AS a FROM source"
    local_world.options = {"schema_policy": "ignore_extra", "transform": {"sql": sql}}
    local_world.land(NW, pa.table({"first": [1], "id": [1], "p": [{"more": 1, "a": "x"}]}), "1.parquet")
    local_world.land(NW, pa.table({"p": [{"a": "y", "other": 1.5}], "id": [2], "second": [1]}), "2.parquet")
    local_world.ingest(NW)
    assert local_world.query("SELECT id, a FROM lake.sales ORDER BY id") == [(2, "x"), (3, "y")]

    local_world.options["transform"] = {"sql": "SELECT 'new' AS note, id, p.a AS a FROM source"}
    local_world.land(SW, pa.table({"p": [{"a": "z"}], "id": [9]}))
    assert local_world.ingest(SW).changes == ()
    assert local_world.query("SELECT * EXCLUDE (region, date) FROM lake.sales WHERE region = 'SW'") == [(9, "z")]
