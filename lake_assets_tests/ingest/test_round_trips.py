"""What DuckDB, fastavro and ORC's writer have landed is in the lake, by types, formats and policies."""

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lake_assets_tests.ingest.landed_as import FORMATS, as_avro, as_orc, columns_of, load
from lake_assets_tests.world import NW, SW, World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.soak

KINDS: dict[str, tuple[pa.DataType, object, st.SearchStrategy[Any]]] = {
    "BIGINT": (pa.int64(), "long", st.integers(-(2**63), 2**63 - 1)),
    "INTEGER": (pa.int32(), "int", st.integers(-(2**31), 2**31 - 1)),
    "DOUBLE": (pa.float64(), "double", st.floats(allow_nan=False, allow_infinity=False)),
    "DECIMAL(12,2)": (
        pa.decimal128(12, 2),
        {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2},
        st.decimals(Decimal("-9999999999.99"), Decimal("9999999999.99"), places=2),
    ),
    "BOOLEAN": (pa.bool_(), "boolean", st.booleans()),
    "DATE": (pa.date32(), {"type": "int", "logicalType": "date"}, st.dates()),
    "TIMESTAMP": (
        pa.timestamp("us"),
        {"type": "long", "logicalType": "local-timestamp-micros"},
        st.datetimes(dt.datetime.fromisoformat("1700-01-01"), dt.datetime.fromisoformat("2200-01-01")),
    ),
    "VARCHAR": (pa.string(), "string", st.text(st.characters(codec="utf-8", exclude_characters="\x00\r"), max_size=12)),
}


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """A table of some columns, each with NULLs."""
    kinds = draw(st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=4))
    count = draw(st.integers(1, 6))
    columns = {"id": pa.array(range(count), pa.int64())}
    for place, kind in enumerate(kinds):
        values = draw(st.lists(st.none() | KINDS[kind][2], min_size=count, max_size=count))
        columns[f"c{place}"] = pa.array(values, KINDS[kind][0])
    return pa.table(columns)


def written(form: str, table: pa.Table, folder: Path) -> bytes:
    """The table by a writer that is not this package's."""
    if form == "orc":
        return as_orc(table)
    if form == "avro":
        kinds = {str(kind): avro for kind, avro, _ in KINDS.values()}
        fields = [{"name": f.name, "type": ["null", kinds[str(f.type)]]} for f in table.schema]
        return as_avro(table.to_pylist(), fields)
    path = folder / "written"
    with duckdb.connect() as client:
        client.register("landed", table)
        client.execute(f"COPY landed TO '{path}' (FORMAT {form})")
    return path.read_bytes()


@pytest.mark.parametrize("form", FORMATS)
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=tables(), policy=st.sampled_from(["strict", "evolve", "ignore_extra"]), is_extra=st.booleans())
def test_what_others_have_landed_is_in_the_lake(
    tmp_path_factory: pytest.TempPathFactory,
    sessions: Callable[[], "SparkSession"],
    form: str,
    table: pa.Table,
    policy: str,
    is_extra: bool,
) -> None:
    folder = tmp_path_factory.mktemp("trip")
    names = {str(kind): name for name, (kind, _, _) in KINDS.items()}
    world = World.in_folder(
        folder,
        sessions,
        format=form,
        files="*",
        schema_policy=policy,
        columns={field.name: {"type": names[str(field.type)]} for field in table.schema},
    )
    is_extra = is_extra and policy != "strict"
    more = table.append_column("extra", pa.array([f"e{n}" for n in range(len(table))])) if is_extra else table
    for key, rows in ((NW, table), (SW, more)):
        load(world, written(form, rows, folder), key)

    shown = more if policy == "evolve" else table
    columns = ", ".join(shown.column_names)
    for region, rows in (("NW", table), ("SW", more)):
        found = columns_of(world, columns, f"region = '{region}'")
        assert found == [tuple(row.get(name) for name in shown.column_names) for row in rows.to_pylist()]
