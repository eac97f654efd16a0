"""Values of records are landed as they are, or are refused: no zone, time of day, digit or field is dropped."""

import decimal
import io
from typing import Any

import pyarrow as pa
import pytest

from lake_assets.errors import SchemaError
from lake_assets.formats.records import Rejected
from lake_assets.formats.schema import fit
from lake_assets.landing.encode import Encoder
from lake_assets.landing.read_records import Form, read_records
from lake_assets_tests.landing.streams import parsed

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
        with pytest.raises(SchemaError, match=r"column 'v' is .*, and Parquet has no durations"):
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
def test_a_whole_number_beyond_64_bits_is_not_inferred_to_be_a_double(form: Form, text: bytes) -> None:
    records = read_records(io.BytesIO(text), "-", form, lambda infer: infer(), 0)

    with pytest.raises(SchemaError, match=r"field 'v' of - has the whole number .*: .*v: decimal\(38,0\)"):
        list(records)
    greatest = read_records(io.BytesIO(b'{"v":9223372036854775807}\n'), "-", "jsonl", lambda infer: infer(), 0)
    assert [len(record) for record in greatest] == [1]
