"""`rescue`: what does not fit the columns of a table is kept in one of JSON, and the row's other values in theirs."""

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lake_assets.base.errors import SchemaError, SourceError
from lake_assets_tests.ingest.landed_as import columns_of, landed, load, small_sample  # noqa: F401 - a fixture
from lake_assets_tests.ingest.lettering import letters
from lake_assets_tests.ingest.test_in_rows import REGION_IN_ROWS, put
from lake_assets_tests.tiers import more
from lake_assets_tests.world import NW, SW, World, plan

TOTAL = {"total": {"type": "BIGINT"}}


def rescuing(world: World, form: str = "parquet", **options: Any) -> World:
    world.options = {"format": form, "rescue": "_rescued", **options}
    return world


def rows(world: World, columns: str = "id, total", where: str = "true") -> list[tuple[Any, ...]]:
    """The rows of the table, with what is kept of each."""
    found = columns_of(world, f"{columns}, _rescued", where)
    return [(*row[:-1], None if row[-1] is None else json.loads(row[-1])) for row in found]


@pytest.mark.parametrize("form", ["parquet", *more(["csv", "json", "avro", "orc"])])
def test_what_no_column_takes_is_kept_under_its_landed_name_beside_the_others(local_world: World, form: str) -> None:
    rescuing(local_world, form, columns={"total": {"type": "BIGINT", "from": "Gross"}})
    local_world.land(NW, landed(form, {"id": 1, "Gross": 2}), f"a.{form}")
    row = load(local_world, landed(form, {"id": 2, "Gross": "n/a"}, {"id": 3, "Gross": "4"}), name="b")

    assert (row.status, row.row_count) == ("committed", 3)
    third = (3, None, {"Gross": "4"}) if form == "json" else (3, 4, None)  # its texts are no numbers
    assert rows(local_world) == [(1, 2, None), (2, None, {"Gross": "n/a"}), third]

    added = landed(form, {"id": 4, "Gross": 3, "tax": "x"}, {"id": 5, "Gross": 4, "tax": None})
    local_world.land(SW, added, f"c.{form}")
    assert plan(local_world.stream, local_world.partition(SW)).columns == ()
    local_world.ingest(SW)
    assert rows(local_world, where="region = 'SW'") == [(4, 3, {"tax": "x"}), (5, 4, None)]

    local_world.options |= {"schema_policy": "ignore_extra"}
    load(local_world, landed(form, {"id": 6, "Gross": "x", "tax": 0.5}), SW, name="c")
    assert rows(local_world, where="region = 'SW'") == [(6, None, {"Gross": "x"})]


@pytest.mark.parametrize("form", ["parquet", "csv", *more(["json"])])
def test_evolve_takes_new_fields_and_keeps_what_no_type_holds(local_world: World, form: str) -> None:
    rescuing(local_world, form, schema_policy="evolve")
    narrow = pa.schema({"id": pa.int32(), "total": pa.int64()})
    load(local_world, landed(form, {"id": 1, "total": 2}, schema=narrow))
    local_world.land(SW, landed(form, {"id": 2, "total": "x", "tax": 0.5}), f"b.{form}")

    if form == "parquet":
        changes = ("widened column id from INTEGER to BIGINT", "added column tax DOUBLE")
        assert plan(local_world.stream, local_world.partition(SW)).columns == changes
    local_world.ingest(SW)

    assert rows(local_world, "id, total, tax") == [(1, 2, None, None), (2, None, 0.5, {"total": "x"})]


@pytest.mark.parametrize("form", ["parquet", *more(["csv", "json", "avro", "orc"])])
def test_the_column_of_the_table_may_be_written_in_another_case(local_world: World, form: str) -> None:
    rescuing(local_world, form, rescue="_Rescued")
    load(local_world, landed(form, {"id": 1, "total": 2}))

    rescuing(local_world, form)
    load(local_world, landed(form, {"id": 2, "total": "n/a"}), name="b")

    assert rows(local_world) == [(1, 2, None), (2, None, {"total": "n/a"})]


def texts(*values: str) -> pa.Array:
    return pa.array(values, pa.string())


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        ({"a": [1], "new": pa.nulls(1)}, {"a": texts("x"), "new": texts("n")}, {"a": "x"}),
        ({"a": [1]}, {"A": texts("x"), "new": texts("n")}, {"A": "x"}),
        ({"a": [{"b": 1}]}, {"a": [{"b": "x", "new": "n"}], "new": texts("n")}, {"a": {"b": "x", "new": "n"}}),
    ],
    ids=["first value", "other case", "field"],
)
def test_a_table_changes_beside_a_column_whose_values_are_kept(
    local_world: World, before: dict[str, Any], after: dict[str, Any], kept: dict[str, Any]
) -> None:
    rescuing(local_world)
    local_world.land(NW, pa.table(before))
    local_world.ingest(NW)
    local_world.options |= {"schema_policy": "evolve"}
    local_world.land(SW, pa.table(after))
    changes = plan(local_world.stream, local_world.partition(SW)).columns

    assert tuple(map(str, local_world.ingest(SW).changes)) == changes != ()
    assert rows(local_world, "a, new", "region = 'SW'") == [(None, "n", kept)]


