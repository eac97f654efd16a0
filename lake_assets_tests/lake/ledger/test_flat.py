"""What a look at ledger or manifest reads: the same in a ledger of 100 rows and in one of 20,000.

Counted are the rows that the catalog's driver returns, and the row groups of the flushed files that DuckDB reads. The
lake is not attached, so nothing else reads the catalog.
"""

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from lake_assets.lake.catalog.catalog_database import CatalogDatabase
from lake_assets.lake.ducklake import DuckLake
from lake_assets.lake.ledger import flush
from lake_assets.lake.ledger.ledger_relation import LedgerScope
from lake_assets.lake.ledger.object_history import known_objects, partition_objects, registered_objects
from lake_assets.lake.ledger.read import (
    LedgerFilter,
    last_runs,
    partitions_in_ledger,
    read_ledger,
    recorded_commits,
    rows_of_run,
)
from lake_assets.lake.ledger.tables import LEDGER, LEDGER_COLUMNS, MANIFEST, LedgerRow, create_ledger
from lake_assets.lake.session import LakeSession, TableName
from lake_assets_tests.lake.worlds import BY_DRIVER
from lake_assets_tests.world import World

SIZES = (100, 20_000)  # rows of the ledger, and of the manifest
HEADER = 256  # bytes that DuckDB reads for the header of a page, and so of the row group behind a short one
EACH = 10  # rows of a partition
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
TABLE = TableName("main", "sales")


@dataclass(frozen=True)
class Counted:
    """What a look read."""

    catalog_rows: int
    row_groups: int


def path(number: int) -> str:
    return f"region=R{number:05}/date=2026-02-11"


def uri(number: int, size: int) -> str:
    """The object of one run."""
    return f"/landing/{path(number % (size // EACH))}/{number:06}.parquet"


def moment(number: int) -> dt.datetime:
    return START + dt.timedelta(seconds=number)


