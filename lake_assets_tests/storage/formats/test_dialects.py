"""Texts in a format are numbers and times; others are refused."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lake_assets.config.column_types import DIRECTIVES
from lake_assets.schema.dialects import read_texts

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


NAIVE, UTC = pa.timestamp("us"), pa.timestamp("us", "UTC")


@pytest.mark.parametrize(
    ("text", "form", "kind", "expected"),
    [
        ("2026-02-11 08:00:00.25", "%Y-%m-%d %H:%M:%S.%f", NAIVE, "2026-02-11T08:00:00.250000"),
        ("20260211080000123456", "%Y%m%d%H%M%S%f", NAIVE, "2026-02-11T08:00:00.123456"),
        ("08:00:00.5", "%H:%M:%S.%f", pa.time64("us"), "08:00:00.500000"),
        ("11.02.2026 08:00 +0100", "%d.%m.%Y %H:%M %z", UTC, "2026-02-11T07:00:00+00:00"),
        ("11/Feb/2026:01:00:00 PM -05:30", "%d/%b/%Y:%I:%M:%S %p %z", UTC, "2026-02-11T18:30:00+00:00"),
        ("1969-12-31T23:59:59.5Z", "%FT%T.%f%z", UTC, "1969-12-31T23:59:59.500000+00:00"),
        ("Wed Feb  1 8:00 2026", "%a %b %e %R %Y", UTC, "2026-02-01T08:00:00+00:00"),
    ],
)
def test_a_time_is_read(text: str, form: str, kind: pa.DataType, expected: str) -> None:
    value = read(text, form, kind)

    assert isinstance(value, dt.datetime | dt.time)
    assert value.isoformat() == expected


def test_a_time_of_day_is_no_day() -> None:
    for text, form in (("2026-02-11 08:30:00", "%F %T"), ("2026-02-11 00:00:00.5", "%F %T.%f")):
        with pytest.raises(pa.ArrowInvalid, match=f"invalid value '{text}', whose time of day a DATE would lose"):
            read(text, form, pa.date32())
    assert read("2026-02-11 00:00:00", "%F %T", pa.date32()) == dt.date(2026, 2, 11)


@pytest.mark.parametrize(("text", "form"), [("2026-02-11 08:00:00", "%F %T.%f"), ("2026-02-11 +0100", "%F %z")])
def test_another_time_is_refused(text: str, form: str) -> None:
    with pytest.raises(pa.ArrowInvalid):
        read(text, form, NAIVE)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("30.02.2026", "%d.%m.%Y"),
        ("29.02.2025", "%d.%m.%Y"),
        ("Apr 31 2026", "%b %e %Y"),
        ("02/30/26", "%D"),
        ("2026-02-29", "%F"),
        ("11.02.26", "%d.%m.%Y"),
        ("2026-02-11 08:00:60", "%F %H:%M:%S"),
        ("2026-02-11 08:00:61", "%F %T"),
    ],
)
@pytest.mark.parametrize("offset", ["", " +0100"])
def test_a_time_that_is_in_no_calendar_is_refused(text: str, form: str, offset: str) -> None:
    with pytest.raises(pa.ArrowInvalid, match="invalid value"):
        read(f"{text}{offset}", f"{form}{' %z' if offset else ''}", UTC)


@given(
    st.datetimes().filter(lambda moment: moment.year > 999),
    st.sampled_from(["%Y-%m-%d %H:%M:%S", "%d.%m.%Y  %H:%M:%S", "%B %e %Y %T"]),
)
def test_a_time_that_python_writes_is_read(moment: dt.datetime, form: str) -> None:
    assert read(moment.strftime(form), form, NAIVE) == moment.replace(microsecond=0)


DIRECTIVE_TEXTS = {"%f": "5", "%z": "+0100", "%%": "%"}


@pytest.mark.parametrize("directive", DIRECTIVES)
def test_each_directive_is_read(directive: str) -> None:
    """Beside a zone, so that its pattern is used too, and without one as `strftime` writes it."""
    moment = dt.datetime(2026, 2, 11, 8, tzinfo=dt.UTC)
    text, form = f"2026 {DIRECTIVE_TEXTS.get(directive) or moment.strftime(directive)}", f"%Y {directive}"

    assert read(text, form, UTC) is not None
    if directive != "%z":
        assert read(f"{text} +0000", f"{form} %z", UTC) is not None


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
