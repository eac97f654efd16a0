"""Casts of nested columns keep every value, in any part of an array."""

from typing import Any

import pyarrow as pa
import pytest

from lake_assets.parquet.casts import cast

SMALL = pa.struct([("n", pa.int8()), ("text", pa.string())])
LARGE = pa.struct([("new", pa.date32()), ("Text", pa.string()), ("N", pa.int64())])
ROWS: list[Any] = [{"n": 1, "text": "a"}, None, {"n": None, "text": ""}, {"n": -3, "text": None}]


def renamed(row: Any) -> Any:
    return None if row is None else {"new": None, "Text": row["text"], "N": row["n"]}


def kinds(item: pa.DataType) -> list[pa.DataType]:
    return [pa.list_(item), pa.large_list(item), pa.list_(item, 2), pa.list_view(item)]


@pytest.mark.parametrize("first", [0, 1, 3])
def test_fields_are_found_by_name_and_missing_ones_are_null(first: int) -> None:
    array = pa.array(ROWS, SMALL).slice(first)

    assert cast(array, LARGE).to_pylist() == [renamed(row) for row in ROWS[first:]]
    assert cast(array, LARGE).type == LARGE


@pytest.mark.parametrize("first", [0, 1, 3])
@pytest.mark.parametrize("number", range(4))
def test_structs_in_lists_of_every_form(number: int, first: int) -> None:
    rows = [ROWS[:2], None, ROWS[2:], ROWS[1:3]]
    array = pa.array(rows, kinds(SMALL)[number]).slice(first)
    wanted = [None if row is None else [renamed(item) for item in row] for row in rows]

    result = cast(array, pa.list_(LARGE))

    result.validate(full=True)
    assert result.to_pylist() == wanted[first:]


@pytest.mark.parametrize("first", [0, 1, 3])
def test_structs_in_maps(first: int) -> None:
    rows = [[("a", ROWS[0])], None, [], [("b", None), ("c", ROWS[3])]]
    array = pa.array(rows, pa.map_(pa.string(), SMALL)).slice(first)
    wanted = [None if row is None else [(key, renamed(value)) for key, value in row] for row in rows]

    result = cast(array, pa.map_(pa.large_string(), LARGE))

    result.validate(full=True)
    assert result.to_pylist() == wanted[first:]


def test_structs_at_any_depth() -> None:
    given = pa.struct([("deep", pa.map_(pa.int8(), pa.list_(SMALL)))])
    wanted = pa.struct([("deep", pa.map_(pa.int64(), pa.list_(LARGE))), ("other", pa.list_(pa.uuid()))])
    rows = [{"deep": [(1, [ROWS[0], None]), (2, None)]}, {"deep": None}, None]

    assert cast(pa.array(rows, given), wanted).to_pylist() == [
        {"deep": [(1, [renamed(ROWS[0]), None]), (2, None)], "other": None},
        {"deep": None, "other": None},
        None,
    ]


def test_what_is_stored_below_null_is_not_read() -> None:
    hidden = pa.StructArray.from_arrays([pa.array([2**40, 1])], ["n"], mask=pa.array([True, False]))

    assert cast(hidden, pa.struct([("m", pa.int8()), ("n", pa.int8())])).to_pylist() == [None, {"m": None, "n": 1}]


def test_a_value_that_the_type_cannot_hold_is_refused() -> None:
    with pytest.raises(pa.ArrowInvalid, match="not in range"):
        cast(pa.array([{"n": 300}]), pa.struct([("n", pa.int8()), ("m", pa.int8())]))


def test_categories_of_structs_are_their_values() -> None:
    array = pa.DictionaryArray.from_arrays(pa.array([1, None, 0], pa.int8()), pa.array(ROWS[:1] + ROWS[2:3], SMALL))

    assert cast(array, LARGE).to_pylist() == [renamed(ROWS[2]), None, renamed(ROWS[0])]
