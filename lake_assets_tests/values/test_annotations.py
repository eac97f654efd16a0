"""What becomes of each annotation of a format, and that a column which nobody wants refuses no file."""

import datetime as dt
import decimal
import io
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from lake_assets.base.errors import SchemaError
from lake_assets.schema import annotations
from lake_assets.storage.formats import parquet_footers
from lake_assets_tests.faults.without_spark import sessions  # noqa: F401 - a fixture
from lake_assets_tests.ingest.test_in_rows import REGION_IN_ROWS, put
from lake_assets_tests.tiers import more
from lake_assets_tests.values.annotated import (
    CONVERTED,
    NODE,
    NUMBER,
    converted,
    logical,
    with_keys,
    with_optional_keys,
    written,
)
from lake_assets_tests.values.test_types_of_writers import WAYS, ingest, world_of
from lake_assets_tests.world import NW, SW, World

# The logical types of Parquet's specification by their numbers, and its converted types.
OF_PARQUET = {
    1: "STRING", 2: "MAP", 3: "LIST", 4: "ENUM", 5: "DECIMAL", 6: "DATE", 7: "TIME", 8: "TIMESTAMP", 10: "INT",
    11: "UNKNOWN", 12: "JSON", 13: "BSON", 14: "UUID", 15: "FLOAT16", 16: "VARIANT", 17: "GEOMETRY", 18: "GEOGRAPHY",
}  # fmt: skip
ONLY_CONVERTED = {"INTERVAL"}


def test_each_annotation_of_parquet_has_a_row() -> None:
    assert annotations.PARQUET.keys() - {"NONE", "TIMETZ"} == {*OF_PARQUET.values(), *ONLY_CONVERTED}


# The logical types of Avro's specification.
OF_AVRO = (
    "decimal big-decimal uuid date time-millis time-micros timestamp-millis timestamp-micros timestamp-nanos "
    "local-timestamp-millis local-timestamp-micros local-timestamp-nanos duration"
)


def test_each_annotation_of_avro_has_a_row() -> None:
    assert {name for _, name in annotations.AVRO} == set(OF_AVRO.split())


def test_the_page_lists_the_annotations() -> None:
    page = Path("docs/schema-changes.md").read_text(encoding="utf-8").partition("## Annotations")[2].partition("## ")[0]
    rows = [row.split("|")[1:4] for row in page.splitlines() if row.startswith("| ")][1:]
    listed = {(form.strip(), name): kind.strip() for form, names, kind in rows for name in names.split("`")[1::2]}
    tables = {"Parquet": annotations.PARQUET, "ORC": annotations.ORC}
    tables["Avro"] = {name: fate for (_, name), fate in annotations.AVRO.items()}

    assert listed.keys() == {(form, name) for form, table in tables.items() for name in table if name != "NONE"}
    for (form, name), kind in listed.items():
        assert (tables[form][name] is annotations.REFUSED) == (kind == "refused"), name


BYTES = {"STRING": "VARCHAR", "ENUM": "VARCHAR", "JSON": "VARCHAR", "BSON": "BLOB"}  # that annotate bytes


@pytest.mark.parametrize("name", [*list(BYTES)[1:2], *more(name for name in BYTES if name != "ENUM")])
def test_annotated_bytes_have_the_type_of_the_table(local_world: World, name: str) -> None:
    number = next(number for number, other in OF_PARQUET.items() if other == name)
    rows = pa.table({"id": [1], "x": [b"1"], "s": [{"y": b"2"}]})
    local_world.land(NW, written(rows, {"x": logical(number), "y": logical(number)}))

    local_world.ingest(NW)

    kind = BYTES[name]
    assert local_world.query("SELECT typeof(x), x::VARCHAR, typeof(s.y) FROM lake.sales") == [(kind, "1", kind)]


ENUM = {CONVERTED: (NUMBER, 4), **logical(4)}  # as most writers have it
COLORS = pa.table({"id": [1, 2], "color": [b"RED", "GRÜN".encode()], "l": [[b"a"], []]})


@pytest.mark.parametrize("way", ["encoded", *more(way for way in WAYS if way != "encoded"), "declared"])
def test_an_enum_is_a_text_and_texts_fit_it_later(local_world: World, way: str) -> None:
    if way == "declared":
        local_world.options = {"columns": {"color": {"type": "VARCHAR"}}}
    world = local_world if way == "declared" else world_of(local_world, way)
    world.land(NW, written(COLORS, {"color": ENUM, "element": ENUM}, compression="zstd"))
    ingest(world)
    world.land(SW, pa.table({"id": [3], "color": ["BLUE"], "l": [["b"]]}), compression="zstd")
    if way == "indexed":
        ingest(world)
    else:
        world.ingest(SW)

    assert world.query("SELECT typeof(color), color, l FROM lake.sales ORDER BY id") == [
        ("VARCHAR", "RED", ["a"]),
        ("VARCHAR", "GRÜN", []),
        ("VARCHAR", "BLUE", ["b"]),
    ]