def fill(world: World, size: int) -> None:
    """A ledger of a run a second: nine tenths in one file, one tenth in the next; and a manifest of an object each."""
    at = f"TIMESTAMPTZ '{START}' + to_seconds(n)"
    partition = f"'region=R' || lpad((n % {size // EACH})::VARCHAR, 5, '0') || '/date=2026-02-11'"
    row = {
        "run_id": "'run-' || n // 10",
        "run_at": at,
        "stream": "'sales'",
        "destination_table": f"'{TABLE}'",
        "load_partition": partition,
        "mode": "'index'",
        "status": "'committed'",
        "row_count": "n",
        "source_fingerprint": "md5(n::VARCHAR)",
        "started_at": at,
        "finished_at": at,
        "uri": f"'/landing/' || {partition} || '/' || lpad(n::VARCHAR, 6, '0') || '.parquet'",
        "etag": "'e'",
        "size": "1",
        "last_modified": at,
    }
    with DuckLake(world.config.lakes["test"]).open(create=True) as lake:
        create_ledger(lake)
        columns_of = {LEDGER.name(lake.config): LEDGER_COLUMNS, MANIFEST.name(lake.config): MANIFEST.columns}
        # More than 1,000 rows of one statement are not inlined: DuckLake writes them into a file, in the same order.
        for table, order in zip(columns_of, (LEDGER.order, MANIFEST.order), strict=True):
            flush._arrange(lake, table, order)
        for part in (range(size * 9 // 10), range(size * 9 // 10, size)):
            row["snapshot_id"] = str(lake.current_snapshot() + 1)
            with lake.transaction():
                for table, columns in columns_of.items():
                    values = ", ".join(f"{row.get(name, 'NULL')} AS {name}" for name in columns)
                    lake.rows(
                        f"INSERT INTO {table.sql} SELECT {values} FROM range(?, ?) AS r(n)", [part.start, part.stop]
                    )
            flush.flush_ledger(lake)


@contextmanager
def counting(lake: LakeSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Counted]]:
    """Counts what is read until the returned function is called."""
    catalog_rows = 0
    rows = CatalogDatabase.rows

    def noting(database: CatalogDatabase, sql: str, parameters: Any = ()) -> Any:
        nonlocal catalog_rows
        found = rows(database, sql, parameters)
        catalog_rows += len(found)
        return found

    lake.engine.execute("SET enable_external_file_cache = false")
    lake.engine.execute("CALL enable_logging('FileSystem')")
    lake.engine.execute("CALL truncate_duckdb_logs()")
    with monkeypatch.context() as patched:
        patched.setattr(CatalogDatabase, "rows", noting)
        yield lambda: Counted(catalog_rows, read_row_groups(lake))


def read_row_groups(lake: LakeSession) -> int:
    """The row groups of which DuckDB has read a part."""
    lake.engine.execute("CALL disable_logging()")
    reads = lake.engine.execute(
        "SELECT path, pos, bytes FROM duckdb_logs_parsed('FileSystem') WHERE op = 'READ' AND path LIKE '%.parquet'"
    ).fetchall()
    found = set()
    for file in {name for name, *_ in reads}:
        groups = lake.engine.execute(
            "SELECT row_group_id, min(coalesce(dictionary_page_offset, data_page_offset)) AS start, "
            "start + sum(total_compressed_size) FROM parquet_metadata(?) GROUP BY ALL",
            [file],
        ).fetchall()
        for group, start, end in groups:
            own = [(pos, size) for name, pos, size in reads if name == file and pos < end]
            if any(pos >= start or pos + size > start + HEADER for pos, size in own):
                found.add((file, group))
    return len(found)


def looks(world: World, size: int) -> Mapping[str, Callable[[LakeSession], bool]]:
    """Each look, and whether it finds what it should."""
    partition = world.partition("region=R00000,date=2026-02-11")
    last = size - size // EACH  # the number of its newest run
    newest = moment(size - 1)
    wanted = [uri(0, size), f"{uri(0, size)}.other"]

    def counts(rows: Sequence[LedgerRow]) -> list[int | None]:
        return [row.row_count for row in rows]

    def in_a_commit(lake: LakeSession) -> bool:
        with lake.write() as database:
            found = partition_objects(lake, LedgerScope(TABLE, [path(0)], ("sales",)), database)
        return {name: len(objects) for name, objects in found.items()} == {path(0): EACH}

    def of_partitions(lake: LakeSession) -> bool:
        found = partition_objects(lake, LedgerScope(TABLE, [path(0), path(1)], ("sales",)))
        return {name: len(objects) for name, objects in found.items()} == {path(0): EACH, path(1): EACH}

    return {
        "runs": lambda lake: [runs.rows for runs in last_runs(lake, TABLE, [partition]).values()] == [last],
        "fingerprint": lambda lake: recorded_commits(lake, TABLE, [partition]).keys() == {path(0)},
        "is known": lambda lake: partitions_in_ledger(lake, TABLE, [path(0), f"{path(0)}/x"]) == {path(0)},
        "of a partition": lambda lake: counts(read_ledger(lake, LedgerFilter(load_partition=path(0)), 1)) == [last],
        "newest": lambda lake: counts(read_ledger(lake, limit=5)) == [size - n for n in range(1, 6)],
        "since": lambda lake: len(read_ledger(lake, LedgerFilter(since=newest - dt.timedelta(seconds=4)))) == 5,
        "before": lambda lake: read_ledger(lake, LedgerFilter(until=START)) == [],
        "of a run": lambda lake: (
            len(rows_of_run(lake, ("sales",), f"run-{(size - 1) // 10}", newest - dt.timedelta(minutes=10))) == 10
        ),
        "objects": lambda lake: len(known_objects(lake, LedgerScope(TABLE, [path(0)], ("sales",)))) == EACH,
        "of partitions": of_partitions,
        "in a commit": in_a_commit,
        "registered": lambda lake: registered_objects(lake, wanted).keys() == {uri(0, size)},
    }


@pytest.mark.more
@BY_DRIVER
def test_looks_read_the_same_in_a_short_and_in_a_long_ledger(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flush, "MANY", 1)
    counts: dict[int, dict[str, Counted]] = {}
    for size in SIZES:
        world.lake_options = {"ledger": f"runs_{size}", "manifest": f"objects_{size}"}
        fill(world, size)
        counts[size] = {}
        for name, look in looks(world, size).items():
            with (
                DuckLake(world.config.lakes["test"]).open(read_only=True) as lake,
                counting(lake, monkeypatch) as counted,
            ):
                assert look(lake), name
                assert not lake.is_attached
                counts[size][name] = counted()

    small, large = (counts[size] for size in SIZES)
    assert small == large
