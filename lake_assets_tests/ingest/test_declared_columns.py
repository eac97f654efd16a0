"""Columns that a stream declares: the types of the table, and how landed columns become its columns."""

import datetime as dt
import io
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake_assets.errors import SchemaError, SourceError
from lake_assets.ingest.landed_footers import inferred_columns
from lake_assets_tests.ingest.landed_as import landed
from lake_assets_tests.ingest.lettering import letters
from lake_assets_tests.world import NW, SW, World, plan, sales

TOTALS = "SELECT total FROM lake.sales ORDER BY total"


def declare(world: World, columns: dict[str, Any], **options: Any) -> World:
    world.options = {"columns": columns, **options}
    return world


def types(world: World) -> dict[str, str]:
    """The types of the table's columns, as DuckDB names them, without those of the partitions."""
    described = world.query("DESCRIBE lake.sales")
    return {name: kind for name, kind, *_ in described if name not in {"region", "date"}}


def totals(kind: pa.DataType, *values: Any) -> pa.Table:
    return pa.table({"id": pa.array(range(len(values)), pa.int64()), "total": pa.array(values, kind)})


def test_a_new_table_has_the_declared_types(world: World) -> None:
    declare(world, {"total": {"type": "decimal(12,2)", "description": "Gross"}, "id": "A number"})
    world.land(NW, totals(pa.decimal128(5, 2), Decimal("2.50")))

    assert world.ingest(NW).row.status == "committed"
    assert types(world) == {"id": "BIGINT", "total": "DECIMAL(12,2)"}
    assert world.query(TOTALS) == [(Decimal("2.50"),)]


@pytest.mark.parametrize("form", ["csv", "json"])
def test_a_text_is_read_with_the_declared_types(local_world: World, form: str) -> None:
    declare(local_world, {"id": {"type": "VARCHAR"}, "total": {"type": "DECIMAL(12,2)"}}, format=form)
    bodies = {"csv": b"id,total\n7,2.5\n", "json": b'{"id": "7", "total": 2.5}\n'}
    local_world.land(NW, bodies[form], f"a.{form}")

    assert "added column total DECIMAL(12,2)" in plan(local_world.stream, local_world.partition(NW)).columns
    local_world.ingest(NW)

    assert types(local_world) == {"id": "VARCHAR", "total": "DECIMAL(12,2)"}
    assert local_world.query("SELECT id, total FROM lake.sales") == [("7", Decimal("2.50"))]


def test_a_transform_reads_a_text_with_the_declared_types(local_world: World) -> None:
    declare(
        local_world,
        {"code": {"type": "string"}, "gross": {"type": "decimal(20,4)"}},
        format="json",
        transform={"sql": "SELECT *, length(code) AS digits, CAST(1 AS DECIMAL(10,2)) AS gross FROM source"},
    )
    local_world.land(NW, b'{"code": "7"}\n', "a.json")
    local_world.ingest(NW)

    assert types(local_world) == {"code": "VARCHAR", "digits": "INTEGER", "gross": "DECIMAL(20,4)"}
    assert local_world.query("SELECT code, digits, gross FROM lake.sales") == [("7", 1, Decimal(1))]


@pytest.mark.parametrize("policy", ["strict", "evolve", "ignore_extra"])
def test_a_landed_type_that_the_declared_one_does_not_hold_is_refused_by_name(local_world: World, policy: str) -> None:
    declare(local_world, {"total": {"type": "integer"}}, schema_policy=policy)
    local_world.land(NW, totals(pa.int32(), 1))
    local_world.ingest(NW)
    local_world.land(SW, totals(pa.int64(), 2**40))

    with pytest.raises(SchemaError, match=r"column 'total' of the object .*batch_1.parquet is int64, and .*int32"):
        local_world.ingest(SW)
    assert any("is int64" in text for text in _refusals(local_world))
    assert types(local_world)["total"] == "INTEGER"


def _refusals(world: World) -> tuple[str, ...]:
    planned = plan(world.stream, world.partition(SW))
    return (*planned.columns, str(planned.decision))


def test_an_object_of_another_type_is_quarantined_also_before_there_is_a_table(local_world: World) -> None:
    declare(local_world, {"total": {"type": "integer"}}, on_bad_object="quarantine", schema_policy="evolve")
    local_world.land(NW, totals(pa.int64(), 2**40), "a.parquet")
    local_world.land(NW, totals(pa.int32(), 1), "b.parquet")

    row = local_world.ingest(NW).row

    assert (row.row_count, row.files_quarantined) == (1, 1)
    assert types(local_world)["total"] == "INTEGER"


