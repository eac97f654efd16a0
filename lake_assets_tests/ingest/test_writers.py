"""What the writers of Spark, pandas, DuckDB, fastavro and ORC have landed is in the lake, row by row."""

import csv
import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lake_assets_tests.ingest.landed_as import FORMATS, as_avro, as_orc, columns_of, load
from lake_assets_tests.tiers import more
from lake_assets_tests.world import NW, SW, World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXTS = [
    "plain",
    "a, b; c\td|e",
    'say "hi"',
    '"',
    '""',
    "back\\slash",
    'both \\"',
    "C:\\temp, and \\\\share",
    "ends \\",
    "two\nlines",
    "é€日",
    "'single'",
    " blanks ",
    "# no comment",
]
ROWS = [(number, text) for number, text in enumerate(TEXTS)] + [(100, None)]
BLANKS = {"ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}


@pytest.mark.more
@pytest.mark.parametrize(
    ("form", "options", "dialect"),
    [
        ("csv", {}, {}),
        ("json", {}, {}),
        ("csv", {"quoteAll": "true"}, {"quoted_nulls": True}),
        ("csv", {"sep": "\t"}, {"delimiter": "\t"}),
        ("csv", {"quote": "'"}, {"quote": "'"}),
        ("csv", {"escape": '"'}, {"escape": None}),
        (
            "csv",
            {"escapeQuotes": "false", "quoteAll": "true", "escape": '"'},
            {"escape": None, "quoted_nulls": True},
        ),
        ("csv", {"nullValue": "NULL"}, {"nulls": ["NULL"]}),
        ("csv", {"nullValue": "NULL", "quoteAll": "true"}, {"nulls": ["NULL"], "quoted_nulls": True}),
        ("csv", {"compression": "gzip"}, {}),
        ("csv", {"encoding": "UTF-16LE"}, {"encoding": "utf-16-le"}),
        ("json", {"compression": "bzip2"}, {}),
        ("json", {"ignoreNullFields": "false"}, {}),
    ],
)
def test_texts_of_spark_have_its_rows(
    local_world: World,
    spark: "SparkSession",
    tmp_path: Path,
    form: str,
    options: dict[str, str],
    dialect: dict[str, Any],
) -> None:
    written = tmp_path / "written"
    frame = spark.createDataFrame(ROWS, "id INT, text STRING").coalesce(1)
    of_csv = {"header": "true", **BLANKS} if form == "csv" else {}
    frame.write.format(form).options(**of_csv, **options).save(str(written))
    (path,) = written.glob("part-*")
    local_world.options = {"format": {"type": form, **({"escape": "\\"} if of_csv else {}), **dialect}, "files": "*"}

    load(local_world, path.read_bytes(), name=path.name)

    assert columns_of(local_world, "id, text") == ROWS


@pytest.mark.parametrize(
    ("options", "dialect"),
    [
        ({}, {}),
        ({"quoting": csv.QUOTE_ALL}, {"quoted_nulls": True}),
        ({"sep": "|", "quotechar": "'"}, {"delimiter": "|", "quote": "'"}),
        ({"doublequote": False, "escapechar": "\\", "quoting": csv.QUOTE_ALL}, {"escape": "\\", "quoted_nulls": True}),
        *more(
            [
                ({"quoting": csv.QUOTE_NONNUMERIC, "na_rep": "NULL"}, {"nulls": ["NULL"], "quoted_nulls": True}),
                ({"header": False}, {"header": False, "names": ["id", "text"]}),
                ({"lineterminator": "\r\n"}, {}),
                ({"encoding": "utf-16"}, {}),
                ({"compression": "zstd"}, {}),
                ({"compression": "xz"}, {}),
            ]
        ),
    ],
)
def test_csv_of_pandas_has_its_rows(
    local_world: World, tmp_path: Path, options: dict[str, Any], dialect: dict[str, Any]
) -> None:
    local_world.options = {"format": {"type": "csv", **dialect}, "files": "*"}
    path = tmp_path / "written"
    pd.DataFrame(ROWS, columns=["id", "text"]).to_csv(path, index=False, **options)

    load(local_world, path.read_bytes())

    assert columns_of(local_world, "id, text") == ROWS


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


@pytest.mark.soak
@pytest.mark.parametrize("form", FORMATS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
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
    wider = table.append_column("extra", pa.array([f"e{n}" for n in range(len(table))])) if is_extra else table
    for key, rows in ((NW, table), (SW, wider)):
        load(world, written(form, rows, folder), key)

    shown = wider if policy == "evolve" else table
    columns = ", ".join(shown.column_names)
    for region, rows in (("NW", table), ("SW", wider)):
        found = columns_of(world, columns, f"region = '{region}'")
        assert found == [tuple(row.get(name) for name in shown.column_names) for row in rows.to_pylist()]
