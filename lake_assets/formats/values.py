"""Texts as numbers and times, by a format."""

import re
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

from lake_assets.config.column_types import NumberFormat, number_format

Texts = TypeVar("Texts", pa.Array, pa.ChunkedArray)


def read_texts(texts: Texts, form: str, kind: pa.DataType) -> Texts:
    """Return the values of texts in a format of a column, which is that of a time or of a number.

    Raises:
        ArrowInvalid: a text is not in the format, or is none of the type.
    """
    return read_times(texts, form, kind) if t.is_temporal(kind) else read_numbers(texts, number_format(form), kind)


def read_times(texts: Texts, form: str, kind: pa.DataType) -> Texts:
    """Return dates, times or timestamps that are written as `strptime` has it.

    Raises:
        ArrowInvalid: as `read_texts`.
    """
    times = pc.strptime(texts, format=form, unit="us")
    return pc.assume_timezone(times, kind.tz).cast(kind) if t.is_timestamp(kind) and kind.tz else times.cast(kind)


def read_numbers(texts: Texts, form: NumberFormat, kind: pa.DataType) -> Texts:
    """Return numbers that are written in a format.

    Raises:
        ArrowInvalid: as `read_texts`; thousands that are not between groups of three digits are not in the format.
    """
    parts = pc.extract_regex(texts, pattern=_pattern(form))
    if pc.any(wrong := pc.and_(pc.is_valid(texts), pc.is_null(parts))).as_py():
        raise pa.ArrowInvalid(f"invalid value {texts.filter(wrong)[0].as_py()!r}")
    sign, digits = (pc.struct_field(parts, name) for name in ("sign", "digits"))
    if form.thousands is not None:
        digits = pc.replace_substring(digits, form.thousands, "")
    return pc.binary_join_element_wise(sign, pc.replace_substring(digits, form.decimal, "."), "").cast(kind)


def _pattern(form: NumberFormat) -> str:
    decimal, prefix, suffix = map(re.escape, (form.decimal, form.prefix, form.suffix))
    groups = r"\d+" if form.thousands is None else rf"(?:\d{{1,3}}(?:{re.escape(form.thousands)}\d{{3}})+|\d+)"
    number = rf"(?:{groups}(?:{decimal}\d*)?|{decimal}\d+)(?:[eE][+-]?\d+)?"
    before, behind = (rf"(?:{text})?" if text else "" for text in (prefix, suffix))
    return rf"^\s*{before}\s*(?P<sign>-?)\+?{before}\s*(?P<digits>{number})\s*{behind}\s*$"
