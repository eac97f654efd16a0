"""Spark reads each type of DuckLake, in each state of a table that other clients change, as DuckLake itself does."""

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pytest

from dev.plain_client import plain_client
from dev.servers.azurite import AzureServer, azure
from lake_assets.lake.ducklake import DuckLake
from lake_assets.spark_reader import TablePart, frame
from lake_assets_tests.spark.task.test_scanned_rows import TABLE, apply, differences
from lake_assets_tests.template_lakes import create_by_copy

if TYPE_CHECKING:
    import duckdb
    from pyspark.sql import SparkSession

    from lake_assets.config.lake import Lake
    from lake_assets_tests.world import World


__all__ = ["azure"]


class Kind(NamedTuple):
    """A type of a column.

    Attributes:
        sql: its name.
        values: two of them, in SQL.
        wider: the type that the column gets later.
        default: the value of rows that are older than such a column.
        shown: what Spark has instead of a value `{}`, as DuckDB writes it.
    """

    sql: str
    values: tuple[str, str]
    wider: str | None = None
    default: str | None = None
    shown: str = "{}"


CLOCK, MICROSECONDS = "strftime(DATE '2000-01-01' + {}, '%H:%M:%S.%f')", "{}::TIMESTAMP"
KINDS = (
    Kind("BOOLEAN", ("true", "false"), default="true"),
    Kind("TINYINT", ("-128", "127"), "SMALLINT", "-128"),
    Kind("SMALLINT", ("-32768", "32767"), "INTEGER", "32767"),
    Kind("INTEGER", ("-2147483648", "2147483647"), "BIGINT", "-1"),
    Kind("BIGINT", ("-9223372036854775808", "9223372036854775807"), default="9223372036854775807"),
    Kind("UTINYINT", ("0", "255"), "USMALLINT", "255"),
    Kind("USMALLINT", ("0", "65535"), "UINTEGER", "65535"),
    Kind("UINTEGER", ("0", "4294967295"), "UBIGINT", "4294967295"),
    Kind("UBIGINT", ("0", "18446744073709551615"), default="18446744073709551615"),
    Kind("FLOAT", ("'-infinity'::FLOAT", "1.1"), "DOUBLE", "1.5"),
    Kind("DOUBLE", ("'nan'::DOUBLE", "1e300"), default="-2.5"),
    Kind("DECIMAL(4,1)", ("-999.9", "999.9"), default="0.1"),
    Kind("DECIMAL(38,10)", ("-9999999999999999999999999999.0000000001", "1"), default="1.5"),
    Kind("VARCHAR", ("''", "'日本 \" '' \\ é' || chr(10)"), default="a b"),
    Kind("JSON", ("'{\"a\": [1, null]}'", "'null'"), default='{"a": 1}'),
    Kind("BLOB", ("''::BLOB", "'\\x00\\xFFa'::BLOB"), default="\\xFFb"),
    Kind("UUID", ("'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-4fff-bfff-ffffffffffff'"),
         default="00000000-0000-4000-8000-00000000000a"),
    Kind("DATE", ("DATE '0001-01-01'", "DATE '9999-12-31'"), default="2026-02-11"),
    Kind("TIME", ("TIME '00:00:00'", "TIME '23:59:59.999999'"), default="01:02:03.4", shown=CLOCK),
    Kind("TIMESTAMP", ("TIMESTAMP '1582-10-10 01:02:03.000004'", "TIMESTAMP '9999-12-31 23:59:59.999999'"),
         default="1900-01-01 00:00:00.000001"),
    Kind("TIMESTAMP_S", ("TIMESTAMP '0001-01-01 00:00:00'", "TIMESTAMP '2026-03-29 02:30:00'"),
         default="2026-01-01 00:00:01", shown=MICROSECONDS),
    Kind("TIMESTAMP_MS", ("TIMESTAMP '1969-12-31 23:59:59'", "TIMESTAMP '2026-10-25 02:30:00.1'"),
         default="2026-01-01 00:00:00.123", shown=MICROSECONDS),
    Kind("TIMESTAMP_NS", ("'1969-12-31 23:59:59.123456000'", "'2026-01-01 00:00:00.123456789'"),
         default="2026-01-01 00:00:00.123456789", shown=MICROSECONDS),
    Kind("TIMESTAMPTZ", ("TIMESTAMPTZ '1900-01-01 00:00:00+14'", "TIMESTAMPTZ '2026-10-25 00:30:00.000001+00'"),
         default="2026-10-25 02:30:00.5+02"),
    Kind("VARCHAR[]", ("[]", "['a', NULL, '']")),
    Kind("STRUCT(a INT, b STRUCT(c DOUBLE[]))", ("{'a': NULL, 'b': NULL}", "{'a': 1, 'b': {'c': [1.5]}}")),
    Kind("MAP(VARCHAR, STRUCT(n BIGINT)[])", ("MAP {}", "MAP {'k': [{'n': 1}, NULL], 'l': []}")),
)  # fmt: skip