def test_a_table_that_evolves_gets_a_new_column_with_its_declared_type(local_world: World) -> None:
    declare(local_world, {}, schema_policy="evolve")
    local_world.commit(NW, 1.5)
    declare(local_world, {"note": {"type": "bigint"}}, schema_policy="evolve")
    local_world.land(SW, sales(2.5).append_column("note", pa.array([7], pa.int8())))

    changes = local_world.ingest(SW).changes

    assert [str(change) for change in changes] == ["added column note BIGINT"]


@pytest.mark.parametrize("mode", ["replace", "append", "index"])
def test_a_table_of_another_type_is_refused_before_anything_runs(local_world: World, mode: str) -> None:
    declare(local_world, {}, mode=mode)
    local_world.commit(NW, 1.5)
    declare(local_world, {"total": {"type": "decimal(12,2)"}}, mode=mode)
    local_world.land(SW, sales(2.5))
    message = r"'total' of table main.sales is DOUBLE, and `columns` declares DECIMAL\(12,2\): declare type: DOUBLE"

    with pytest.raises(SchemaError, match=message):
        plan(local_world.stream, local_world.partition(SW))
    with pytest.raises(SchemaError, match=message):
        local_world.ingest(SW)
    assert local_world.totals() == [1.5]


def test_a_declared_column_that_the_table_lacks_is_refused_unless_it_evolves(local_world: World) -> None:
    declare(local_world, {})
    local_world.commit(NW, 1.5)
    declare(local_world, {"note": {"type": "string"}})
    local_world.land(SW, sales(2.5))

    with pytest.raises(SchemaError, match=r"has no column 'note', which `columns` declares as VARCHAR"):
        local_world.ingest(SW)

    declare(local_world, {"note": {"type": "string"}}, schema_policy="evolve")
    assert local_world.ingest(SW).row.status == "committed"


@pytest.mark.parametrize(("policy", "expected"), [("strict", None), ("ignore_extra", None), ("evolve", [(1.5, None)])])
def test_a_declared_column_that_is_not_landed_is_a_missing_one(
    local_world: World, policy: str, expected: list[tuple[Any, ...]] | None
) -> None:
    declare(local_world, {"note": {"type": "string"}}, schema_policy=policy)
    local_world.land(NW, sales(1.5))
    if expected is None:
        with pytest.raises(SchemaError, match="it lacks 'note'"):
            local_world.ingest(NW)
        return
    local_world.ingest(NW)

    assert local_world.query("SELECT total, note FROM lake.sales") == expected


def test_index_creates_the_table_with_the_declared_types(local_world: World) -> None:
    declare(local_world, {"id": {"type": "bigint"}}, mode="index")
    local_world.land(NW, pa.table({"id": pa.array([1], pa.int32())}))
    local_world.ingest(NW)

    assert types(local_world) == {"id": "BIGINT"}
    assert local_world.query("SELECT id FROM lake.sales") == [(1,)]


def test_a_changed_declaration_reads_a_partition_again_and_a_changed_description_does_not(local_world: World) -> None:
    declare(local_world, {"total": {"type": "double"}})
    local_world.commit(NW, 1.5)
    declare(local_world, {"total": {"type": "double", "description": "Gross"}, "id": "A number"})
    assert local_world.ingest(NW).row.status == "skipped"
    declare(local_world, {"total": {"type": "double"}, "id": {"type": "bigint"}})
    assert local_world.ingest(NW).row.status == "committed"


def test_a_value_that_the_declared_type_does_not_hold_is_a_dead_letter(local_world: World) -> None:
    declare(local_world, {"id": {"type": "smallint"}}, format="csv", on_bad_row="dead_letter")
    local_world.land(NW, b"id\n1\n70000\n", "a.csv")
    local_world.ingest(NW)

    assert local_world.query("SELECT id FROM lake.sales") == [(1,)]
    assert [letter["_raw"] for letter in letters(local_world)] == ["70000"]


