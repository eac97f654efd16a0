"""The ends of records are those of Python's reader, also in the middle of a text."""

import csv
import io
from collections.abc import Sequence
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lake_assets.formats.record_ends import Quotes

QUOTES = Quotes(b'"', b",")

values = st.text(st.sampled_from('ab",\n '), max_size=5)
records = st.lists(st.lists(values, min_size=2, max_size=3), min_size=1, max_size=8)


def written(rows: Sequence[Sequence[str]], quoting: Literal[0, 1] = csv.QUOTE_MINIMAL) -> bytes:
    file = io.StringIO()
    csv.writer(file, lineterminator="\n", quoting=quoting).writerows(rows)
    return file.getvalue().encode()


def lengths(rows: Sequence[Sequence[str]]) -> list[int]:
    """The positions of the last byte of each record, by the writer."""
    ends, end = [], -1
    for row in rows:
        end += len(written([row]))
        ends.append(end)
    return ends


@given(records)
def test_line_breaks_within_quotes_end_no_record(rows: list[list[str]]) -> None:
    assert QUOTES.ends(memoryview(written(rows))).tolist() == lengths(rows)


@given(records, st.integers(0, 200))
def test_the_begin_of_a_text_has_the_same_ends(rows: list[list[str]], size: int) -> None:
    text = written(rows)[:size]
    expected = [end for end in lengths(rows) if end < size]
    assert QUOTES.ends(memoryview(text)).tolist() == expected


def test_a_quote_within_a_value_counts_only_where_a_value_begins() -> None:
    text = b'1,5" pipe\n2,"a\nb"\n3,"open\n'
    assert QUOTES.ends(memoryview(text)).tolist() == [9, 17]


def test_an_escaped_quote_closes_nothing() -> None:
    text = b'1,"a\\"\nb"\n2,"\\\\"\n'
    assert Quotes(b'"', b",", b"\\").ends(memoryview(text)).tolist() == [9, 16]


@given(st.lists(st.lists(st.text(st.sampled_from("ab \n"), min_size=1, max_size=9), min_size=2), min_size=3), st.data())
def test_the_middle_of_a_text_tells_whether_it_is_within_quotes(rows: list[list[str]], data: st.DataObject) -> None:
    text = written(rows, csv.QUOTE_ALL)
    begin = data.draw(st.integers(0, len(text)))

    found = QUOTES.ends_from_anywhere(memoryview(text[begin:]), is_long=True)  # the first byte is only context

    expected, end = [], -1
    for row in rows:
        end += len(written([row], csv.QUOTE_ALL))
        expected.append(end)
    assert found is None or (found + begin).tolist() == [end for end in expected if end > begin]


def test_a_text_that_may_be_both_is_not_told() -> None:
    assert QUOTES.ends_from_anywhere(memoryview(b',"\n",\n'), is_long=True) is None


@pytest.mark.parametrize("text", [b'x5" pipe\n2,"a\nb"\n', b'x 5"\n6"\n'])
def test_a_quote_within_a_value_misleads_nobody(text: bytes) -> None:
    assert QUOTES.ends_from_anywhere(memoryview(text), is_long=True) is None


def test_a_part_without_quotes_may_be_within_a_long_value() -> None:
    assert QUOTES.ends_from_anywhere(memoryview(b"a\nb\n"), is_long=False) is None
