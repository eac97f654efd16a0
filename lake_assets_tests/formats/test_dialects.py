"""Texts in a format are numbers and times; others are refused."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lake_assets.formats.dialects import read_texts

NUMBER = pa.decimal128(20, 2)


def read(text: str, form: str, kind: pa.DataType = NUMBER) -> object:
    return read_texts(pa.array([None, text]), form, kind)[1].as_py()


@pytest.mark.parametrize(
    ("text", "form", "expected"),
    [
        ("1,234.5", "#,##0.00", "1234.50"),
        ("1234.5", "#,##0.00", "1234.50"),
        ("1.234.567,89 €", "#.##0,00 €", "1234567.89"),
        ("-€ 2.50", "€ 0.00", "-2.50"),
        ("€ -2.50", "€ 0.00", "-2.50"),
        ("+7", "0", "7.00"),
        ("12.5 %", "0.0 %", "12.50"),
        ("1 000,5", "# ##0,0", "1000.50"),
        (".5", "0.0", "0.50"),
        ("1'000", "#'##0", "1000.00"),
    ],
)
def test_a_number_is_read(text: str, form: str, expected: str) -> None:
    assert read(text, form) == Decimal(expected)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("1,23", "#,##0.00"),
        ("1.234", "#,##0.00"),  # three decimals
        ("1,2345", "#,##0"),
        ("12,34,567", "#,##0"),
        ("x", "0.00"),
        ("1 USD", "0 EUR"),
        ("", "0"),
        ("--1", "0"),
    ],
)
def test_another_text_is_refused(text: str, form: str) -> None:
    with pytest.raises(pa.ArrowInvalid):
        read(text, form)


@given(st.decimals(-(10**15), 10**15, places=2))
def test_what_python_writes_with_thousands_is_read(number: Decimal) -> None:
    assert read(f"{number:,.2f}", "#,##0.00") == number


def test_times_are_read() -> None:
    assert read("11.02.2026", "%d.%m.%Y", pa.date32()) == dt.date(2026, 2, 11)
    assert read("08:30", "%H:%M", pa.time64("us")) == dt.time(8, 30)
    assert read("2026-02-11 08:30", "%Y-%m-%d %H:%M", pa.timestamp("us", "UTC")) == dt.datetime(
        2026, 2, 11, 8, 30, tzinfo=dt.UTC
    )
    with pytest.raises(pa.ArrowInvalid):
        read("11.02.2026 x", "%d.%m.%Y", pa.date32())
