"""What the lake answers, beside a plain DuckDB table of the landed files' rows."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from dev.plain_client import plain_client
from lake_assets.base.duckdb_engine import identifier, literal
from lake_assets.base.errors import SchemaError
from lake_assets.lake.catalog.table_scan import scanned_columns, with_files
from lake_assets.lake.ducklake import DuckLake
from lake_assets.spark.task.scanned_rows import RowReader
from lake_assets.spark_reader import LakeReader
from lake_assets_tests.differential.landed import Landed
from lake_assets_tests.differential.queries import TABLE, expressions, questions, samples
from lake_assets_tests.values.plain import plain
from lake_assets_tests.world import World

Client = duckdb.DuckDBPyConnection


def differences(landed: Landed) -> Iterator[str]:
    """Where the lake has or finds other rows than were landed."""
    with landed.world.reader() as lake, duckdb.connect(config={"threads": 1}) as expected, ExitStack() as stack:
        for client in (lake, expected):
            client.execute("SET TimeZone = 'UTC'")
        lake.execute("BEGIN")  # in which DuckLake reads its catalog once
        columns = {name: kind for name, kind, *_ in lake.execute("DESCRIBE lake.sales").fetchall()}
        if wrong := list(_fill(landed, expected, columns)):
            yield from wrong
            return
        yield from _values(lake, expected, columns)
        yield from _values_by_arrow(landed, lake)
        yield from _values_by_spark(landed, lake)
        for sql in _questions(landed, expected):
            found, wanted = _answer(lake, sql, "lake.sales"), _answer(expected, sql, "expected")
            if found == wanted or isinstance(wanted, duckdb.Error):
                continue
            # DuckLake itself finds no BLOB with a zero byte, and no text with one is a condition of its.
            by_ducklake = _answer(stack.enter_context(_plain_lake(landed, columns)), sql, "lake.sales")
            if str(found) != str(by_ducklake):
                yield f"{sql.replace(TABLE, 'lake.sales')}: {found} and not {wanted}; plain DuckLake: {by_ducklake}"


def _answer(client: Client, sql: str, table: str) -> Any:
    try:
        rows = client.execute(sql.replace(TABLE, table)).fetchall()
    except duckdb.Error as error:
        if table != "expected":
            client.execute("ROLLBACK")
            client.execute("BEGIN")
        return error
    return [tuple("0.0" if value == "-0.0" else value for value in row) for row in rows]


def _fill(landed: Landed, expected: Client, columns: dict[str, str]) -> Iterator[str]:
    """Read the landed files into the table `expected` by DuckDB, whole and without conditions."""
    types = ", ".join(f"{identifier(name)} {kind}" for name, kind in columns.items())
    expected.execute(f"CREATE TABLE expected ({types})")
    for text, files in landed.lake.items():
        for file in files:
            source = f"read_parquet({literal(str(file.path))}, hive_partitioning = false)"
            for name, *_ in expected.execute(f"DESCRIBE FROM {source}").fetchall():
                if name not in columns and file.name:  # a client inserts the columns that the table has
                    ((count,),) = expected.execute(f"SELECT count({identifier(name)}) FROM {source}").fetchall()
                    if count:
                        yield f"the table lacks the column {name!r} of {file.path.name}, which has {count} values"
            try:
                expected.execute(f"INSERT INTO expected BY NAME {landed.select(expected, text, file, columns)}")
            except duckdb.ConversionException as error:
                yield f"the table has other types than {file.path.name}: {error}"
    if landed.deleted:
        expected.execute(f"DELETE FROM expected WHERE id IN ({', '.join(map(str, landed.deleted))})")


@contextmanager
def _plain_lake(landed: Landed, columns: dict[str, str]) -> Iterator[Client]:
    """A lake that DuckLake alone has filled with the same rows, in the same order."""
    with TemporaryDirectory(dir=landed.folder) as folder:
        catalog, data = {"type": "sqlite", "path": f"{folder}/c.sqlite"}, {"type": "local", "path": f"{folder}/data"}
        lake = World(catalog, data, landed.world.source, landed.world.sessions, landed.world.options)
        with plain_client(lake.config.lakes["test"], read_only=False) as client:
            client.execute("SET TimeZone = 'UTC'")
            types = ", ".join(f"{identifier(name)} {kind}" for name, kind in columns.items())
            client.execute(f"CREATE TABLE lake.sales ({types})")
            client.execute("CALL lake.set_option('data_inlining_row_limit', 0)")
            keys = ", ".join(map(identifier, landed.partitions))
            client.execute(f"ALTER TABLE lake.sales SET PARTITIONED BY ({keys})")
            for text, files in landed.lake.items():
                for file in files:
                    client.execute(f"INSERT INTO lake.sales BY NAME {landed.select(client, text, file, columns)}")
            if landed.deleted:
                client.execute(f"DELETE FROM lake.sales WHERE id IN ({', '.join(map(str, landed.deleted))})")
            client.execute("BEGIN")
            yield client


def _values(lake: Client, expected: Client, columns: dict[str, str]) -> Iterator[str]:
    """Each row by each column, as DuckDB writes it."""
    for name, kind in columns.items():
        sql = f"SELECT id, ({identifier(name)})::VARCHAR FROM {TABLE} ORDER BY id"
        found, wanted = _answer(lake, sql, "lake.sales"), _answer(expected, sql, "expected")
        if found != wanted:
            yield f"{name} {kind}: {found if isinstance(found, duckdb.Error) else _unlike(found, wanted)}"


def _values_by_arrow(landed: Landed, lake: Client) -> Iterator[str]:
    """Each row by each column, as pyarrow reads it in the landed files."""
    try:
        table = lake.execute("SELECT * FROM lake.sales").to_arrow_table()
    except duckdb.Error as error:  # Arrow has no such value, or no such type
        landed.log.append(f"not compared by pyarrow: {error}")
        return
    by_name: dict[str, dict[int, Any]] = {}
    landed_files = (file for files in landed.lake.values() for file in files if file.name)  # a client's INSERT casts
    for file in landed_files:
        parquet = pq.ParquetFile(file.path, coerce_int96_timestamp_unit="us")
        for name in parquet.schema_arrow.names:
            with suppress(pa.ArrowNotImplementedError, OSError):  # some encodings, nested or without values
                values = plain(parquet.read(columns=[name])[name])
                if len(values) == len(file.ids):  # Arrow ends at an empty page of lists
                    by_name.setdefault(name, {}).update(zip(file.ids, values, strict=True))
    ids = table["id"].to_pylist()
    for name in by_name.keys() & set(table.column_names) - set(landed.partitions):
        there = dict(zip(ids, plain(table[name]), strict=True))
        landed_rows = ((n, there.get(n), v) for n, v in by_name[name].items() if n not in landed.deleted)
        if few := [row for row in landed_rows if not _same(*row[1:])][:3]:
            yield f"{name} by pyarrow: (id, found, landed) {few}"


def _values_by_spark(landed: Landed, lake: Client) -> Iterator[str]:
    """Each column, as tasks of Spark's data source read it, beside what DuckLake reads."""
    config = landed.world.config.lakes["test"]
    try:
        with DuckLake(config).open(read_only=True) as session:
            scan = with_files(session, scanned_columns(session, landed.world.stream.table))
        expected = lake.execute("SELECT * FROM lake.sales ORDER BY id").to_arrow_table()
    except (SchemaError, duckdb.Error) as error:
        landed.log.append(f"not read by Spark: {error}")
        return
    reader = RowReader(scan.columns, scan.mappings, config.storages)
    batches = [batch for file in scan.files for batch in reader.rows(file)]
    inlined = [] if scan.inlined is None else scan.inlined.to_batches()
    found = pa.Table.from_batches([*batches, *inlined], schema=scan.schema).sort_by("id")
    for name in expected.column_names:
        if (ours := plain(found[name])) != (theirs := plain(expected[name])):
            few = [row for row in zip(found["id"].to_pylist(), ours, theirs, strict=False) if row[1] != row[2]][:3]
            yield f"{name} by Spark: (id, found, DuckLake's) {few}, {len(ours)} rows of {len(theirs)}"
    try:
        spark_reader = LakeReader(config, scan)
        for work in spark_reader.partitions():
            list(spark_reader.read(work))
    except SchemaError as error:
        landed.log.append(f"not given to Spark: {error}")


