"""`rescue`: what does not fit the columns of a table is kept in one of JSON, and the row's other values in theirs."""

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lake_assets.config.models import LakeConfig
from lake_assets.errors import SchemaError, SourceError
from lake_assets_tests.ingest.landed_as import FORMATS, landed
from lake_assets_tests.ingest.lettering import letters
from lake_assets_tests.world import NW, SW, World, plan


def rescuing(world: World, form: str = "parquet", **options: Any) -> World:
    world.options = {"format": form, "rescue": "_rescued", **options}
    return world


def rows(world: World, columns: str = "id, total", order: str = "id") -> list[tuple[Any, ...]]:
    """The rows of the table, with what is kept of each."""
    found = world.query(f"SELECT {columns}, _rescued FROM lake.sales ORDER BY {order}")
    return [(*row[:-1], None if row[-1] is None else json.loads(row[-1])) for row in found]


@pytest.mark.parametrize("form", FORMATS)
def test_a_field_that_no_column_takes_is_kept(local_world: World, form: str) -> None:
    rescuing(local_world, form)
    local_world.land(NW, landed(form, {"id": 1, "total": 2}), f"a.{form}")
    local_world.ingest(NW)
    local_world.land(
        SW, landed(form, {"id": 2, "total": 3, "tax": "x"}, {"id": 3, "total": 4, "tax": None}), f"b.{form}"
    )

    assert plan(local_world.stream, local_world.partition(SW)).columns == ()
    local_world.ingest(SW)

    assert rows(local_world) == [(1, 2, None), (2, 3, {"tax": "x"}), (3, 4, None)]


@pytest.mark.parametrize("form", FORMATS)
def test_a_value_that_a_column_cannot_hold_is_kept_beside_the_others(local_world: World, form: str) -> None:
    rescuing(local_world, form, columns={"total": {"type": "BIGINT"}})
    local_world.land(NW, landed(form, {"id": 1, "total": 2}), f"a.{form}")
    local_world.land(NW, landed(form, {"id": 2, "total": "n/a"}, {"id": 3, "total": "4"}), f"b.{form}")
    row = local_world.ingest(NW).row

    assert (row.status, row.row_count) == ("committed", 3)
    third = (3, None, {"total": "4"}) if form == "json" else (3, 4, None)  # its texts are no numbers
    assert rows(local_world) == [(1, 2, None), (2, None, {"total": "n/a"}), third]


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
    local_world.land(NW, table)
    local_world.ingest(NW)

    assert rows(local_world, "id, n, d, t") == [
        (1, 1, Decimal("1.25"), None, {"t": [1]}),
        (2, None, None, None, {"n": 2**40, "d": 1.234}),
        (3, None, None, None, {"d": "nan", "t": []}),
    ]


@pytest.mark.parametrize("form", ["parquet", "json"])
def test_unknown_fields_within_others_are_kept_where_they_were(local_world: World, form: str) -> None:
    rescuing(local_world, form)
    local_world.land(NW, landed(form, {"id": 1, "place": {"x": 1}, "list": [{"a": 1}]}), f"a.{form}")
    local_world.ingest(NW)
    more = landed(
        form,
        {"id": 2, "place": {"x": 2, "z": {"deep": 1}}, "list": [{"a": 1, "b": None}, {"a": 2, "b": 3}]},
        {"id": 3, "place": {"x": 3, "z": None}, "list": None},
    )
    local_world.land(SW, more, f"b.{form}")
    local_world.ingest(SW)

    assert rows(local_world, "id, place, list") == [
        (1, {"x": 1}, [{"a": 1}], None),
        (2, {"x": 2}, [{"a": 1}, {"a": 2}], {"place": {"z": {"deep": 1}}, "list": [None, {"b": 3}]}),
        (3, {"x": 3}, None, None),
    ]


def test_a_nested_value_that_would_be_changed_is_kept_whole(local_world: World) -> None:
    rescuing(local_world)
    local_world.land(NW, pa.table({"id": [1], "place": [{"x": 1}]}))
    local_world.ingest(NW)
    local_world.land(SW, pa.table({"id": [2, 3], "place": [{"x": 1.5}, {"x": 2.0}]}))
    local_world.ingest(SW)

    assert rows(local_world, "id, place") == [
        (1, {"x": 1}, None),
        (2, None, {"place": {"x": 1.5}}),
        (3, {"x": 2}, None),
    ]


def test_evolve_takes_new_fields_and_keeps_what_no_type_holds(local_world: World) -> None:
    rescuing(local_world, schema_policy="evolve")
    local_world.land(NW, pa.table({"id": pa.array([1], pa.int32()), "total": [2]}))
    local_world.ingest(NW)
    local_world.land(SW, pa.table({"id": pa.array([2], pa.int64()), "total": ["x"], "tax": [0.5]}))

    assert plan(local_world.stream, local_world.partition(SW)).columns == (
        "widened column id from INTEGER to BIGINT",
        "added column tax DOUBLE",
    )
    local_world.ingest(SW)

    assert rows(local_world, "id, total, tax") == [(1, 2, None, None), (2, None, 0.5, {"total": "x"})]


