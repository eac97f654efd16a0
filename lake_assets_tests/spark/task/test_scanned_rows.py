"""What RowReader reads of each snapshot of a table with a long history, beside what DuckLake reads."""

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from dev.plain_client import plain_client
from lake_assets.base.errors import CatalogError, LakeAssetsError, SchemaError
from lake_assets.config.lake import Lake
from lake_assets.lake.catalog.table_scan import Scan, scanned_columns, with_files
from lake_assets.lake.ducklake import DuckLake
from lake_assets.lake.session import TableName
from lake_assets.spark.task.conditions import Condition
from lake_assets.spark.task.scanned_rows import RowReader

TABLE = TableName("main", "t")

# Each column with its type, and the value of row `range`.
COLUMNS = {
    "id": ("BIGINT", "range"),
    "s": ("STRUCT(a INT, b VARCHAR)", "{'a': range, 'b': 'x' || range}"),
    "l": ("INT[]", "[range, NULL]"),
    "ls": ("STRUCT(z INT)[]", "[{'z': range}, NULL]"),
    "m": ("MAP(VARCHAR, INT)", "MAP {'k': range}"),
    "d": ("DATE", "DATE '2026-01-01' + range::INT"),
    "u": ("UUID", "uuid()"),
    "ts": ("TIMESTAMP", "TIMESTAMP '2026-01-01' + to_seconds(range)"),
    "tz": ("TIMESTAMPTZ", "TIMESTAMPTZ '2026-01-01 00:00:00+00' + to_seconds(range)"),
    "ns": ("TIMESTAMP_NS", "TIMESTAMP_NS '2026-01-01 00:00:00.123456789'"),
    "dec": ("DECIMAL(12,2)", "range"),
    "x": ("DOUBLE", "range / 3"),
    "f": ("FLOAT", "range / 7"),
    "bl": ("BLOB", "'ab'::BLOB"),
    "ti": ("TIME", "TIME '01:02:03.4'"),
    "bo": ("BOOLEAN", "range % 2 = 0"),
    "u8": ("UTINYINT", "range % 200"),
    "u64": ("UBIGINT", "18446744073709551615 - range"),
    "j": ("JSON", "'{\"a\": 1}'"),
}
CREATE = f"CREATE TABLE lake.t ({', '.join(f'{name} {kind}' for name, (kind, _) in COLUMNS.items())})"
FILL = f"INSERT INTO lake.t SELECT {', '.join(value for _, value in COLUMNS.values())} FROM range(1000)"

FLAT = (
    CREATE,
    FILL,
    "INSERT INTO lake.t (id, s) VALUES (-1, {'a': 1, 'b': 'é'}), (-2, NULL)",  # inlined
    "DELETE FROM lake.t WHERE id BETWEEN 100 AND 130",
    "DELETE FROM lake.t WHERE id = 7",  # in the catalog
    "ALTER TABLE lake.t ADD COLUMN n INT DEFAULT 7",
    "ALTER TABLE lake.t RENAME COLUMN x TO xx",
    "ALTER TABLE lake.t ALTER u8 TYPE BIGINT",
    "ALTER TABLE lake.t DROP COLUMN bl",
    "INSERT INTO lake.t BY NAME SELECT -3 AS id",
    "UPDATE lake.t SET n = 9 WHERE id < 20",
    "ALTER TABLE lake.t SET PARTITIONED BY (d)",
    "INSERT INTO lake.t BY NAME SELECT range + 9000 AS id, DATE '2026-06-05' AS d FROM range(50)",
    "INSERT INTO lake.t BY NAME SELECT range + 9500 AS id, NULL AS d FROM range(50)",
    "DELETE FROM lake.t WHERE id > 9540",
)
NESTED = (
    "ALTER TABLE lake.t ADD COLUMN s.c BIGINT",
    "ALTER TABLE lake.t RENAME COLUMN s.a TO aa",
    "INSERT INTO lake.t BY NAME SELECT range AS id, {'aa': 1, 'b': NULL, 'c': 5} AS s FROM range(50)",
    "ALTER TABLE lake.t DROP COLUMN s.b",
    "DELETE FROM lake.t WHERE id = 9010",
)
FLUSHED = (
    # A flush makes one file of the deletes of several snapshots.
    "DELETE FROM lake.t WHERE id = -1",
    "UPDATE lake.t SET bo = true WHERE id = -2",
    "DELETE FROM lake.t WHERE id = -3",
    "CALL ducklake_merge_adjacent_files('lake')",
    "CALL ducklake_flush_inlined_data('lake')",
    "DELETE FROM lake.t WHERE id > 9040",
    "CALL ducklake_rewrite_data_files('lake', delete_threshold => 0.01)",
)


