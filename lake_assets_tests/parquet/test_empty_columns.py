"""Types for columns without values in a file."""

import pyarrow as pa

from lake_assets.parquet.empty_columns import filled, with_values, without_values

NOTHING = pa.null()


def struct(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    return pa.struct([("a", a), ("b", b)])


def test_a_type_is_taken_from_the_first_file_that_has_one() -> None:
    schema = pa.schema([("id", pa.int64()), ("note", NOTHING), ("more", NOTHING)])
    others = [pa.schema([("NOTE", NOTHING)]), pa.schema([("Note", pa.string())]), pa.schema([("note", pa.int8())])]

    assert filled(schema, others) == pa.schema([("id", pa.int64()), ("note", pa.string()), ("more", NOTHING)])


def test_parts_of_nested_columns_are_filled_too() -> None:
    schema = pa.schema(
        [("s", struct(NOTHING, pa.int8())), ("l", pa.list_(NOTHING)), ("m", pa.map_(pa.string(), pa.list_(NOTHING)))]
    )
    other = pa.schema(
        [
            ("s", struct(pa.date32(), NOTHING)),
            ("l", pa.large_list(struct(pa.int8(), pa.int8()))),
            ("m", pa.map_(pa.string(), pa.list_(pa.float64()))),
        ]
    )

    assert without_values(schema) == ["s", "l", "m"]
    result = filled(schema, [other])
    assert without_values(result) == []
    assert result == pa.schema(
        [
            ("s", struct(pa.date32(), pa.int8())),
            ("l", pa.list_(struct(pa.int8(), pa.int8()))),
            ("m", pa.map_(pa.string(), pa.list_(pa.float64()))),
        ]
    )


def test_a_table_has_some_column() -> None:
    assert with_values(pa.schema([("a", NOTHING), ("b", pa.int8())])).names == ["b"]
    assert with_values(pa.schema([("a", NOTHING)])).names == ["a"]