@pytest.mark.parametrize("form", ["csv", "json"])
def test_evolve_takes_new_fields_of_texts(local_world: World, form: str) -> None:
    rescuing(local_world, form, schema_policy="evolve")
    local_world.land(NW, landed(form, {"id": 1, "total": 2}), f"a.{form}")
    local_world.ingest(NW)
    local_world.land(SW, landed(form, {"id": 2, "total": "x", "tax": 0.5}), f"b.{form}")
    local_world.ingest(SW)

    assert rows(local_world, "id, total, tax") == [(1, 2, None, None), (2, None, 0.5, {"total": "x"})]


@pytest.mark.parametrize("form", FORMATS)
def test_ignore_extra_leaves_new_fields_out(local_world: World, form: str) -> None:
    rescuing(local_world, form, schema_policy="ignore_extra", columns={"total": {"type": "BIGINT"}})
    local_world.land(NW, landed(form, {"id": 1, "total": 2}), f"a.{form}")
    local_world.ingest(NW)
    local_world.land(SW, landed(form, {"id": 2, "total": "x", "tax": 0.5}), f"b.{form}")
    local_world.ingest(SW)

    assert rows(local_world) == [(1, 2, None), (2, None, {"total": "x"})]


def test_a_table_of_before_gets_the_column(world: World) -> None:
    world.land(NW, pa.table({"id": [1], "total": [2.0]}))
    world.ingest(NW)
    world.options = {"rescue": "_rescued"}
    world.land(SW, pa.table({"id": [2], "total": ["x"]}))
    world.ingest(SW)

    assert rows(world) == [(1, 2.0, None), (2, None, {"total": "x"})]


def test_numbers_of_json_stay_as_they_are(local_world: World) -> None:
    rescuing(
        local_world,
        "json",
        columns={"id": {"type": "BIGINT"}, "d": {"type": "DECIMAL(30,20)"}, "f": {"type": "DOUBLE"}},
    )
    local_world.land(NW, b'{"id": 1, "d": 1.5, "f": 0.1}\n', "a.json")
    local_world.ingest(NW)
    exact = "1.23456789012345678901"
    body = f'{{"id": "x", "d": {exact}, "f": {exact}, "big": 123456789012345678901234567890, "precise": {exact}}}\n'
    local_world.land(SW, body.encode(), "b.json")
    local_world.ingest(SW)

    assert rows(local_world, "id, d, f", "d") == [
        (None, Decimal(exact), float(exact), {"big": 123456789012345678901234567890, "precise": exact, "id": "x"}),
        (1, Decimal("1.5"), 0.1, None),
    ]


def test_the_dialect_of_a_text_is_that_of_its_other_rows(local_world: World) -> None:
    dialect = {"type": "csv", "delimiter": ";", "decimal": ",", "thousands": ".", "date_format": "%d.%m.%Y"}
    columns = {"total": {"type": "DECIMAL(12,2)"}, "day": {"type": "DATE"}}
    local_world.options = {"format": dialect, "rescue": "_rescued", "columns": columns}
    body = b"id;total;day\n1;1.234,5;11.02.2026\n 2 ;x;12.02.2026\n3;4;tomorrow\n"
    local_world.land(NW, body, "a.csv")
    local_world.ingest(NW)

    found = rows(local_world, "id, total, day::VARCHAR")
    assert found == [
        (1, Decimal("1234.50"), "2026-02-11", None),
        (2, None, "2026-02-12", {"total": "x"}),
        (3, Decimal(4), None, {"day": "tomorrow"}),
    ]


@pytest.mark.parametrize(
    ("form", "body", "message"),
    [
        ("json", b'{"id": 1, "total": 2}\n{"id": 2, "id": 3, "total": "x"}\n', "line 2 .*twice"),
        ("json", b'{"id": 1, "total": 2}\n{"id": \n', "line 2 .* no JSON"),
        ("csv", b"id,total\n1,2\n1,2,3\n", "line 3 .* it has 3 values, and there are 2 columns"),
    ],
)
def test_what_is_no_record_stays_a_bad_row(local_world: World, form: str, body: bytes, message: str) -> None:
    rescuing(local_world, form)
    local_world.land(NW, body, f"a.{form}")
    with pytest.raises(SourceError, match=message):
        local_world.ingest(NW)
    local_world.options |= {"on_bad_row": "dead_letter"}

    assert local_world.ingest(NW).row.rows_dead_lettered == 1
    assert rows(local_world) == [(1, 2, None)]