def lake_in(folder: Path, **options: Any) -> Lake:
    """A new lake."""
    lake = Lake.model_validate(
        {"catalog": {"type": "sqlite", "path": str(folder / "c.sqlite")}, "storage": str(folder / "data"), **options}
    )
    with DuckLake(lake).open(create=True):
        return lake


def apply(lake: Lake, statements: Sequence[str]) -> None:
    """Execute statements as another client of DuckLake."""
    with plain_client(lake, read_only=False) as client:
        for statement in statements:
            client.execute(statement)


def rows_of(lake: Lake, scan: Scan, conditions: Sequence[Condition] = ()) -> pa.Table:
    """What tasks read of a scan."""
    reader = RowReader(scan.columns, scan.mappings, lake.storages, conditions)
    batches = [batch for file in scan.files for batch in reader.rows(file)]
    inlined = [] if scan.inlined is None else scan.inlined.to_batches()
    return pa.Table.from_batches([*batches, *inlined], schema=scan.schema)


def as_ducklake(client: duckdb.DuckDBPyConnection, snapshot: int) -> pa.Table:
    """The table as DuckLake reads it."""
    return client.execute(f"SELECT * FROM lake.t AT (VERSION => {snapshot})").to_arrow_table()


def differences(found: pa.Table, expected: pa.Table) -> list[Any]:
    """Rows that one of both has; values are compared as DuckDB's texts."""
    with duckdb.connect() as engine:
        engine.register("found", found)
        engine.register("expected", expected)
        columns = ", ".join(f'"{name}"::VARCHAR' for name in expected.column_names)
        return [
            row
            for one, other in (("found", "expected"), ("expected", "found"))
            for row in engine.execute(
                f"SELECT '{one}', {columns} FROM {one} EXCEPT ALL SELECT '{one}', {columns} FROM {other}"
            ).fetchall()
        ]


@pytest.mark.parametrize(
    ("statements", "options"),
    [
        ((*FLAT, *NESTED), {}),
        ((*FLAT, *NESTED, *FLUSHED), {}),
        (FLAT, {"attach_options": {"encrypted": True}}),
    ],
    ids=["inlined", "flushed", "encrypted"],
)
def test_each_snapshot_has_the_rows_that_ducklake_reads(
    tmp_path: Path, statements: Sequence[str], options: dict[str, Any]
) -> None:
    lake = lake_in(tmp_path, **options)
    apply(lake, statements)
    with DuckLake(lake).open(read_only=True) as session, plain_client(lake) as client:
        inlined = 0
        for snapshot in range(1, session.current_snapshot() + 1):
            scan = with_files(session, scanned_columns(session, TABLE, snapshot))
            expected, found = as_ducklake(client, snapshot), rows_of(lake, scan)
            assert found.column_names == expected.column_names
            assert not differences(found, expected), snapshot
            inlined += scan.inlined is not None
    assert (inlined > 0) != ("CALL ducklake_flush_inlined_data('lake')" in statements)


