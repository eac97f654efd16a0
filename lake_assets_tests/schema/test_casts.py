"""Casts of nested columns keep every value, in any part of an array; columns without values get a type."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from lake_assets.schema.arrow_types import columns_with_values, untyped_columns, with_types_of
from lake_assets.schema.casts import cast

SMALL = pa.struct([("n", pa.int8()), ("text", pa.string())])
LARGE = pa.struct([("new", pa.date32()), ("Text", pa.string()), ("N", pa.int64())])
ROWS: list[Any] = [{"n": 1, "text": "a"}, None, {"n": None, "text": ""}, {"n": -3, "text": None}]


def renamed(row: Any) -> Any:
    return None if row is None else {"new": None, "Text": row["text"], "N": row["n"]}


def in_lists(kind: Callable[[pa.DataType], pa.DataType]) -> tuple[pa.DataType, list[Any], pa.DataType, list[Any]]:
    rows = [ROWS[:2], None, ROWS[2:], ROWS[1:3]]
    return kind(SMALL), rows, pa.list_(LARGE), [None if row is None else list(map(renamed, row)) for row in rows]


DEEP = pa.struct([("deep", pa.map_(pa.int8(), pa.list_(SMALL)))])
LARGE_DEEP = pa.struct([("deep", pa.map_(pa.int64(), pa.list_(LARGE))), ("other", pa.list_(pa.uuid()))])
CASES: dict[str, tuple[pa.DataType, list[Any], pa.DataType, list[Any]]] = {
    "large list": in_lists(pa.large_list),
    "fixed list": in_lists(lambda item: pa.list_(item, 2)),
    "list view": in_lists(pa.list_view),
    "any depth": (
        DEEP,
        [{"deep": [(1, [ROWS[0], None]), (2, None)]}, {"deep": None}, None],
        LARGE_DEEP,
        [{"deep": [(1, [renamed(ROWS[0]), None]), (2, None)], "other": None}, {"deep": None, "other": None}, None],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_fields_are_found_by_name_and_missing_ones_are_null(case: str) -> None:
    given, rows, wanted, expected = CASES[case]
    for first in (0, 1, 3):
        result = cast(pa.array(rows, given).slice(first), wanted)

        result.validate(full=True)
        assert result.type == wanted
        assert result.to_pylist() == expected[first:]


def test_what_is_stored_below_null_is_not_read() -> None:
    hidden = pa.StructArray.from_arrays([pa.array([2**40, 1])], ["n"], mask=pa.array([True, False]))

    assert cast(hidden, pa.struct([("m", pa.int8()), ("n", pa.int8())])).to_pylist() == [None, {"m": None, "n": 1}]


def test_a_value_that_the_type_cannot_hold_is_refused() -> None:
    with pytest.raises(pa.ArrowInvalid, match="not in range"):
        cast(pa.array([{"n": 300}]), pa.struct([("n", pa.int8()), ("m", pa.int8())]))


def test_categories_of_structs_are_their_values() -> None:
    array = pa.DictionaryArray.from_arrays(pa.array([1, None, 0], pa.int8()), pa.array(ROWS[:1] + ROWS[2:3], SMALL))

    assert cast(array, LARGE).to_pylist() == [renamed(ROWS[2]), None, renamed(ROWS[0])]


NOTHING = pa.null()


def test_a_column_without_values_has_the_type_of_the_first_file_that_has_one_at_any_depth() -> None:
    schema = pa.schema(
        [
            ("note", NOTHING),
            ("more", NOTHING),
            ("s", pa.struct([("a", NOTHING), ("b", pa.int8())])),
            ("l", pa.list_(NOTHING)),
            ("m", pa.map_(pa.string(), pa.list_(NOTHING))),
        ]
    )
    found = {
        "Note": pa.string(),
        "s": pa.struct([("a", pa.date32()), ("b", NOTHING)]),
        "l": pa.large_list(pa.int8()),
        "m": pa.map_(pa.string(), pa.list_(pa.float64())),
    }
    others = [pa.schema({"NOTE": NOTHING}), pa.schema(found), pa.schema({"note": pa.int8()})]

    assert untyped_columns(schema) == ["note", "more", "s", "l", "m"]
    result = with_types_of(schema, others)
    assert untyped_columns(result) == ["more"]
    assert result == pa.schema(
        [
            ("note", pa.string()),
            ("more", NOTHING),
            ("s", pa.struct([("a", pa.date32()), ("b", pa.int8())])),
            ("l", pa.list_(pa.int8())),
            ("m", pa.map_(pa.string(), pa.list_(pa.float64()))),
        ]
    )


def test_a_table_has_some_column() -> None:
    assert columns_with_values(pa.schema([("a", NOTHING), ("b", pa.int8())])).names == ["b"]
    assert columns_with_values(pa.schema([("a", NOTHING)])).names == ["a"]
