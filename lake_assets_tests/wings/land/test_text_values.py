"""Values of records are landed as they are, at the ends of their types too, or are refused: nothing is dropped."""

import datetime as dt
import decimal
import io
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lake_assets.base.errors import SchemaError
from lake_assets.storage.formats.inferred_types import fit
from lake_assets.storage.formats.records import Rejected
from lake_assets.wings.land.batches import Encoder
from lake_assets.wings.land.read_records import RecordForm, RecordSource, read_records
from lake_assets_tests.values.plain import plain
from lake_assets_tests.wings.land.streams import parsed

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


def landed(form: RecordForm, kind: str, text: str) -> list[Any]:
    result = parsed(form, {"v": kind, "n": "bigint"}, text.encode())
    return [value for entry in result for value in (plain(entry["v"]) if isinstance(entry, pa.Table) else [entry])]


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_json_lines_are_landed_as_they_are(kind: str, data: st.DataObject) -> None:
    values, stored = KINDS[kind]
    sample = data.draw(st.lists(st.none() | values, min_size=1, max_size=5))
    text = "".join(f'{{"v":{as_json(value)},"n":{number}}}\n' for number, value in enumerate(sample))

    assert landed("jsonl", kind, text) == [None if value is None else stored(value) for value in sample]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "string"])
@given(data=st.data())
def test_csv_is_landed_as_it_is(kind: str, data: st.DataObject) -> None:
    values, stored = KINDS[kind]
    sample = data.draw(st.lists(values, min_size=1, max_size=5))
    text = "v,n\n" + "".join(f"{as_csv(value)},{number}\n" for number, value in enumerate(sample))

    assert landed("csv", kind, text) == [stored(value) for value in sample]


US = pa.timestamp("us")
ZONED = pa.timestamp("us", "UTC")


def fitted(column: pa.Array, kind: pa.DataType) -> list[Any]:
    values: list[Any] = fit(pa.table({"v": column}), pa.schema([("v", kind)])).column("v").to_pylist()
    return values


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pa.array([1], US), ZONED),
        (pa.array([1], ZONED), US),
        (pa.array([[1]], pa.list_(ZONED)), pa.list_(US)),
        (pa.array([1]), US),
        (pa.array([1], US), pa.int64()),
        (pa.array([1], pa.int32()), pa.date32()),
        (pa.array([1], pa.duration("s")), pa.int64()),
        (pa.array([{"a": 1, "b": 2}]), pa.struct([("a", pa.int64())])),
    ],
    ids=str,
)
def test_types_of_another_meaning_never_fit(column: pa.Array, kind: pa.DataType) -> None:
    with pytest.raises(SchemaError, match=r"'v' is of type .*, which never fits"):
        fitted(column, kind)


def test_a_value_that_would_be_cut_does_not_fit() -> None:
    for column, kind in (
        (pa.array([86_400_000_001], US), pa.date32()),
        (pa.array([1.255]), pa.decimal128(5, 2)),
        (pa.array([2]), pa.bool_()),
        (pa.array([1e300]), pa.float32()),
        (pa.array(["1e300"]), pa.float32()),
        (pa.array([1.5]), pa.int64()),
        (pa.array([-86_400_005], pa.int64()).view(pa.date64()), pa.date32()),
    ):
        with pytest.raises(pa.ArrowInvalid, match="v: "):
            fitted(column, kind)


def test_the_same_value_in_another_type_fits() -> None:
    assert fitted(pa.array([1.25, None]), pa.decimal128(5, 2)) == [decimal.Decimal("1.25"), None]
    assert fitted(pa.array([0.5, float("inf")]), pa.float32()) == [0.5, float("inf")]
    assert fitted(pa.array([86_400_000_000], US), pa.date32())[0].isoformat() == "1970-01-02"
    assert fitted(pa.array([1, 0]), pa.bool_()) == [True, False]
    berlin = pa.timestamp("us", "Europe/Berlin")
    assert fitted(pa.array([0], berlin), ZONED)[0].isoformat() == "1970-01-01T00:00:00+00:00"


def test_durations_are_no_numbers() -> None:
    for kind in (pa.duration("us"), pa.list_(pa.duration("s"))):
        with pytest.raises(SchemaError, match=r"column 'v' is .*, which Parquet does not have"):
            Encoder(pa.schema([("v", kind)]))


def test_a_number_that_is_too_large_is_not_infinite_and_an_infinity_is_one() -> None:
    for form, kind, text in (
        ("jsonl", "float", b'{"v":1e300}\n'),
        ("csv", "float", b"v\n1e300\n"),
        ("csv", "double", b"v\n-1e400\n"),
    ):
        (item,) = parsed(form, {"v": kind}, text)  # type: ignore[arg-type]
        assert isinstance(item, Rejected)
        assert "too large" in item.reason
    (item,) = parsed("csv", {"v": "double"}, b"v\ninf\n-Infinity\n1.5\n")
    assert isinstance(item, pa.Table)
    assert item.column("v").to_pylist() == [float("inf"), float("-inf"), 1.5]


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("jsonl", b'{"v":18446744073709551616}\n{"v":1}\n'),
        ("jsonl", b'{"v":{"a":[1,-9223372036854775809]}}\n'),
        ("csv", b"v\n18446744073709551616\n1\n"),
        ("csv", b"v\n1.5\n-9223372036854775809\n"),
    ],
)
def test_a_whole_number_beyond_64_bits_is_not_inferred_to_be_a_double(form: RecordForm, text: bytes) -> None:
    records = read_records(RecordSource("-", form, io.BytesIO(text)), lambda infer: infer())

    with pytest.raises(SchemaError, match=r"field 'v' of - has the whole number .*: .*v: decimal\(38,0\)"):
        list(records)
    greatest = read_records(
        RecordSource("-", "jsonl", io.BytesIO(b'{"v":9223372036854775807}\n')), lambda infer: infer()
    )
    assert [len(record) for record in greatest] == [1]