def _same(found: Any, landed: Any) -> bool:
    """Whether two values are one: a struct that was widened has further fields, which are NULL."""
    if isinstance(landed, dict) and isinstance(found, dict):
        return all(_same(value, landed.get(name)) for name, value in found.items())
    if isinstance(landed, list | tuple) and isinstance(found, list | tuple):
        return len(found) == len(landed) and all(map(_same, found, landed))
    return bool(found == landed)


def _unlike(found: Sequence[Any], wanted: Sequence[Any]) -> str:
    there, should = dict(found), dict(wanted)
    few = [
        (n, there.get(n, "no row"), should.get(n, "no row"))
        for n in sorted({*there, *should})
        if there.get(n, 0) != should.get(n, 0)
    ]
    more = f" (and {len(found)} rows for {len(wanted)})" if len(found) != len(wanted) else ""
    return f"(id, found, landed) {few[:3]}{more}"


def _questions(landed: Landed, expected: Client) -> Iterator[str]:
    chosen = landed.chosen
    yield f"SELECT count(*) FROM {TABLE}"
    keys = [_key(landed.values(text)) for text in landed.lake]
    relation = expected.table("expected")
    for name, kind in zip(relation.columns, relation.types, strict=True):
        only_values = name in landed.singles
        for expression in expressions(name, kind):
            yield from questions(chosen, expression, samples(expected, expression), keys, only_values=only_values)
    by = identifier(next(iter(landed.partitions)))
    for name in relation.columns[:3]:
        yield f"SELECT {by}::VARCHAR, count(*), count({identifier(name)}) FROM {TABLE} GROUP BY ALL ORDER BY ALL"


def _key(values: dict[str, str | None]) -> str:
    return " AND ".join(f"{identifier(k)} {'IS NULL' if v is None else f'= {literal(v)}'}" for k, v in values.items())