def test_files_that_were_registered_have_their_columns_by_name_and_from_their_path(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    place = tmp_path / "data" / "main" / "t" / "region=N%2FW" / "d=2026-01-05"
    place.mkdir(parents=True)
    null = tmp_path / "data" / "main" / "t" / "region=__HIVE_DEFAULT_PARTITION__" / "d=2026-01-06"
    null.mkdir(parents=True)
    rows = "SELECT range AS id, {'a': range::INT, 'b': 'x'} AS s, [{'z': 1}] AS ls, MAP {'k': 1} AS m, 2.5::FLOAT AS f"
    register = "CALL ducklake_add_data_files('lake', 't', '{}', hive_partitioning => true)"
    apply(
        lake,
        (
            "CREATE TABLE lake.t (id BIGINT, s STRUCT(a INT, b VARCHAR), ls STRUCT(z INT)[], m MAP(VARCHAR, INT))",
            "ALTER TABLE lake.t ADD COLUMN f FLOAT",
            "ALTER TABLE lake.t ADD COLUMN region VARCHAR",
            "ALTER TABLE lake.t ADD COLUMN d DATE",
            "ALTER TABLE lake.t SET PARTITIONED BY (region, d)",
            *(f"COPY ({rows} FROM range(20)) TO '{folder / 'f.parquet'}' (FORMAT parquet)" for folder in (place, null)),
            *(register.format(folder / "f.parquet") for folder in (place, null)),
            "ALTER TABLE lake.t RENAME COLUMN id TO number",
            "ALTER TABLE lake.t RENAME COLUMN s.a TO aa",
            "ALTER TABLE lake.t ADD COLUMN n INT DEFAULT 3",
            "ALTER TABLE lake.t ALTER f TYPE DOUBLE",
            "DELETE FROM lake.t WHERE number = 3",
        ),
    )
    with DuckLake(lake).open(read_only=True) as session, plain_client(lake) as client:
        for snapshot in range(1, session.current_snapshot() + 1):
            scan = with_files(session, scanned_columns(session, TABLE, snapshot))
            assert not differences(rows_of(lake, scan), as_ducklake(client, snapshot)), snapshot
        conditions = [Condition("region", "=", ("N/W",))]
        scan = with_files(session, scanned_columns(session, TABLE), conditions)
        assert (len(scan.files), scan.all_files) == (1, 2)


@pytest.mark.parametrize(
    ("conditions", "files"),
    [
        ([], 11),
        ([Condition("d", "=", (dt.date(2026, 1, 3),))], 1),
        ([Condition("d", "=", (dt.date(2026, 1, 3), dt.date(2026, 1, 4)))], 2),
        ([Condition("id", ">=", (850,))], 2),
        ([Condition("id", "<", (100,)), Condition("d", "=", (dt.date(2026, 1, 2),))], 0),
        ([Condition("id", "<=", (0,))], 1),
        ([Condition("t", "=", ("x5",))], 1),
        ([Condition("t", "null")], 1),
        ([Condition("t", "not null")], 10),
        ([Condition("x", ">", (1e9,))], 10),  # NaN is greater, and no bounds have it
        ([Condition("id", "=", ("a text",))], 10),
        ([Condition("id", "=", (None,))], 0),
        ([Condition("y", "=", (1,))], 11),  # no such column: Spark says so
        ([Condition("moment", ">", (dt.datetime(2026, 1, 1, 0, 14, tzinfo=dt.UTC),))], 2),
        ([Condition("local", "<=", (dt.datetime(2026, 1, 1, 0, 1, 40),))], 2),  # noqa: DTZ001
    ],
)
def test_files_without_rows_for_a_condition_are_left_out(
    tmp_path: Path, conditions: Sequence[Condition], files: int
) -> None:
    lake = lake_in(tmp_path)
    apply(
        lake,
        (
            "CREATE TABLE lake.t (id BIGINT, d DATE, t VARCHAR, x DOUBLE, moment TIMESTAMPTZ, local TIMESTAMP)",
            "ALTER TABLE lake.t SET PARTITIONED BY (d)",
            "INSERT INTO lake.t SELECT range, DATE '2026-01-01' + (range // 100)::INT, 'x' || range // 100, "  # noqa: ISC004
            "CASE WHEN range % 100 = 7 THEN 'nan'::DOUBLE ELSE range END, TIMESTAMPTZ '2026-01-01 00:00:00+00' + "
            "to_seconds(range), TIMESTAMP '2026-01-01' + to_seconds(range) FROM range(1000)",
            "INSERT INTO lake.t SELECT NULL, DATE '2026-02-01', NULL, NULL, NULL, NULL FROM range(100)",
        ),
    )
    with DuckLake(lake).open(read_only=True) as session:
        scan = with_files(session, scanned_columns(session, TABLE), conditions)
        assert (len(scan.files), scan.all_files) == (files, 11)


@pytest.mark.parametrize(
    ("statements", "back", "sql", "conditions"),
    [
        (  # ClickHouse #85029
            (
                "CREATE TABLE lake.t AS SELECT range AS a FROM range(3000)",
                "ALTER TABLE lake.t RENAME COLUMN a TO b",
                "ALTER TABLE lake.t ADD COLUMN a BIGINT",
                "INSERT INTO lake.t SELECT range AS b, range + 9000 AS a FROM range(3000)",
            ),
            0,
            "a >= 9000 OR a IS NULL AND b = 7",
            [],
        ),
        (
            (
                "CREATE TABLE lake.t AS SELECT range AS a FROM range(3000)",
                "ALTER TABLE lake.t RENAME COLUMN a TO b",
                "ALTER TABLE lake.t ADD COLUMN a BIGINT DEFAULT 5000",
                "INSERT INTO lake.t SELECT range AS b, range + 9000 AS a FROM range(3000)",
            ),
            0,
            "a = 5000",
            [Condition("a", "=", (5000,))],
        ),
        (  # Daft #7428
            (
                "CREATE TABLE lake.t AS SELECT range AS id, 'ab'[1 + range % 2] AS dt FROM range(3000)",
                "ALTER TABLE lake.t SET PARTITIONED BY (dt)",
                "INSERT INTO lake.t SELECT range AS id, 'ab'[1 + range % 2] AS dt FROM range(3000)",
            ),
            0,
            "dt = 'a'",
            [Condition("dt", "=", ("a",))],
        ),
        (  # Iceberg #16510
            (
                "CREATE TABLE lake.t AS SELECT range AS id, range % 7 AS old FROM range(3000)",
                "ALTER TABLE lake.t RENAME COLUMN old TO young",
                "ALTER TABLE lake.t ADD COLUMN old VARCHAR",
            ),
            2,
            "old = 3",
            [Condition("old", "=", (3,))],
        ),
        (
            (
                "CREATE TABLE lake.t (moment TIMESTAMPTZ, local TIMESTAMP, ns TIMESTAMP_NS)",
                *(
                    f"INSERT INTO lake.t SELECT m, m::TIMESTAMP, m::TIMESTAMP_NS FROM (SELECT "
                    f"TIMESTAMPTZ '2026-0{month}-01 00:00:00+00' + to_seconds(range) AS m FROM range(3000))"
                    for month in (1, 2, 3)
                ),
                "INSERT INTO lake.t SELECT 'infinity', 'infinity', NULL FROM range(20)",
            ),
            0,
            "moment >= TIMESTAMPTZ '2026-02-01 00:10:00+00' AND local < TIMESTAMP '2026-03-01 00:00:01'",
            [
                Condition("moment", ">=", (dt.datetime(2026, 2, 1, 0, 10, tzinfo=dt.UTC),), is_exact=True),
                Condition("local", "<", (dt.datetime(2026, 3, 1, 0, 0, 1),), is_exact=True),  # noqa: DTZ001
            ],
        ),
        (  # bounds of long texts
            ("CREATE TABLE lake.t AS SELECT repeat('é', 700) || range AS name FROM range(3000)",),
            0,
            "name >= repeat('é', 700) || 2999",
            [Condition("name", ">=", ("é" * 700 + "2999",), is_exact=True)],
        ),
        (  # a partition column that was renamed: pdet/ducklake-dataframe #26
            (
                "CREATE TABLE lake.t (id BIGINT, d DATE)",
                "ALTER TABLE lake.t SET PARTITIONED BY (d)",
                "INSERT INTO lake.t SELECT range, DATE '2026-01-01' + (range % 3)::INT FROM range(3000)",
                "ALTER TABLE lake.t RENAME COLUMN d TO day",
                "ALTER TABLE lake.t ALTER id TYPE DOUBLE",
            ),
            0,
            "day = DATE '2026-01-02' AND id < 100",
            [Condition("day", "=", (dt.date(2026, 1, 2),)), Condition("id", "<", (100.0,))],
        ),
    ],
)
def test_conditions_on_columns_that_have_changed_lose_no_row(
    tmp_path: Path, statements: Sequence[str], back: int, sql: str, conditions: Sequence[Condition]
) -> None:
    lake = lake_in(tmp_path)
    apply(lake, statements)
    with DuckLake(lake).open(read_only=True) as session, plain_client(lake) as client, duckdb.connect() as engine:
        snapshot = session.current_snapshot() - back
        scan = with_files(session, scanned_columns(session, TABLE, snapshot), conditions)
        engine.register("found", rows_of(lake, scan, conditions))
        found = engine.execute(f"FROM found WHERE {sql}").to_arrow_table()
        expected = client.execute(f"FROM lake.t AT (VERSION => {snapshot}) WHERE {sql}").to_arrow_table()
    assert expected.num_rows
    assert not differences(found, expected)


def test_row_groups_without_rows_for_a_condition_are_not_read(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    apply(
        lake,
        (
            "CREATE TABLE lake.t (s STRUCT(a INT, b INT), id BIGINT)",
            "CALL lake.set_option('parquet_row_group_size', 2048)",
            "INSERT INTO lake.t SELECT {'a': 1, 'b': 2}, range FROM range(20000)",
        ),
    )
    conditions = [Condition("id", "=", (3000,))]
    with DuckLake(lake).open(read_only=True) as session:
        scan = with_files(session, scanned_columns(session, TABLE), conditions)
    rows = rows_of(lake, scan, conditions)
    assert 3000 in rows.column("id").to_pylist()
    assert rows.num_rows == 2048


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    apply(
        lake,
        (
            "CREATE TABLE lake.t (id BIGINT, big HUGEINT, span INTERVAL)",
            "CREATE TABLE lake.files (filename VARCHAR)",
            "INSERT INTO lake.files VALUES ('a')",
        ),
    )
    with DuckLake(lake).open(read_only=True) as session:

        def refused(kind: type[LakeAssetsError], name: str = "t", **options: Any) -> str:
            with pytest.raises(kind) as raised:
                with_files(session, scanned_columns(session, TableName("main", name), **options))
            return str(raised.value)

        assert "column 'big' has the type int128, which no reader of its files knows" in refused(SchemaError)
        assert "column 'span' has the type interval" in refused(SchemaError, wanted=["span"])
        assert "has no column ids: did you mean id" in refused(CatalogError, wanted=["ids"])
        assert "there is no snapshot 99, or it has expired; the newest is 3" in refused(CatalogError, snapshot=99)
        assert "snapshot 0 of the lake has no table main.t" in refused(CatalogError, snapshot=0)
        assert "files has a column filename, so that its rows in the catalog" in refused(CatalogError, "files")
        assert scanned_columns(session, TABLE, wanted=["ID"]).schema.names == ["id"]
