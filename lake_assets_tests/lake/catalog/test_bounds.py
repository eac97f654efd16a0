"""The bounds in the catalog: a bound that is too narrow loses rows."""

from itertools import permutations

import duckdb
import pytest

from lake_assets.lake.catalog.bounds import Bounds, beyond, duckdb_type, in_order, merged


@pytest.mark.parametrize(
    ("bounds", "wider"),
    [
        (Bounds("1.5", "1.5"), Bounds("1.4999999", "1.5000001")),
        (Bounds("-4.2983307e+16", "0.0"), Bounds("-4.298331e+16", "1e-45")),
        (Bounds("-3.4028235e+38", "3.4028235e+38"), Bounds("-inf", "inf")),
        (Bounds("-inf", "inf"), Bounds("-inf", "inf")),
        (Bounds(None, None), Bounds(None, None)),
    ],
)
def test_the_bounds_of_single_precision_are_one_number_wider(bounds: Bounds, wider: Bounds) -> None:
    assert beyond(bounds) == wider


TEXTS = {
    "int64": ["9", "10", "-3"],
    "varchar": ["b", "a", "é", "\U0001f600", ""],
    "float64": ["1e+16", "0.1", "-0.0", "inf", "-inf", "123456789.5"],
    "float32": ["0.1", "3.4028235e+38", "-1e-45"],
    "date": ["2026-02-11", "1999-12-31", "0001-01-01"],
    "timestamp": ["2026-02-11 00:00:00", "2026-02-11 00:00:00.5", "2026-02-11 00:00:00.25"],
    "timestamptz": ["2026-02-11 00:00:00+00", "2026-02-11 00:00:00.000001+00:00", "2026-02-10 23:59:59.999999+00"],
    "timestamp_ns": ["2026-02-11 00:00:00.000000001", "2026-02-11 00:00:00.00000001"],
}
ONLY_DUCKDB = {
    "float64": ["nan", "1e+300", "-5.0"],
    "date": ["10000-01-01", "2026-02-11", "0044-03-15 (BC)", "infinity", "-infinity"],
    "timestamptz": ["2026-02-11 01:00:00+02", "2026-02-11 00:00:00+00", "infinity", "0044-03-15 (BC) 00:00:00+00"],
    "decimal(6,2)": ["10.00", "9.50", "-1.00"],
    "boolean": ["true", "false"],
    "blob": ["a", "\\xC3", "\\x00z", "~"],
    "time": ["10:00:00", "09:59:59.5", "10:00:00.000001"],
    "uuid": ["00000000-0000-0000-0000-000000000001", "f0000000-0000-0000-0000-000000000000"],
}


@pytest.mark.parametrize(
    ("kind", "texts"),
    [pytest.param(*case, id=f"{case[0]} {n}") for n, case in enumerate([*TEXTS.items(), *ONLY_DUCKDB.items()])],
)
def test_values_are_ordered_as_duckdb_orders_them(kind: str, texts: list[str]) -> None:
    engine = duckdb.connect()
    engine.execute("SET TimeZone = 'UTC'")
    for some in permutations(texts, min(len(texts), 3)):
        (expected,) = engine.execute(
            f"SELECT arg_min(t, t::{duckdb_type(kind)}), arg_max(t, t::{duckdb_type(kind)}) FROM unnest(?) AS u(t)",
            [list(some)],
        ).fetchall()
        least, greatest = some[:2]
        ((is_ordered,),) = engine.execute(
            f"SELECT ?::{duckdb_type(kind)} <= ?::{duckdb_type(kind)}", [least, greatest]
        ).fetchall()
        assert in_order(str(duckdb_type(kind)), Bounds(least, greatest)) == is_ordered
        found = merged([("a", kind, Bounds(text, text)) for text in some])
        assert found == {"a": Bounds(*expected)}


def test_common_values_are_compared_without_duckdb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("lake_assets.lake.catalog.bounds.expressions")
    for kind, texts in TEXTS.items():
        merged([("a", kind, Bounds(text, text)) for text in texts])
