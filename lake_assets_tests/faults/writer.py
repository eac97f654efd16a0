"""A process that commits partitions to a lake without Spark, to be killed or to run beside others.

    python -m lake_assets_tests.faults.writer WORLD.json --partition TEXT [--times N] [--die-at STATEMENT] [--no-lock]

Each commit replaces the partition by three rows that carry a number of this commit alone, so that a reader can tell
a whole partition from a mixture.
"""

import argparse
import datetime as dt
import json
import os
import signal
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lake_assets.lake.commit import Replacement, commit
from lake_assets.lake.ducklake import LakeSession
from lake_assets.lake.ledger import LedgerRow, create_ledger
from lake_assets.lake.tables import create_table, prepare_table
from lake_assets.manifest import Manifest
from lake_assets.storage.arrow import ArrowStore
from lake_assets_tests.world import World

ROWS = 3
SCHEMA = pa.schema([("id", pa.int64()), ("total", pa.float64())])


class Deadly:
    """A connection that kills its process, with no chance to clean up, before or after a statement."""

    def __init__(self, connection: Any, point: str) -> None:
        self._connection = connection
        self._after = point.startswith("after ")
        self._point = point.removeprefix("after ")

    def execute(self, sql: str, *parameters: Any) -> Any:
        deadly = self._point in sql
        if deadly and not self._after:
            os.kill(os.getpid(), signal.SIGKILL)
        result = self._connection.execute(sql, *parameters)
        if deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


class Overtaken:
    """A connection whose first COMMIT comes after something else has happened."""

    def __init__(self, connection: Any, happening: Callable[[], object]) -> None:
        self._connection = connection
        self._happenings = [happening]

    def execute(self, sql: str, *parameters: Any) -> Any:
        if sql == "COMMIT" and self._happenings:
            self._happenings.pop()()
        return self._connection.execute(sql, *parameters)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


class Unlocked(LakeSession):
    """A writer that knows nothing of the lock."""

    def commit_lock(self) -> AbstractContextManager[None]:
        return nullcontext()


def make_table(world: World) -> None:
    """The destination as the first run makes it."""
    with world.stream.lake.open(create=True) as lake:
        create_ledger(lake)
        create_table(lake, world.stream.table, SCHEMA, world.config.streams["sales"].columns)
        prepare_table(lake, world.stream.table)


def write(
    world: World,
    text: str,
    *,
    die_at: str | None = None,
    overtaken_by: Callable[[], object] | None = None,
    lock: bool = True,
    retries: int = 200,
) -> LedgerRow:
    """One commit of three new rows."""
    stream, partition = world.stream, world.partition(text)
    number = float(uuid.uuid4().int % 2**50)
    store = ArrowStore(world.config.lakes["test"].storage)
    key = f"{stream.destination_folder(partition)}{uuid.uuid4().hex}.parquet"
    with store.create(key) as file:
        pq.write_table(pa.table([[1, 2, 3], [number] * ROWS], schema=SCHEMA), file)
    now = dt.datetime.now(dt.UTC)
    row = LedgerRow(
        run_id=uuid.uuid4().hex,
        run_at=now,
        stream="sales",
        source_glob="none",
        destination_table=str(stream.table),
        partition_columns="region,date",
        load_partition=partition.path,
        mode="replace",
        status="committed",
        row_count=ROWS,
        started_at=now,
    )
    replacement = Replacement(stream.table, partition, (store.uri(key),), Manifest(()), row)
    with stream.lake.open() as lake:
        config = lake.config.model_copy(update={"commit_retries": retries})
        connection: Any = Deadly(lake.connection, die_at) if die_at else lake.connection
        if overtaken_by:
            connection = Overtaken(connection, overtaken_by)
        return commit((LakeSession if lock else Unlocked)(config, connection), replacement)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("world", type=Path)
    parser.add_argument("--partition", required=True)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--die-at")
    parser.add_argument("--no-lock", action="store_true")
    given = parser.parse_args()
    world = World(**json.loads(given.world.read_text()), sessions=lambda: None)  # type: ignore[arg-type, return-value]
    for _ in range(given.times):
        write(world, given.partition, die_at=given.die_at, lock=not given.no_lock)
        print("committed", flush=True)  # noqa: T201 - the parent counts


if __name__ == "__main__":
    main()