def test_evolve_adds_a_field_within_another_beside_a_value_that_is_kept(local_world: World) -> None:
    rescuing(local_world, "json", schema_policy="evolve")
    load(local_world, b'{"id": 1, "place": {"x": 1}}\n')
    load(local_world, b'{"id": "x", "place": {"x": 2}}\n{"id": 3, "place": {"x": 3, "y": 4}}\n', SW)

    assert rows(local_world, "id, place") == [
        (1, {"x": 1, "y": None}, None),
        (3, {"x": 3, "y": 4}, None),
        (None, {"x": 2, "y": None}, {"id": "x"}),
    ]


def test_numbers_of_parquet_are_kept_if_they_would_be_changed(local_world: World) -> None:
    rescuing(local_world, columns={"n": {"type": "INTEGER"}, "d": {"type": "DECIMAL(6,2)"}, "t": {"type": "DATE"}})
    table = pa.table(
        {
            "id": [1, 2, 3],
            "n": pa.array([1, 2**40, None], pa.int64()),
            "d": pa.array([1.25, 1.234, float("nan")], pa.float64()),
            "t": pa.array([[1], None, []], pa.list_(pa.int64())),
        }
    )
    load(local_world, table)

    assert rows(local_world, "id, n, d, t") == [
        (1, 1, Decimal("1.25"), None, {"t": [1]}),
        (2, None, None, None, {"n": 2**40, "d": 1.234}),
        (3, None, None, None, {"d": "nan", "t": []}),
    ]


def test_numbers_of_json_stay_as_they_are(local_world: World) -> None:
    kinds = {"id": "BIGINT", "d": "DECIMAL(30,20)", "f": "DOUBLE"}
    rescuing(local_world, "json", columns={name: {"type": kind} for name, kind in kinds.items()})
    load(local_world, b'{"id": 1, "d": 1.5, "f": 0.1}\n')
    exact = "1.23456789012345678901"
    body = f'{{"id": "x", "d": {exact}, "f": {exact}, "big": 123456789012345678901234567890, "precise": {exact}}}\n'
    load(local_world, body.encode(), SW)

    kept = {"big": 123456789012345678901234567890, "precise": exact, "id": "x"}
    assert rows(local_world, "id, d, f") == [
        (1, Decimal("1.5"), 0.1, None),
        (None, Decimal(exact), float(exact), kept),
    ]


@pytest.mark.parametrize("form", ["parquet", "json"])
def test_unknown_fields_within_others_are_kept_where_they_were(local_world: World, form: str) -> None:
    rescuing(local_world, form)
    load(local_world, landed(form, {"id": 1, "place": {"x": 1}, "list": [{"a": 1}]}))
    added = landed(
        form,
        {"id": 2, "place": {"x": 2, "z": {"deep": 1}}, "list": [{"a": 1, "b": None}, {"a": 2, "b": 3}]},
        {"id": 3, "place": {"x": 3, "z": None}, "list": None},
    )
    load(local_world, added, SW)

    assert rows(local_world, "id, place, list") == [
        (1, {"x": 1}, [{"a": 1}], None),
        (2, {"x": 2}, [{"a": 1}, {"a": 2}], {"place": {"z": {"deep": 1}}, "list": [None, {"b": 3}]}),
        (3, {"x": 3}, None, None),
    ]


def test_a_nested_value_that_would_be_changed_is_kept_whole(local_world: World) -> None:
    rescuing(local_world)
    load(local_world, pa.table({"id": [1], "place": [{"x": 1}]}))
    load(local_world, pa.table({"id": [2, 3], "place": [{"x": 1.5}, {"x": 2.0}]}), SW)

    assert rows(local_world, "id, place") == [
        (1, {"x": 1}, None),
        (2, None, {"place": {"x": 1.5}}),
        (3, {"x": 2}, None),
    ]


@pytest.mark.more
def test_a_table_of_before_gets_the_column(world: World) -> None:
    load(world, pa.table({"id": [1], "total": [2.0]}))
    world.options = {"rescue": "_rescued"}
    load(world, pa.table({"id": [2], "total": ["x"]}), SW)

    assert rows(world) == [(1, 2.0, None), (2, None, {"total": "x"})]