RENAMED = {"total": {"type": "decimal(12,2)", "from": "Total Amount"}, "secret": {"omit": True}}
BODIES = {
    "csv": [b"id,Total Amount,secret\n1,2.5,x\n", b"secret,total amount,id\n9,7.25,2\n"],
    "json": [b'{"id": 1, "Total Amount": 2.5, "secret": "x"}\n', b'{"id": 2, "secret": [9], "Total Amount": 7.25}\n'],
    "parquet": [
        pa.table({"id": [1], "Total Amount": pa.array([Decimal("2.5")]), "secret": ["x"]}),
        pa.table({"SECRET": [9], "total amount": pa.array([Decimal("7.25")]), "id": [2]}),
    ],
}


@pytest.mark.parametrize("policy", ["strict", "evolve", "ignore_extra"])
@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_a_landed_column_may_have_another_name_and_another_one_be_left_out(
    local_world: World, form: str, policy: str
) -> None:
    declare(local_world, RENAMED, format=form, schema_policy=policy)
    for partition, body in zip((NW, SW), BODIES[form], strict=True):
        local_world.land(partition, body, f"a.{form}")
        assert not [text for text in plan(local_world.stream, local_world.partition(partition)).columns if "No" in text]
        local_world.ingest(partition)

    assert types(local_world) == {"id": "BIGINT", "total": "DECIMAL(12,2)"}
    assert local_world.query(TOTALS) == [(Decimal("2.50"),), (Decimal("7.25"),)]


def test_a_transform_sees_the_declared_names(local_world: World) -> None:
    declare(local_world, RENAMED, transform={"sql": "SELECT * FROM source"})
    local_world.land(NW, BODIES["parquet"][0])
    local_world.ingest(NW)

    assert local_world.query("SELECT id, total FROM lake.sales") == [(1, Decimal("2.50"))]
    assert types(local_world).keys() == {"id", "total"}


def test_times_of_nanoseconds_and_dictionaries_are_read_by_their_landed_names(local_world: World) -> None:
    declare(local_world, {"seen": {"from": "When"}, "shop": {"from": "Shop"}})
    whens = pa.array([1_700_000_000_123_456_789], pa.timestamp("ns"))
    shops = pa.array(["a"]).dictionary_encode()
    local_world.land(NW, pa.table({"When": whens, "Shop": shops}))
    local_world.ingest(NW)

    query = "SELECT epoch_ns(seen), shop FROM lake.sales"
    assert types(local_world) == {"seen": "TIMESTAMP_NS", "shop": "VARCHAR"}
    assert local_world.query(query) == [(1_700_000_000_123_456_789, "a")]


def test_two_landed_columns_of_one_name_are_refused(local_world: World) -> None:
    declare(local_world, {"total": {"from": "amount"}})
    local_world.land(NW, pa.table({"amount": [1], "Total": [2]}))

    with pytest.raises(SchemaError, match="columns 'amount' and 'Total', and each is 'Total' in the table: omit one"):
        local_world.ingest(NW)


def test_another_field_of_json_is_refused_beside_one_that_is_left_out(local_world: World) -> None:
    declare(local_world, {"secret": {"omit": True}}, format="json", on_bad_row="dead_letter")
    lines = [b'{"id": 1, "at": {"x": 1}}', b'{"id": 2, "secret": 1, "note": "a"}', b'{"id": 3, "at": {"x": 1, "y": 2}}']
    local_world.land(NW, lines[0] + b"\n", "a.json")
    local_world.ingest(NW)
    local_world.land(SW, b"\n".join(lines[1:]), "b.json")  # in the sample it is a column

    with pytest.raises(SchemaError, match=r"it has 'at\.y', 'note'"):
        local_world.ingest(SW)

    omitted = b'{"id": 4, "secret": {"z": 1}}\n{"id": 5, "secret": "%s"}\n' % (b"b" * 1000)
    local_world.land(SW, omitted * 5000 + b"\n".join(lines[1:]), "b.json")
    assert local_world.ingest(SW).row.row_count == 10_000
    assert [letter["_raw"] for letter in letters(local_world)] == [line.decode() for line in lines[1:]]
    reasons = [letter["_reason"].split(": ")[1] for letter in letters(local_world)]
    assert reasons == ["unknown field 'note'", "unknown field within another one"]


