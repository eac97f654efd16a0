"""A condition of a query on a table of the lake finds the rows that DuckDB finds, also those that others have met.

Among them are columns with dots and other letters (apache/spark #27817), other cases of names (#22197), parts of nested
columns (spark-bigquery-connector #464), NULL among values (cdp-spark-datasource #426), and times in a session that is
not in UTC (delta-io/delta #5599).
"""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dev.plain_client import plain_client
from lake_assets.spark_reader import frame
from lake_assets_tests.spark.task.test_scanned_rows import TABLE, apply, lake_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CREATE = """CREATE TABLE lake.t ("Id" BIGINT, "a.b" INT, s STRUCT(x INT, "y z" VARCHAR), n VARCHAR, ts TIMESTAMP,
    tz TIMESTAMPTZ, d DATE, f DOUBLE, dec DECIMAL(10, 2), bo BOOLEAN, ti TIME, u UBIGINT, bl BLOB, "order" INT,
    "é" INT)"""
FILL = """INSERT INTO lake.t SELECT range, CASE WHEN range % 5 > 0 THEN range % 7 END,
    {{'x': range % 3, 'y z': 'v' || range % 4}},
    CASE range % 4 WHEN 0 THEN NULL WHEN 1 THEN '' ELSE 'NÄ' || range % 4 END,
    TIMESTAMP '2026-03-29' + to_minutes(range * 10), TIMESTAMPTZ '2026-03-29 00:00:00+00' + to_minutes(range * 10),
    DATE '2026-01-01' + (range % 40)::INT, CASE range % 9 WHEN 0 THEN 'nan'::DOUBLE WHEN 1 THEN -0.0 ELSE range END,
    range / 8, range % 2 = 0, TIME '00:00:00' + to_seconds(range), 18446744073709551615 - range, ('b' || range)::BLOB,
    range % 3, range FROM range({}, {})"""

# Of those that Spark and DuckDB write in two ways, that of DuckDB comes second; Spark's session is in New York.
CONDITIONS: tuple[str | tuple[str, str], ...] = (
    *("id = 5", "ID IN (1, NULL, 3)", "id NOT IN (1, 2)", "Id > 2.5 AND Id < 6", "Id = 5.5"),
    *(
        "Id > 9223372036854775807",
        "Id = '7'",
        ("CAST(Id AS STRING) = '7'", "id = 7"),
        "n IS NULL OR Id < 5",
        "NOT (Id > 5)",
    ),
    *(("`a.b` = 3", '"a.b" = 3'), ("`a.b` NOT IN (1, 2)", '"a.b" NOT IN (1, 2)'), ("`a.b` <=> NULL", '"a.b" IS NULL')),
    *(("`a.b` <=> 3", '"a.b" = 3'), ("`order` = 2", '"order" = 2'), ("`é` < 7", '"é" < 7')),
    *("s.x = 1", ("s.`y z` = 'v1'", "s.\"y z\" = 'v1'"), "s IS NULL", "s IS NOT NULL"),
    *("n = ''", "n LIKE 'NÄ%'", "n = 'NÄ2'", "n >= 'NÄ3'", "n < 'a'", "n <> ''"),
    *("ts >= '2026-03-29 02:00:00' AND ts < '2026-03-30'", ("ts = TIMESTAMP_NTZ '2026-03-29 02:30:00'", '"Id" = 15')),
    *(("tz >= TIMESTAMP '2026-03-29 02:00:00 UTC'", "id >= 12"), ("tz >= '2026-03-29 02:00:00'", "id >= 36")),
    *(("tz = TIMESTAMP '2026-03-29 02:30:00'", "id = 39"), ("tz IN ('2026-03-29', '2026-03-30')", "id IN (24, 168)")),
    *("d = '2026-01-05'", "d IN (DATE '2026-02-02', DATE '2026-02-03')"),
    ("d > '2026-02-01 05:00:00'", "d > '2026-02-01'"),
    *(("f = 'NaN'", "isnan(f)"), "f = 0.0", "f > 990", "f >= 999", "f <> 5"),
    *("dec = 12.5", "dec IN (1.0, 2)", ("dec < 3.125", "dec <= 3.12"), "dec > 99999999999"),
    *("bo", "NOT bo", "bo = false", ("ti = '00:00:05.000000'", "ti = '00:00:05'"), "ti < '00:00:05'"),
    *("u = 18446744073709551610", "u > 18446744073709551610", "u < 18446744073709551000", "u > -1"),
    ("bl = X'6231'", "bl = 'b1'::BLOB"),
)


@pytest.mark.more
def test_a_condition_finds_the_rows_that_duckdb_finds(spark: "SparkSession", tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    apply(lake, (CREATE, *(FILL.format(start, start + 250) for start in range(0, 1000, 250))))
    zone = "spark.sql.session.timeZone"
    before = spark.conf.get(zone) or "UTC"
    spark.conf.set(zone, "America/New_York")
    try:
        rows = frame(spark, lake, TABLE)
        with plain_client(lake) as client:
            for condition in CONDITIONS:
                of_spark, of_duckdb = (condition, condition) if isinstance(condition, str) else condition
                expected = client.execute(f"SELECT id FROM lake.t WHERE {of_duckdb} ORDER BY id").fetchall()
                assert sorted(rows.where(of_spark).select("id").collect()) == expected, of_spark
    finally:
        spark.conf.set(zone, before)