def test_the_dialect_of_a_text_is_that_of_its_other_rows(local_world: World) -> None:
    dialect = {"type": "csv", "delimiter": ";", "decimal": ",", "thousands": ".", "date_format": "%d.%m.%Y"}
    columns = {"total": {"type": "DECIMAL(12,2)"}, "day": {"type": "DATE"}}
    local_world.options = {"format": dialect, "rescue": "_rescued", "columns": columns}
    load(local_world, b"id;total;day\n1;1.234,5;11.02.2026\n 2 ;x;12.02.2026\n3;4;tomorrow\n")

    assert rows(local_world, "id, total, day::VARCHAR") == [
        (1, Decimal("1234.50"), "2026-02-11", None),
        (2, None, "2026-02-12", {"total": "x"}),
        (3, Decimal(4), None, {"day": "tomorrow"}),
    ]


@pytest.mark.parametrize(
    ("form", "body", "message"),
    [
        ("json", b'{"id": 1, "total": 2}\n{"id": 2, "id": 3, "total": "x"}\n', "line 2 .*twice"),
        ("csv", b"id,total\n1,2\n1,2,3\n", "line 3 .* it has 3 values, and there are 2 columns"),
        *more([("json", b'{"id": 1, "total": 2}\n{"id": \n', "line 2 .* no JSON")]),
    ],
)
def test_what_is_no_record_stays_a_bad_row(local_world: World, form: str, body: bytes, message: str) -> None:
    rescuing(local_world, form)
    with pytest.raises(SourceError, match=message):
        load(local_world, body)
    local_world.options |= {"on_bad_row": "dead_letter"}

    assert local_world.ingest(NW).row.rows_dead_lettered == 1
    assert rows(local_world) == [(1, 2, None)]


def test_a_row_of_another_partition_is_not_rescued(local_world: World) -> None:
    rescuing(local_world, on_bad_row="dead_letter")
    load(local_world, pa.table({"id": [1, 2], "region": ["NW", "SW"]}))

    assert rows(local_world, "id") == [(1, None)]
    assert len(letters(local_world)) == 1


def test_a_late_field_that_tells_the_partition_is_a_bad_row(local_world: World, small_sample: int) -> None:  # noqa: F811
    rescuing(local_world, "json", on_bad_row="dead_letter")
    load(local_world, b'{"id": 1}\n')
    many = b'{"id": 2, "other": "%s"}\n' % (b"x" * 100) * (small_sample // 100)

    row = load(local_world, many + b'{"id": -1, "region": "SW"}\n', name="b")

    assert (row.row_count, row.rows_dead_lettered) == (1 + small_sample // 100, 1)


def test_a_required_value_that_is_refused_is_a_bad_row(local_world: World) -> None:
    rescuing(local_world, columns={"total": {"type": "BIGINT", "nullable": False}}, on_bad_row="dead_letter")
    load(local_world, pa.table({"id": [1, 2], "total": ["1", "x"]}))

    assert rows(local_world) == [(1, 1, None)]
    (letter,) = letters(local_world)
    assert "'total' has no value, and `columns` declares nullable: false" in letter["_reason"]


def test_an_object_with_a_column_of_the_name_is_refused(local_world: World) -> None:
    rescuing(local_world)
    with pytest.raises(SchemaError, match="has a column '_rescued', which is the stream's column of rescue"):
        load(local_world, pa.table({"id": [1], "_rescued": ["x"]}))


@pytest.mark.parametrize("form", ["csv", *more(["parquet", "json"])])
def test_a_column_that_tells_the_partition_is_read_and_not_rescued(local_world: World, form: str) -> None:
    rescuing(local_world, form, columns=TOTAL, **REGION_IN_ROWS)
    body = landed(form, {"id": 1, "region": "NW", "total": "x"}, {"id": 2, "region": "SW", "total": "1"})
    for name in "ab":
        put(local_world, f"date=2026-02-11/{name}.{form}", body)
        local_world.ingest(NW)

    assert rows(local_world) == [(1, None, {"total": "x"})] * 2


@pytest.mark.more
@pytest.mark.parametrize("mode", ["append", "replace"])
def test_an_encrypted_lake_rescues_too(local_encrypted: World, mode: str) -> None:
    rescuing(local_encrypted, "csv", mode=mode, columns=TOTAL)
    for number in range(2):
        load(local_encrypted, landed("csv", {"id": number, "total": "x"}), name=str(number))

    assert rows(local_encrypted) == [(number, None, {"total": "x"}) for number in range(2)]