NO_CONVERTED: parquet_footers.Struct = {CONVERTED: (0, None)}  # taken out
HALF: dict[str, tuple[pa.Array, str, Any]] = {
    "text": (pa.array(["GRÜN"]), "x", "GRÜN"),
    "day": (pa.array([dt.date(2026, 2, 11)]), "x", dt.date(2026, 2, 11)),
    "unsigned": (pa.array([2**32 - 1], pa.uint32()), "x", 2**32 - 1),
    "decimal": (pa.array([decimal.Decimal("1.5")]), "x", decimal.Decimal("1.5")),
    "list": (pa.array([[1]]), "x", [1]),
    "nested": (pa.array([["GRÜN"]]), "element", ["GRÜN"]),
}


@pytest.mark.parametrize("name", ["text", *more(name for name in HALF if name != "text")])
def test_a_logical_type_alone_is_no_column_of_a_file_of_the_lake(local_world: World, name: str) -> None:
    """DuckDB reads bytes, numbers and structs there."""
    column, node, value = HALF[name]
    local_world.land(NW, written(pa.table({"x": column}), {node: NO_CONVERTED}, compression="zstd"))
    local_world.options = {"mode": "index"}
    with pytest.raises(SchemaError, match=r"column 'x' of the object .* no converted one.*or use mode: replace"):
        ingest(local_world)

    local_world.options = {"copy": "always"}

    assert local_world.ingest(NW).row.files_copied == 0
    assert local_world.query("SELECT x FROM lake.sales") == [(value,)]


def test_an_enum_selects_the_rows_of_a_partition(local_world: World) -> None:
    local_world.options = dict(REGION_IN_ROWS)
    rows = pa.table({"id": [1, 2], "region": [b"NW", b"SW"]})
    put(local_world, "date=2026-02-11/a.parquet", written(rows, {"region": ENUM}))

    local_world.ingest(NW)

    assert local_world.query("SELECT id, region FROM lake.sales") == [(1, "NW")]


def test_bytes_that_are_no_text_are_refused_by_column(local_world: World) -> None:
    local_world.land(NW, written(pa.table({"id": [1], "color": [b"\xff"]}), {"color": ENUM}))

    with pytest.raises(SchemaError, match=r"column 'color' of the object .* has a value that is none of its type"):
        local_world.ingest(NW)


MAPS = [[("a", 1), ("b", 2)], None, [], [("c", 3)]]


@pytest.mark.parametrize("way", ["encoded", *more(["evolved"])])
def test_a_map_of_optional_keys_is_a_map(local_world: World, way: str) -> None:
    world = world_of(local_world, way)
    world.land(NW, with_optional_keys(MAPS))

    world.ingest(NW)

    assert world.query("SELECT m FROM lake.sales ORDER BY id") == [({"a": 1, "b": 2},), (None,), ({},), ({"c": 3},)]


def test_a_map_of_optional_keys_is_no_file_of_the_lake(local_world: World) -> None:
    """DuckDB reads no file with a key that is NULL."""
    local_world.land(NW, with_optional_keys(MAPS))
    local_world.options = {"mode": "index"}
    with pytest.raises(SchemaError, match=r"column 'm' of the object .* has a map whose keys are optional.*replace"):
        ingest(local_world)

    local_world.options = {"mode": "replace", "copy": "always"}

    assert local_world.ingest(NW).row.files_copied == 0
    assert local_world.query("SELECT m FROM lake.sales WHERE id = 0") == [({"a": 1, "b": 2},)]


def test_a_key_that_is_null_is_refused_by_column(local_world: World) -> None:
    local_world.land(NW, with_optional_keys([[(None, 1)]]))
    with pytest.raises(
        SchemaError, match=r"column 'm' of the object .* has a value that is none of its type.*omit: true"
    ):
        local_world.ingest(NW)

    local_world.options = {"columns": {"m": {"omit": True}}}
    local_world.ingest(NW)

    assert local_world.query("SELECT * EXCLUDE (region, date) FROM lake.sales") == [(0,)]


