"""Transforms by SQL and by function: their effect on the table, and refusals."""

import datetime as dt

import pyarrow as pa
import pytest

from lake_assets.base.errors import SchemaError, TransformError
from lake_assets_tests.ingest.landed_as import small_sample  # noqa: F401 - a fixture
from lake_assets_tests.ingest.lettering import letters
from lake_assets_tests.world import NW, SW, World, sales


@pytest.mark.journey
def test_a_transform_shapes_the_table_and_a_changed_one_is_a_changed_partition(local_world: World) -> None:
    local_world.land(NW, sales(1, 2, 3))
    local_world.options["transform"] = {
        "sql": "SELECT region, date, count(*) AS sales, sum(total) AS total FROM source GROUP BY region, date"
    }
    local_world.ingest(NW)
    assert local_world.query("SELECT * FROM lake.sales") == [(3, 6.0, "NW", dt.date(2026, 2, 11))]

    local_world.options["transform"] = {"sql": "SELECT id AS sales, total * 2 AS total FROM source"}
    assert local_world.ingest(NW).row.status == "committed"
    assert local_world.totals() == [2, 4, 6]
    assert local_world.ingest(NW).row.status == "skipped"


@pytest.mark.more
@pytest.mark.parametrize(
    ("transform", "message"),
    [
        ({"sql": "SELECT nope FROM source"}, "nope"),
        ({"function": "lake_assets_tests.transforms:faulty"}, "faulty raised ZeroDivisionError: "),
        ({"sql": "SELEC"}, "refused by Spark"),
        ({"sql": "SELECT INTERVAL '1' MONTH AS id FROM source"}, "column 'id' of the transform's result cannot"),
        ({"function": "lake_assets_tests.transforms:absent"}, "cannot be imported"),
        ({"function": "lake_assets_tests.transforms:no_frame"}, "returned int"),
    ],
)
def test_a_transform_that_cannot_run_is_named(local_world: World, transform: dict[str, str], message: str) -> None:
    local_world.options["transform"] = transform
    local_world.land(NW, sales(1))

    with pytest.raises(TransformError, match=message) as raised:
        local_world.ingest(NW)

    assert "JVM" not in str(raised.value)
    assert local_world.ledger()[0].status == "failed"


@pytest.mark.more
def test_a_column_whose_value_spark_computes_before_the_job_is_written(local_world: World) -> None:
    local_world.options["transform"] = {"sql": "SELECT total, try_cast('5' AS INT) AS x FROM source"}
    local_world.commit(NW, 1, 2)

    assert local_world.query("SELECT total, x FROM lake.sales ORDER BY total") == [(1, 5), (2, 5)]


@pytest.mark.more
def test_a_transform_by_function_shapes_the_table(local_world: World) -> None:
    local_world.options["transform"] = {"function": "lake_assets_tests.transforms:doubled"}
    local_world.commit(NW, 1, 2, 3)

    assert local_world.totals() == [2, 4, 6]


def test_a_transform_may_not_move_rows_to_another_partition(local_world: World) -> None:
    local_world.options["transform"] = {"sql": "SELECT id, total, 'SW' AS region, date FROM source"}
    local_world.land(NW, sales(1))

    with pytest.raises(SchemaError, match="region='SW'"):
        local_world.ingest(NW)


@pytest.mark.more
def test_with_ignore_extra_more_columns_of_objects_and_results_are_left_out(
    local_world: World,
) -> None:
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


@pytest.mark.more
def test_with_evolve_a_transform_gets_the_columns_of_all_texts_and_a_later_field_is_a_bad_row(
    local_world: World,
    small_sample: int,  # noqa: F811
) -> None:
    local_world.options = {
        "schema_policy": "evolve",
        "format": "auto",
        "on_bad_row": "dead_letter",
        "transform": {"sql": "SELECT id, late FROM source"},
    }
    for number in range(20):
        local_world.land(NW, b"id\n1\n", f"{number:02}.csv")
    local_world.land(NW, b"id,late\n2,x\n", "20.csv")
    local_world.land(NW, b'{"id":3}\n' * (small_sample // 8) + b'{"id":4,"later":"y"}\n', "a.json")

    row = local_world.ingest(NW).row

    assert row.rows_dead_lettered == 1
    assert "unknown field 'later'" in letters(local_world)[0]["_reason"]
    assert local_world.query("SELECT id, late, count(*) FROM lake.sales WHERE id < 3 GROUP BY ALL ORDER BY id") == [
        (1, None, 20),
        (2, "x", 1),
    ]
