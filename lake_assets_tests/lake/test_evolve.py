"""The changes after which a table can hold landed columns, and concurrent runs that make them."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lake_assets.base.errors import SchemaError
from lake_assets.config.lake import Lake
from lake_assets.config.layout.partition import PartitionColumn
from lake_assets.lake.ducklake import DuckLake
from lake_assets.lake.session import PartitionedTable, TableName
from lake_assets.lake.table_setup import Evolution, column_changes, create_table, data_schema, statements
from lake_assets.schema.column_rules import GROWING
from lake_assets.schema.misfits import united_columns

REGION = (PartitionColumn("region", "string"),)
TABLE = TableName("main", "t")
SCHEMA = pa.schema([("id", pa.int32()), ("total", pa.float32()), ("text", pa.string())])


def changes(*found: dict[str, pa.DataType], schema: pa.Schema = SCHEMA) -> list[str]:
    given = [(f"object {number}", pa.schema(list(columns.items()))) for number, columns in enumerate(found)]
    return [str(change) for change in column_changes(schema, GROWING.evolved(schema, given, REGION))]


def test_columns_that_fit_change_nothing() -> None:
    assert changes({"ID": pa.int8()}, {}, {"region": pa.int64()}, {"x": pa.null()}, {"text": pa.large_string()}) == []


def test_the_widest_type_is_chosen_and_each_column_changes_once() -> None:
    assert changes({"id": pa.int64(), "n": pa.int16()}, {"n": pa.int64(), "id": pa.int32()}, {"n": pa.uint8()}) == [
        "widened column id from INTEGER to BIGINT",
        "added column n BIGINT",
    ]
    assert changes({"x": pa.dictionary(pa.int8(), pa.string())}, {"x": pa.string()}) == ["added column x VARCHAR"]


POINT = pa.struct([("x", pa.int32()), ("tags", pa.list_(pa.string()))])
NESTED = pa.schema([("p", POINT), ("l", pa.list_(POINT)), ("m", pa.map_(pa.int32(), POINT))])


def test_parts_of_nested_columns_are_added_and_widened_at_any_depth() -> None:
    wide = pa.struct([("X", pa.int64()), ("y", pa.float32())])

    assert changes({"p": wide, "l": pa.list_(wide)}, {"m": pa.map_(pa.int64(), wide)}, schema=NESTED) == [
        "widened field p.x from INTEGER to BIGINT",
        "added field p.y FLOAT",
        "widened field l.element.x from INTEGER to BIGINT",
        "added field l.element.y FLOAT",
        "widened field m.key from INTEGER to BIGINT",
        "widened field m.value.x from INTEGER to BIGINT",
        "added field m.value.y FLOAT",
    ]


def test_a_nested_column_gets_its_whole_new_type() -> None:
    wide = pa.struct([("X", pa.int64()), ('a "b"', pa.struct([("c", pa.date32())]))])
    after = GROWING.evolved(NESTED, [("x", pa.schema([("l", pa.large_list(wide)), ("n", wide)]))], REGION)

    merged = 'STRUCT("x" BIGINT, "tags" VARCHAR[], "a ""b""" STRUCT("c" DATE))'
    assert statements(TABLE, NESTED, after) == [
        f'ALTER TABLE {TABLE.sql} ALTER COLUMN "l" SET DATA TYPE {merged}[]',
        f'ALTER TABLE {TABLE.sql} ADD COLUMN "n" STRUCT("X" BIGINT, "a ""b""" STRUCT("c" DATE))',
    ]


def test_fields_without_a_value_are_added_when_they_have_a_type() -> None:
    empty = pa.struct([("x", pa.int32()), ("new", pa.null())])

    assert changes({"p": empty, "more": pa.struct([("a", pa.int8()), ("b", pa.null())])}, schema=NESTED) == [
        'added column more STRUCT("a" TINYINT)'
    ]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"p": pa.struct([("x", pa.string())])}, "field 'p.x' of object 0 is string, and the table's is int32"),
        (
            {"l": pa.list_(pa.struct([("new", pa.int8()), ("tags", pa.int8())]))},
            "field 'l.element.tags' of object 0",
        ),
        ({"m": pa.map_(pa.int32(), pa.struct([("tags", pa.list_(pa.int8()))]))}, "field 'm.value.tags.element' of"),
        ({"p": pa.list_(POINT)}, "column 'p' of object 0 is list"),
        ({"p": pa.struct([("a", pa.int8()), ("A", pa.int8())])}, "in its column 'p' the fields 'a' and 'A'"),
        ({"p": pa.struct([("a", pa.duration("s"))])}, "column 'p' has the type duration"),
    ],
)
def test_a_part_that_cannot_be_widened_is_refused_by_name(column: dict[str, pa.DataType], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        changes(column, schema=NESTED)


def test_another_type_is_refused_by_object_and_column() -> None:
    with pytest.raises(SchemaError, match=r"column 'text' of object 1 is .* and the table's is"):
        changes({"id": pa.int64()}, {"text": pa.int8()})


@pytest.mark.parametrize("columns", [{"id": pa.float64()}, {"id": pa.uint32()}, {"total": pa.decimal128(9, 2)}])
def test_numbers_of_another_type_change_no_column(columns: dict[str, pa.DataType]) -> None:
    assert changes(columns) == []


def test_schemas_are_united_by_name() -> None:
    one, other = pa.schema([("a", pa.int8()), ("b", pa.null())]), pa.schema([("B", pa.string()), ("A", pa.int64())])

    assert united_columns([("x", one), ("y", other)]) == pa.schema([("a", pa.int64()), ("b", pa.string())])
    with pytest.raises(SchemaError, match="column 'a' of z is string, and that of another object is int8"):
        united_columns([("x", one), ("z", pa.schema([("a", pa.string())]))])


def test_concurrent_runs_make_each_change_once(catalog: Callable[[str], dict[str, Any]], tmp_path: Path) -> None:
    config = Lake.model_validate({"catalog": catalog("lake"), "storage": str(tmp_path / "data")})
    table = PartitionedTable(TABLE, REGION)
    with DuckLake(config).open(create=True) as lake:
        create_table(lake, table, SCHEMA.append(pa.field("p", pa.list_(POINT))))

    def change(number: int) -> list[str]:
        point = pa.struct([("x", pa.int64()), ("common", pa.string()), (f"own_{number}", pa.bool_())])
        result = pa.schema(
            [("id", pa.int64()), ("common", pa.string()), (f"own_{number}", pa.bool_()), ("p", pa.list_(point))]
        )
        with DuckLake(config).open() as lake:
            return [str(c) for c in Evolution(lake, table, f"run {number}").take([("x", result)])]

    with ThreadPoolExecutor(4) as pool:
        made = [change for changes in pool.map(change, range(4)) for change in changes]

    assert sorted(made) == sorted(
        ["widened column id from INTEGER to BIGINT", "added column common VARCHAR"]
        + ["widened field p.element.x from INTEGER to BIGINT", "added field p.element.common VARCHAR"]
        + [f"added {name}own_{number} BOOLEAN" for number in range(4) for name in ("column ", "field p.element.")]
    )
    with DuckLake(config).open() as lake:
        schema = data_schema(lake, table)
        assert schema.field("id").type == pa.int64()
        own = {f"own_{number}" for number in range(4)}
        assert set(schema.names) == {"id", "total", "text", "p", "common", *own}
        assert {field.name for field in schema.field("p").type.value_type} == {"x", "tags", "common", *own}
