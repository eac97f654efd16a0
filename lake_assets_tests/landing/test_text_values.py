"""Values that come as text are landed as they are, at the ends of their types too."""

import datetime as dt
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lake_assets.landing.read_records import Form
from lake_assets_tests.landing.streams import parsed
from lake_assets_tests.values.plain import plain

_INTEGERS = {name: 2**bits for name, bits in {"tinyint": 7, "smallint": 15, "integer": 31, "bigint": 63}.items()}
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - a clock's face
_OFFSETS = st.sampled_from(
    [dt.UTC, dt.timezone(dt.timedelta(hours=5, minutes=30)), dt.timezone(-dt.timedelta(hours=8))]
)
_TIMES = st.sampled_from([dt.datetime.min, dt.datetime.max, _EPOCH]) | st.datetimes()  # noqa: DTZ901


def _decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    numbers = st.sampled_from([most, -most, 0, 1]) | st.integers(-most, most)
    return numbers.map(lambda n: Decimal((n < 0, tuple(map(int, str(abs(n)))), -scale)))


def _micros(time: dt.datetime) -> int:
    return (time.replace(tzinfo=None) - (time.utcoffset() or dt.timedelta()) - _EPOCH) // dt.timedelta(microseconds=1)


# A type of the config, its values, and the text of a value in the file.
KINDS: dict[str, tuple[st.SearchStrategy[Any], Callable[[Any], Any]]] = {
    "boolean": (st.booleans(), bool),
    **{
        name: (st.sampled_from([-end, end - 1, 0]) | st.integers(-end, end - 1), int) for name, end in _INTEGERS.items()
    },
    "float": (st.floats(width=32, allow_nan=False, allow_infinity=False), repr),
    "double": (st.floats(allow_nan=False, allow_infinity=False), repr),
    "string": (st.text(st.characters(codec="utf-8", exclude_characters="\0")), str),
    "date": (
        st.sampled_from([dt.date.min, dt.date.max]) | st.dates(),
        lambda day: ("day", day.toordinal() - 719_163),
    ),
    "timestamp": (_TIMES, lambda time: ("time", _micros(time) * 1000)),
    "timestamptz": (
        st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30), timezones=_OFFSETS),  # noqa: DTZ001
        lambda time: ("instant", _micros(time) * 1000),
    ),
    "decimal(4,2)": (_decimals(4, 2), Decimal),
    "decimal(38,10)": (_decimals(38, 10), Decimal),
    "decimal(38,38)": (_decimals(38, 38), Decimal),
}


def as_json(value: Any) -> str:
    """A value as most writers write it."""
    if isinstance(value, (dt.date, dt.datetime)):
        return json.dumps(value.isoformat())
    return format(value, "f") if isinstance(value, Decimal) else json.dumps(value)


def as_csv(value: Any) -> str:
    """A value as most writers write it."""
    return json.dumps(value) if isinstance(value, bool) else as_json(value).strip('"')


def landed(form: Form, kind: str, text: str) -> list[Any]:
    result = parsed(form, {"v": kind, "n": "bigint"}, text.encode())
    return [value for entry in result for value in (plain(entry["v"]) if isinstance(entry, pa.Table) else [entry])]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25)
@given(data=st.data())
def test_json_lines_are_landed_as_they_are(kind: str, data: st.DataObject) -> None:
    values, stored = KINDS[kind]
    sample = data.draw(st.lists(st.none() | values, min_size=1, max_size=5))
    text = "".join(f'{{"v":{as_json(value)},"n":{number}}}\n' for number, value in enumerate(sample))

    assert landed("jsonl", kind, text) == [None if value is None else stored(value) for value in sample]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "string"])
@settings(max_examples=25)
@given(data=st.data())
def test_csv_is_landed_as_it_is(kind: str, data: st.DataObject) -> None:
    values, stored = KINDS[kind]
    sample = data.draw(st.lists(values, min_size=1, max_size=5))
    text = "v,n\n" + "".join(f"{as_csv(value)},{number}\n" for number, value in enumerate(sample))

    assert landed("csv", kind, text) == [stored(value) for value in sample]