EVERY = tuple(enumerate(KINDS))


def added(ids: str, letter: str) -> str:
    """Return an INSERT of rows, of which each third has NULLs, and the others one of the two values."""
    columns = ", ".join(["id", *(f"{letter}{number}" for number, _ in EVERY)])
    values = ", ".join(
        f"CASE id % 3 WHEN 0 THEN {one} WHEN 1 THEN {two} END::{kind.sql}"
        for kind in KINDS
        for one, two in [kind.values]
    )
    return f"INSERT INTO lake.t ({columns}) SELECT id, {values} FROM (SELECT range AS id FROM range({ids}))"


# Each text is one transaction, and so one snapshot.
HISTORY: tuple[str, ...] = (
    f"CREATE TABLE lake.t (id BIGINT, {', '.join(f'c{number} {kind.sql}' for number, kind in EVERY)})",
    added("300", "c"),
    added("300, 303", "c"),  # in the catalog, where it has a form for the types
    "DELETE FROM lake.t WHERE id < 200 AND id % 7 = 0",
    "; ".join(
        f"ALTER TABLE lake.t ADD COLUMN d{number} {kind.sql} DEFAULT '{kind.default}'"
        for number, kind in EVERY
        if kind.default
    ),
    "; ".join(f"ALTER TABLE lake.t RENAME COLUMN c{number} TO r{number}" for number, _ in EVERY),
    "; ".join(f"ALTER TABLE lake.t ALTER r{number} TYPE {kind.wider}" for number, kind in EVERY if kind.wider),
    added("400, 600", "r"),
    "DELETE FROM lake.t WHERE id IN (5, 301, 401)",
    f"UPDATE lake.t SET {', '.join(f'r{number} = NULL' for number, _ in EVERY)} WHERE id IN (8, 302, 403)",
    "ALTER TABLE lake.t DROP COLUMN r0",
    "CALL ducklake_flush_inlined_data('lake')",
    "CALL ducklake_merge_adjacent_files('lake')",
)  # fmt: skip


def as_spark(client: "duckdb.DuckDBPyConnection", snapshot: int) -> pa.Table:
    """Return what DuckLake reads in a snapshot, in Spark's forms of its values."""
    source = f"lake.t AT (VERSION => {snapshot})"
    shown = {f"{letter}{number}": kind.shown for number, kind in EVERY for letter in "cdr"}
    columns = [name for name, *_ in client.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()]
    listed = (f"{shown.get(name, '{}').format(name)} AS {name}" for name in columns)
    return client.execute(f"SELECT {', '.join(listed)} FROM {source}").to_arrow_table()


def test_each_type_is_read_in_each_state_of_the_table(spark: "SparkSession", world: "World") -> None:
    compare(spark, world.config.lakes["test"])


@pytest.mark.more
def test_each_type_of_an_encrypted_lake_is_read(spark: "SparkSession", local_world: "World") -> None:
    local_world.lake_options = {"attach_options": {"encrypted": True}}
    compare(spark, local_world.config.lakes["test"])


@pytest.mark.more
def test_each_type_is_read_from_azure(spark: "SparkSession", local_world: "World", azure: AzureServer) -> None:
    place = {"container": azure.new_container(), "connection_string": azure.connection_string}
    local_world.storage = {"type": "azure", "prefix": "some/prefix"} | place
    compare(spark, local_world.config.lakes["test"])


def compare(spark: "SparkSession", lake: "Lake") -> None:
    """Compare what Spark and DuckLake read of each snapshot."""
    create_by_copy(lake)
    snapshots = [changed(lake, text) for text in HISTORY]

    with plain_client(lake) as client:
        for snapshot, text in zip(snapshots, HISTORY, strict=True):
            found = frame(spark, lake, TABLE, TablePart(at=snapshot)).toArrow()
            expected = as_spark(client, snapshot)
            assert found.column_names == expected.column_names
            assert not differences(found, expected), text
    assert len(set(snapshots)) >= len(HISTORY) - 1  # a catalog without inlined rows has none to flush


def changed(lake: "Lake", text: str) -> int:
    """Change the table; returns the newest snapshot."""
    apply(lake, ["BEGIN", *text.split("; "), "COMMIT"] if "; " in text else [text])
    with DuckLake(lake).open(read_only=True) as session:
        return session.current_snapshot()