# Columns that Arrow refuses with their whole file, or that have no row in the table.
UNWANTED = {
    "unknown": (logical(30), "the type logical type 30 of Parquet"),
    "misused": (converted(10), r"unreadable by Arrow \(TIMESTAMP_MICROS can only annotate INT64\)"),
    "without unit": ({10: (NODE, {8: (NODE, {1: (1, None), 2: (NODE, {9: (NODE, {})})})})}, "unreadable by Arrow"),
    "group": (logical(4), "unreadable by Arrow"),
}
AROUND: dict[str, dict[str, Any]] = {
    "omit": {"columns": {"x": {"omit": True}}},
    "rescue": {"rescue": "_rest"},
    "ignore": {"schema_policy": "ignore_extra"},
}


@pytest.mark.parametrize(
    ("name", "around"),
    [("unknown", "omit"), ("misused", "ignore"), ("group", "rescue"), *more((n, a) for n in UNWANTED for a in AROUND)],
)
def test_a_column_that_nobody_wants_refuses_no_file(local_world: World, name: str, around: str) -> None:
    fields, why = UNWANTED[name]
    rows = pa.table(
        {"id": [2], "x": [{"y": 1}] if name == "group" else pa.array([7] if name == "without unit" else [b"7"])}
    )
    local_world.land(NW, written(rows, {"x": fields}))
    with pytest.raises(SchemaError, match=f"column 'x' has the type {why}.*omit: true".replace("the type the", "the")):
        local_world.ingest(NW)

    local_world.options = AROUND[around]
    if around != "omit":
        local_world.land(SW, pa.table({"id": [1]}))
        local_world.ingest(SW)
    local_world.ingest(NW)

    assert local_world.query("SELECT max(id) FROM lake.sales") == [(2,)]


NTZ = {"spark.sql.catalyst.type": "timestamp_ntz"}
NOON = 1_782_907_200_500_000  # microseconds


def of_orc(**columns: tuple[pa.Array, dict[str, str]]) -> bytes:
    """Return a file of ORC whose columns, or the elements of lists, have attributes."""
    fields = []
    for name, (values, attributes) in columns.items():
        part = values.type
        if pa.types.is_list(part):
            fields.append(pa.field(name, pa.list_(pa.field("item", part.value_type, metadata=attributes))))
        else:
            fields.append(pa.field(name, part, metadata=attributes))
    sink = io.BytesIO()
    schema = pa.schema(fields)
    arrays = [values.cast(field.type) for field, (values, _) in zip(fields, columns.values(), strict=True)]
    orc.write_table(pa.table(arrays, schema=schema), sink)
    return sink.getvalue()


@pytest.mark.parametrize("unit", ["TIMESTAMP", *more(["TIMESTAMP_NS"])])
def test_attributes_of_orc_are_types(local_world: World, unit: str) -> None:
    local_world.options = {"format": "orc", "columns": {"ns": {"type": unit}}}
    clock = {"iceberg.long-type": "TIME"}
    columns = {
        "tn": (pa.array([NOON]), NTZ),
        "l": (pa.array([[NOON]]), NTZ),
        "ns": (pa.array([NOON]), NTZ),
        "t": (pa.array([43_200_000_000_000]), {"spark.sql.catalyst.type": "time(6)"}),
        "i": (pa.array([43_200_000_000]), clock),
        "months": (pa.array([14], pa.int32()), {"spark.sql.catalyst.type": "interval year to month"}),
    }
    local_world.land(NW, of_orc(**columns), "a.orc")

    local_world.ingest(NW)

    noon, twelve = dt.datetime(2026, 7, 1, 12, 0, 0, 500_000), dt.time(12)  # noqa: DTZ001 - without a zone
    row = local_world.query("SELECT tn, l, ns::TIMESTAMP, t, i, months FROM lake.sales")
    assert row == [(noon, [noon], noon, twelve, twelve, 14)]


UNION = pa.UnionArray.from_dense(
    pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([1]), pa.array([], pa.string())]
)
RECORD = {"type": "record", "name": "r"}


def of_avro(kind: Any, value: Any) -> bytes:
    sink = io.BytesIO()
    fields = [{"name": "id", "type": "long"}, {"name": "x", "type": kind}]
    fastavro.writer(sink, fastavro.parse_schema({**RECORD, "fields": fields}), [{"id": 2, "x": value}])
    return sink.getvalue()


DIGITS = {"type": "bytes", "logicalType": "decimal", "precision": 77, "scale": 38}


def of_parquet(values: pa.Array) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": [2], "x": values}), sink)
    return sink.getvalue()


