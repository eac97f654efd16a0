"""What a look, a commit and a query of one partition cost in a PostgreSQL catalog of up to a million partitions."""

from collections.abc import Callable, Mapping
from pathlib import Path

import psycopg

from dev.benchmarks.scale.lake import (
    DAYS,
    FIRST,
    Files,
    catalog_on,
    commit_all,
    make_table,
    numbered,
    server,
    stream_on,
    timed,
)
from dev.benchmarks.scale.results import Grown
from dev.plain_client import plain_client
from dev.servers.postgres import PostgresServer
from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.backup import create_indexes, drop_indexes
from lake_assets.lake.ledger.lookup import commits_by_files
from lake_assets.streams.stream import OpenStream

SIZES = (1_000, 10_000, 100_000, 1_000_000)
QUICK = (100, 200)
MANY = 100  # partitions of a run, or of a batch

Row = tuple[object, ...]


def table(folder: Path, say: Callable[[str], None], *, quick: bool) -> tuple[list[Grown], list[Grown]]:
    """Each size without the indexes of `catalog optimize`, and with them."""
    plain, indexed = [], []
    with server() as running:
        catalog = catalog_on(running)
        stream = stream_on(catalog, folder / "table")
        make_table(stream)
        with stream.lake.open() as lake:
            commit_all(lake, Files(stream).replacements([numbered(0)]))
        size = 1
        for wanted in QUICK if quick else SIZES:
            fill(running, catalog["database"], size, wanted)
            size = wanted
            repeat = 1 if quick else 3
            plain.append(Grown(size=size, seconds=_times(stream, size, repeat)))
            with stream.lake.open() as lake:
                create_indexes(lake)
            indexed.append(Grown(size=size, seconds=_times(stream, size, repeat)))
            with stream.lake.open() as lake:
                drop_indexes(lake)
            for kind, grown in (("", plain[-1]), (" with the index", indexed[-1])):
                figures = ", ".join(f"{name}: {seconds:.3f} s" for name, seconds in grown.seconds.items())
                say(f"{size:,} partitions{kind}: {figures}")
    return plain, indexed


def _times(stream: OpenStream, size: int, repeat: int) -> Mapping[str, float]:
    """The seconds of each work, warm; the partitions are those in the middle of the table."""
    files = Files(stream)
    texts = [numbered(size // 2 + number) for number in range(min(MANY, size // 2))]
    partitions = [stream.config.partition(text) for text in texts]
    found = {}
    with stream.lake.open() as lake:
        found["look at 1"] = timed(lambda: commits_by_files(lake, stream.table, partitions[:1]), repeat)
        found[f"look at {MANY}"] = timed(lambda: commits_by_files(lake, stream.table, partitions), repeat)
        found["commit 1"] = timed(lambda: commit_all(lake, files.replacements(texts[:1])), repeat)
        found[f"commit {MANY} together"] = timed(lambda: commit_all(lake, files.replacements(texts)), repeat)
    region, date = partitions[0].values
    with plain_client(stream.lake_config) as client:
        query = "SELECT sum(total) FROM lake.sales WHERE region = ? AND date = ?"
        found["query of 1"] = timed(lambda: client.execute(query, [region, date]).fetchall(), repeat)
    return found


def fill(running: PostgresServer, database: str, size: int, wanted: int) -> None:
    """Let the table grow from one size to another by entries like that of its first file, one in each partition.

    No file is written for them: what is measured reads no file of theirs.
    """
    with running.connect(database) as connection:
        table_id, first = _row(
            connection, f"SELECT table_id, data_file_id FROM {spec.DATA_FILE} WHERE path LIKE 'region=R0/%' LIMIT 1"
        )
        (base,) = _row(connection, f"SELECT max(next_file_id) FROM {spec.SNAPSHOT}")
        numbers = f"generate_series({size}, {wanted - 1}) AS n"
        region, date = f"'R' || n / {DAYS}", f"(DATE '{FIRST}' + n % {DAYS})::VARCHAR"
        name = f"'region=R' || n / {DAYS} || '/date=' || {date} || '/' || n || '-' || split_part(path, '/', 3)"
        number = f"{base} + n - {size}"
        _copy(
            connection,
            spec.DATA_FILE,
            {"data_file_id": number, "path": name, "row_id_start": f"{number} + 1000000000"},
            f"{numbers} WHERE data_file_id = {first}",
        )
        _copy(connection, spec.FILE_COLUMN_STATS, {"data_file_id": number}, f"{numbers} WHERE data_file_id = {first}")
        for key, value in enumerate((region, date)):
            _copy(
                connection,
                spec.FILE_PARTITION_VALUE,
                {"data_file_id": number, "partition_value": value},
                f"{numbers} WHERE data_file_id = {first} AND partition_key_index = {key}",
            )
        connection.execute(
            f"UPDATE {spec.SNAPSHOT} SET next_file_id = {base + wanted - size} WHERE snapshot_id = "
            f"(SELECT max(snapshot_id) FROM {spec.SNAPSHOT})".encode()
        )
        connection.execute(
            f"UPDATE {spec.TABLE_STATS} SET record_count = record_count + 3 * {wanted - size} "
            f"WHERE table_id = {table_id}".encode()
        )
    with running.connect(database) as connection:
        connection.autocommit = True
        connection.execute("VACUUM ANALYZE")


def _copy(connection: psycopg.Connection[Row], table: str, values: Mapping[str, str], rest: str) -> None:
    """Insert rows like one of a table of the catalog, with other values in some columns."""
    columns = [
        column.name for column in connection.execute(f"SELECT * FROM {table} LIMIT 0".encode()).description or ()
    ]
    chosen = ", ".join(values.get(name, f'"{name}"') for name in columns)
    names = ", ".join(f'"{name}"' for name in columns)
    connection.execute(f"INSERT INTO {table} ({names}) SELECT {chosen} FROM {table}, {rest}".encode())


def _row(connection: psycopg.Connection[Row], query: str) -> tuple[int, ...]:
    found = connection.execute(query.encode()).fetchone()
    assert found is not None
    return tuple(map(int, map(str, found)))