def test_what_is_inferred_can_be_declared(local_world: World) -> None:
    declare(local_world, RENAMED | {"id": "Key"})
    assert local_world.landing  # an empty folder
    with pytest.raises(SourceError, match="nothing has landed in"):
        inferred_columns(local_world.stream)
    landed = BODIES["parquet"][0].append_column("note", pa.nulls(1)).append_column("at", pa.array([[{"x y": 1}]]))
    local_world.land(NW, landed)
    of_objects = inferred_columns(local_world.stream)

    assert of_objects == {
        "id": {"type": "BIGINT", "description": "Key"},
        "total": {"type": "DECIMAL(12,2)", "from": "Total Amount"},
        "note": {},
        "at": {"type": 'STRUCT("x y" BIGINT)[]'},
        "secret": {"omit": True},
    }
    declare(local_world, dict(of_objects))
    local_world.ingest(NW)
    assert inferred_columns(local_world.stream) == dict(of_objects) | {"note": {"type": "INTEGER"}}


FORMATS = {"total": {"type": "DECIMAL(12,2)", "format": "#.##0,00 EUR"}, "sold": {"type": "DATE", "format": "%d.%m.%Y"}}
WRITTEN = [("1.234,50 EUR", "11.02.2026"), ("2,5", "01.01.2026"), ("-3", None)]
READ = [
    (Decimal("-3.00"), None),
    (Decimal("2.50"), dt.date(2026, 1, 1)),
    (Decimal("1234.50"), dt.date(2026, 2, 11)),
]


def texts(form: str, rows: Sequence[Sequence[Any]], names: Sequence[str] = ("total", "sold")) -> bytes:
    """An object with rows of these columns."""
    return landed(form, *(dict(zip(names, row, strict=True)) for row in rows), delimiter=";")


def of(form: str) -> dict[str, Any]:
    return {"format": {"type": "csv", "delimiter": ";"} if form == "csv" else form}


@pytest.mark.parametrize("form", ["csv", "json", "parquet", "orc"])
def test_texts_are_read_in_the_format_of_their_column(local_world: World, form: str) -> None:
    declare(local_world, FORMATS, **of(form))
    for key in (NW, SW):  # the second one by the types of the table
        local_world.land(key, texts(form, WRITTEN), f"a.{form}")
        local_world.ingest(key)

    assert types(local_world) == {"total": "DECIMAL(12,2)", "sold": "DATE"}
    for region in ("NW", "SW"):
        query = f"SELECT total, sold FROM lake.sales WHERE region = '{region}' ORDER BY total"
        assert local_world.query(query) == READ


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
@pytest.mark.parametrize("text", ["1,234.50", "12.34", "x", "1.2345,00", "1,234"])
def test_a_text_that_is_not_in_the_format_is_a_bad_row(local_world: World, form: str, text: str) -> None:
    declare(local_world, FORMATS, on_bad_row="dead_letter", **of(form))
    local_world.land(NW, texts(form, [*WRITTEN, (text, None)]), f"a.{form}")

    row = local_world.ingest(NW).row

    assert (row.row_count, row.rows_dead_lettered) == (3, 1)
    (letter,) = letters(local_world)
    assert f"column 'total' has the value {text}" in letter["_reason"]


@pytest.mark.parametrize("form", ["csv", "json", "parquet", "orc"])
def test_rows_without_a_value_get_the_default(local_world: World, form: str) -> None:
    columns = {"n": {"type": "BIGINT", "default": 7}, "kind": {"type": "VARCHAR", "default": "none"}}
    declare(local_world, columns, **of(form))
    local_world.land(NW, texts(form, [(1, "a"), (None, None)], ("n", "kind")), f"a.{form}")
    local_world.land(NW, texts(form, [(3,), (4,)], ("n",)), f"b.{form}")

    local_world.ingest(NW)

    assert local_world.query("SELECT n, kind FROM lake.sales ORDER BY n") == [
        (1, "a"),
        (3, "none"),
        (4, "none"),
        (7, "none"),
    ]


@pytest.mark.parametrize("form", ["csv", "json", "parquet", "orc"])
def test_a_row_without_a_required_value_is_a_bad_row(local_world: World, form: str) -> None:
    declare(local_world, {"id": {"type": "BIGINT", "nullable": False}}, **of(form))
    local_world.land(NW, texts(form, [(1, "a"), (None, "b")], ("id", "text")), f"a.{form}")

    with pytest.raises(SchemaError, match=r"column 'id' of the object .*a\.\w+ has a row without a value"):
        local_world.ingest(NW)
    local_world.options |= {"on_bad_row": "dead_letter"}
    row = local_world.ingest(NW).row

    assert (row.row_count, row.rows_dead_lettered) == (1, 1)
    (letter,) = letters(local_world)
    assert "column 'id' has no value, and `columns` declares nullable: false" in letter["_reason"]
    assert local_world.query("SELECT id, text FROM lake.sales") == [(1, "a")]