def test_a_row_of_another_partition_is_not_rescued(local_world: World) -> None:
    rescuing(local_world, on_bad_row="dead_letter")
    local_world.land(NW, pa.table({"id": [1, 2], "region": ["NW", "SW"]}))
    local_world.ingest(NW)

    assert rows(local_world, "id") == [(1, None)]
    assert len(letters(local_world)) == 1


def test_a_required_value_that_is_refused_is_a_bad_row(local_world: World) -> None:
    columns = {"total": {"type": "BIGINT", "nullable": False}}
    rescuing(local_world, columns=columns, on_bad_row="dead_letter")
    local_world.land(NW, pa.table({"id": [1, 2], "total": ["1", "x"]}))
    local_world.ingest(NW)

    assert rows(local_world) == [(1, 1, None)]
    (letter,) = letters(local_world)
    assert "'total' has no value, and `columns` declares nullable: false" in letter["_reason"]


def test_an_object_with_a_column_of_the_name_is_refused(local_world: World) -> None:
    rescuing(local_world)
    local_world.land(NW, pa.table({"id": [1], "_rescued": ["x"]}))
    with pytest.raises(SchemaError, match="has a column '_rescued', which is the stream's column of rescue"):
        local_world.ingest(NW)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "index"}, "mode: index registers files as they are, without rescue"),
        ({"rescue": "region"}, "rescue: region is the name of another column of the table"),
        ({"columns": {"_rescued": {"type": "VARCHAR"}}}, "because rescue decides the rest"),
    ],
)
def test_what_cannot_be_rescued_is_refused_before_anything_runs(
    local_world: World, options: dict[str, Any], message: str
) -> None:
    rescuing(local_world, **options)
    with pytest.raises(ValueError, match=message):
        LakeConfig.model_validate(local_world.document)


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_a_column_that_tells_the_partition_is_read_and_not_rescued(local_world: World, form: str) -> None:
    partitions = {"region": {"values": ["NW", "SW"], "in": "rows"}, "date": {"type": "date", "start": "2026-01-01"}}
    columns = {"total": {"type": "BIGINT"}}
    rescuing(local_world, form, partitions=partitions, layout="date={date}", columns=columns)
    for name in "ab":
        with local_world.landing.create(f"date=2026-02-11/{name}.{form}") as file:
            file.write(landed(form, {"id": 1, "region": "NW", "total": "x"}, {"id": 2, "region": "SW", "total": "1"}))
        local_world.ingest(NW)

    assert rows(local_world) == [(1, None, {"total": "x"})] * 2


def test_a_late_field_that_tells_the_partition_is_a_bad_row(local_world: World) -> None:
    rescuing(local_world, "json", on_bad_row="dead_letter")
    local_world.land(NW, b'{"id": 1}\n', "a.json")
    local_world.ingest(NW)
    many = b"".join(b'{"id": %d, "other": "%s"}\n' % (number, b"x" * 100) for number in range(20_000))
    local_world.land(NW, many + b'{"id": -1, "region": "SW"}\n', "b.json")

    row = local_world.ingest(NW).row

    assert (row.row_count, row.rows_dead_lettered) == (20_001, 1)


@pytest.mark.parametrize("mode", ["append", "replace"])
def test_an_encrypted_lake_and_one_that_grows_rescue_too(either_lake: World, mode: str) -> None:
    rescuing(either_lake, "csv", mode=mode, columns={"total": {"type": "BIGINT"}})
    for number in range(2):
        either_lake.land(NW, landed("csv", {"id": number, "total": "x"}), f"{number}.csv")
        either_lake.ingest(NW)

    assert rows(either_lake) == [(number, None, {"total": "x"}) for number in range(2)]


@pytest.mark.parametrize("form", FORMATS)
def test_what_is_kept_has_its_landed_name(local_world: World, form: str) -> None:
    rescuing(local_world, form, columns={"total": {"type": "BIGINT", "from": "Gross"}})
    local_world.land(NW, landed(form, {"id": 1, "Gross": "x"}), f"a.{form}")
    local_world.ingest(NW)

    assert rows(local_world) == [(1, None, {"Gross": "x"})]


def test_evolve_adds_a_field_within_another_beside_a_value_that_is_kept(local_world: World) -> None:
    rescuing(local_world, "json", schema_policy="evolve")
    local_world.land(NW, b'{"id": 1, "place": {"x": 1}}\n', "a.json")
    local_world.ingest(NW)
    local_world.land(SW, b'{"id": "x", "place": {"x": 2}}\n{"id": 3, "place": {"x": 3, "y": 4}}\n', "b.json")
    local_world.ingest(SW)

    assert rows(local_world, "id, place", "place.x") == [
        (1, {"x": 1, "y": None}, None),
        (None, {"x": 2, "y": None}, {"id": "x"}),
        (3, {"x": 3, "y": 4}, None),
    ]
