"""Hive's encoding of values in paths."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lake_assets.errors import LayoutError
from lake_assets.layout.hive import HIVE_NULL, escape, escape_characters, unescape


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("", HIVE_NULL),
        ("NW", "NW"),
        ("a/b=c%", "a%2Fb%3Dc%25"),
        ("\x00\x1f\x7f\\", "%00%1F%7F%5C"),
        (".", "%2E"),
        ("..", "%2E%2E"),
        ("...", "..."),
        ("São 東京 🛒", "São 東京 🛒"),
    ],
)
def test_a_value_is_the_name_of_one_folder(value: str, text: str) -> None:
    assert escape(value) == text


def test_further_characters_are_encoded_in_utf_8_where_they_are_not_ascii() -> None:
    assert escape_characters("a-b年]", also="-年]^") == "a%2Db%E5%B9%B4%5D"


@given(st.text(min_size=1), st.characters(codec="utf-8", exclude_characters="%0123456789ABCDEF"))
def test_what_is_encoded_is_decoded(value: str, also: str) -> None:
    text = escape_characters(value, also=also)
    assert also not in text
    assert unescape(text) == value


@pytest.mark.parametrize(("text", "value"), [("a%2fb", "a/b"), ("%C3%A3", "ã"), ("100%", "100%"), ("%zz", "%zz")])
def test_other_writers_encodings_are_read(text: str, value: str) -> None:
    assert unescape(text) == value


def test_bytes_that_are_not_utf_8_are_an_error() -> None:
    with pytest.raises(LayoutError, match="'%FF' is percent-encoded, but not in UTF-8"):
        unescape("%FF")