def test_an_object_without_a_required_column_is_refused_or_quarantined(local_world: World) -> None:
    columns = {"id": {"type": "BIGINT"}, "must": {"type": "BIGINT", "nullable": False}}
    declare(local_world, columns, schema_policy="evolve", on_bad_object="quarantine")
    local_world.land(NW, pa.table({"id": pa.array([1], pa.int64())}), "a.parquet")
    local_world.land(NW, pa.table({"id": pa.array([2], pa.int64()), "must": pa.array([2], pa.int64())}), "b.parquet")

    assert local_world.ingest(NW).row.files_quarantined == 1
    assert local_world.query("SELECT id, must FROM lake.sales") == [(2, 2)]


def test_a_default_makes_up_for_a_required_value(local_world: World) -> None:
    declare(local_world, {"n": {"type": "BIGINT", "nullable": False, "default": 0}}, format="json")
    local_world.land(NW, b'{"n": null}\n{"n": 2}\n{}\n', "a.json")
    local_world.ingest(NW)

    assert local_world.query("SELECT n FROM lake.sales ORDER BY n") == [(0,), (0,), (2,)]


def test_the_result_of_a_transform_has_the_rules_too(local_world: World) -> None:
    declare(
        local_world,
        {"code": {"type": "VARCHAR", "nullable": False}, "half": {"type": "DOUBLE", "default": -1}},
        transform={"sql": "SELECT id, CASE WHEN id > 1 THEN 'x' END AS code, CAST(NULL AS DOUBLE) AS half FROM source"},
    )
    local_world.land(NW, totals(pa.float64(), 1.0))
    with pytest.raises(SchemaError, match="column 'code' of the transform's result has a row without a value"):
        local_world.ingest(NW)
    local_world.land(NW, pa.table({"id": pa.array([2], pa.int64())}))
    local_world.ingest(NW)

    assert local_world.query("SELECT id, code, half FROM lake.sales") == [(2, "x", -1.0)]


def test_a_file_whose_values_are_looked_at_is_not_copied(local_world: World) -> None:
    declare(local_world, {"id": {"type": "BIGINT", "nullable": False}}, copy="always")
    local_world.land(NW, pa.table({"id": pa.array([1, None], pa.int64())}))

    with pytest.raises(SchemaError, match="has a row without a value"):
        local_world.ingest(NW)


def test_a_renamed_column_in_nanoseconds_keeps_them(local_world: World) -> None:
    moment = 1_770_800_400_123_456_789
    declare(local_world, {"moment": {"type": "TIMESTAMP_NS", "from": "When"}})
    sink = io.BytesIO()
    table = pa.table({"When": pa.array([moment], pa.timestamp("ns"))})
    pq.write_table(table, sink, use_deprecated_int96_timestamps=True)
    local_world.land(NW, sink.getvalue())
    local_world.ingest(NW)

    assert local_world.query("SELECT epoch_ns(moment) FROM lake.sales") == [(moment,)]


def test_a_declared_column_that_a_text_gets_later_has_its_type(local_world: World) -> None:
    local_world.options = {"format": "csv", "schema_policy": "evolve"}
    local_world.land(NW, b"id\n1\n", "a.csv")
    local_world.ingest(NW)
    declare(local_world, {"code": {"type": "VARCHAR"}}, format="csv", schema_policy="evolve")
    local_world.land(SW, b"id,code\n2,17\n", "b.csv")
    local_world.ingest(SW)

    assert types(local_world) == {"id": "BIGINT", "code": "VARCHAR"}
    assert local_world.query("SELECT id, code FROM lake.sales ORDER BY id") == [(1, None), (2, "17")]


def test_inferred_columns_are_those_that_a_config_may_declare(local_world: World) -> None:
    options = {"file_columns": {"n": "row_number"}, "rescue": "_rescued"}
    declare(local_world, {"region": "Where", "n": {"description": "Its number"}}, **options)
    local_world.land(NW, totals(pa.float64(), 1.0))
    local_world.ingest(NW)

    found = inferred_columns(local_world.stream)

    assert found == {
        "id": {"type": "BIGINT"},
        "total": {"type": "DOUBLE"},
        "region": {"description": "Where"},
        "n": {"description": "Its number"},
    }
    declare(local_world, dict(found), **options)
    assert local_world.ingest(NW).row.status == "committed"