LONG = pa.array([decimal.Decimal("2.5")], pa.decimal256(50, 10))
SPAN = pa.StructArray.from_arrays([pa.array([90], pa.duration("ns"))], names=["y"])
# A column that no lake holds.
UNHELD: dict[str, tuple[str, bytes, str]] = {
    "long decimal": ("parquet", of_parquet(LONG), r"decimal256\(50, 10\)"),
    "span": ("parquet", of_parquet(SPAN), r"duration\[ns\]"),
    "future": ("orc", of_orc(id=(pa.array([2]), {}), x=(pa.array([1]), {"spark.sql.catalyst.type": "geo(1)"})), "geo"),
    "unions": ("orc", of_orc(id=(pa.array([2]), {}), x=(UNION, {})), "UNION"),
    "union": (
        "avro",
        of_avro({"type": "map", "values": ["string", "boolean"]}, {"a": True}),
        "union of string and bool",
    ),
    "digits": ("avro", of_avro(["null", DIGITS], decimal.Decimal("2.5")), r"decimal256\(76, 38\)"),
    "duration": (
        "avro",
        of_avro({"type": "fixed", "name": "d", "size": 12, "logicalType": "duration"}, b"1" * 12),
        "dura",
    ),
    "big": ("avro", of_avro({"type": "bytes", "logicalType": "big-decimal"}, b"1"), "big-decimal"),
    "empty": ("avro", of_avro({"type": "record", "name": "e", "fields": []}, {}), "record without fields"),
}


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize(
    "name", ["long decimal", "unions", "union", "digits", *more(["span", "future", "duration", "big", "empty"])]
)
def test_a_column_that_no_lake_holds_and_nobody_wants_refuses_no_file(
    local_world: World, name: str, around: str
) -> None:
    form, body, why = UNHELD[name]
    local_world.options = {"format": form}
    local_world.land(NW, body, f"a.{form}")
    with pytest.raises(SchemaError, match=f"column 'x' has the type {why}.*omit: true"):
        local_world.ingest(NW)

    local_world.options = {"format": form, **AROUND[around]}
    local_world.ingest(NW)

    assert local_world.query("SELECT id FROM lake.sales") == [(2,)]


@pytest.mark.parametrize("name", ["long decimal", *more(["digits"])])
def test_a_long_decimal_enters_a_declared_type_that_holds_its_value(local_world: World, name: str) -> None:
    form, body, _ = UNHELD[name]
    local_world.options = {"format": form, "columns": {"x": {"type": "VARCHAR"}}}
    local_world.land(NW, body, f"a.{form}")
    with pytest.raises(SchemaError, match=r"the declared type is string.*let its writer cast it.*omit: true"):
        local_world.ingest(NW)

    local_world.options = {"format": form, "columns": {"x": {"type": "DECIMAL(38,4)"}}, "destination": {"table": "t"}}
    local_world.ingest(NW)

    assert local_world.query("SELECT x FROM lake.t") == [(decimal.Decimal("2.5"),)]


def test_what_no_column_holds_is_kept_as_it_is_written(local_world: World) -> None:
    local_world.options = {"format": "avro", "rescue": "_rest", "schema_policy": "evolve"}
    local_world.land(NW, of_avro(["string", "boolean"], value=True), "a.avro")
    local_world.ingest(NW)
    local_world.land(NW, of_avro(["string", "boolean"], "yes"), "a.avro")
    local_world.ingest(NW)

    assert local_world.query("SELECT id, _rest FROM lake.sales") == [(2, '{"x": "yes"}')]


def test_a_long_text_in_a_footer_is_read(local_world: World) -> None:
    local_world.land(NW, with_keys(pa.table({"id": [1]}), {"big": "x" * 101_000_000}))

    local_world.ingest(NW)

    assert local_world.query("SELECT id FROM lake.sales") == [(1,)]


@pytest.mark.parametrize(
    "columns",
    [{"s": [{"x": 1}], "s.x": [2]}, {"s": [{"x": 1, "x.y": 3}], "s.x": [2], "a.b": [1], "a": [3]}],
    ids=["two", "more"],
)
@pytest.mark.parametrize("way", ["copied", *more(["encoded", "indexed"])])
def test_a_dot_may_be_part_of_a_name(local_world: World, way: str, columns: dict[str, list[Any]]) -> None:
    world = world_of(local_world, way)
    world.land(NW, pa.table(columns), compression="zstd")

    ingest(world)

    names = ", ".join(f'"{name}"' for name in columns)
    assert world.query(f"SELECT {names} FROM lake.sales") == [tuple(values[0] for values in columns.values())]
    assert world.query('SELECT count(*) FROM lake.sales WHERE "s.x" = 2 AND s.x = 1') == [(1,)]
