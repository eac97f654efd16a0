"""A snapshot, and its changes, stay as they were, also after flushes, merges and rewrites by DuckLake."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from dev.plain_client import plain_client
from lake_assets.config.layout.partition import Partition
from lake_assets.lake.catalog.past_partitions import past_table
from lake_assets.lake.catalog.table_scan import scanned_columns, with_files
from lake_assets.lake.ducklake import DuckLake
from lake_assets.lake.session import PartitionedTable
from lake_assets_tests.spark.task.test_scanned_rows import TABLE, apply, as_ducklake, differences, lake_in, rows_of
from lake_assets_tests.spark.test_spark_reader import changes
from lake_assets_tests.tiers import more, soak

CREATE = "CREATE TABLE lake.t (a INT, b INT)"
FEW, MANY = (
    "INSERT INTO lake.t VALUES (1, 1), (2, 2), (3, 3)",
    "INSERT INTO lake.t SELECT range + 100, 1 FROM range(100)",
)
FLUSH, MERGE = "CALL ducklake_flush_inlined_data('lake')", "CALL ducklake_merge_adjacent_files('lake')"
REWRITE = "CALL ducklake_rewrite_data_files('lake', delete_threshold => 0)"
DELETE, UPDATE = "DELETE FROM lake.t WHERE a % {} = {}", "UPDATE lake.t SET b = b + 1 WHERE a % {} = {}"

# What others have met: duckdb/ducklake #673, #1406, #1084, pg_ducklake #220, datafusion-ducklake #32.
MET: dict[str, Sequence[str]] = {
    "flushed deletes": (FEW, "DELETE FROM lake.t WHERE a = 2", "DELETE FROM lake.t WHERE a = 1", FLUSH),
    "rewritten, then flushed": (
        *(MANY, FEW, DELETE.format(105, 1), UPDATE.format(110, 0), REWRITE),
        *("INSERT INTO lake.t VALUES (4, 4), (5, 5)", DELETE.format(120, 4), UPDATE.format(130, 5), FLUSH),
    ),
    "deletes in files and in the catalog": (
        *(MANY, *(DELETE.format(1000, 150 + number) for number in range(5))),
        *("DELETE FROM lake.t WHERE a BETWEEN 150 AND 179", FLUSH, "DELETE FROM lake.t WHERE a >= 190"),
        *(*(DELETE.format(1000, 110 + number) for number in range(3)), FLUSH),
    ),
    "several updates of a row": (
        *("ALTER TABLE lake.t SET PARTITIONED BY (b)", FEW, *(UPDATE.format(10, key) for key in (1, 2, 1, 3, 1, 2))),
        *(FLUSH, UPDATE.format(10, 1)),
    ),
    "all rows deleted": (FEW, MANY, "DELETE FROM lake.t", FLUSH, FEW),
}


def random_history(seed: int) -> list[str]:
    """Return statements of clients and of maintenance."""
    random, statements = Random(seed), []
    for number in range(1000, 2800, 100):
        few = ", ".join(f"({number + place}, {place})" for place in range(random.randrange(1, 5)))
        kinds = (
            *[f"INSERT INTO lake.t VALUES {few}"] * 3,
            f"INSERT INTO lake.t SELECT range + {number}, range FROM range(30)",
            *[DELETE.format(random.choice([2, 3, 5, 7]), random.randrange(2)) + f" AND a > {number - 400}"] * 2,
            *[UPDATE.format(random.choice([3, 5, 7]), 1)] * 2,
            *(FLUSH, random.choice([FLUSH, MERGE, REWRITE])),
        )
        statements.append(random.choice(kinds))
    return statements


@pytest.mark.parametrize("history", [*MET, 0, *more([1]), *soak(range(2, 7))])
def test_a_snapshot_stays_as_it_was_when_it_was_new(tmp_path: Path, history: str | int) -> None:
    lake = lake_in(tmp_path)
    statements = random_history(history) if isinstance(history, int) else MET[history]
    then: dict[int, pa.Table] = {}
    rewrites: set[int] = set()
    for statement in (CREATE, *statements):
        apply(lake, (statement,))
        with DuckLake(lake).open(read_only=True) as session, plain_client(lake) as client:
            snapshot = session.current_snapshot()
            then.setdefault(snapshot, as_ducklake(client, snapshot))
            rewrites |= {snapshot} if statement == REWRITE else set()

    with DuckLake(lake).open(read_only=True) as session, plain_client(lake) as client:
        for snapshot, expected in then.items():
            scan = scanned_columns(session, TABLE, snapshot)
            assert not differences(rows_of(lake, with_files(session, scan)), expected), snapshot
            found = changes(lake, scan, snapshot)
            before = then.get(snapshot - 1, expected.slice(0, 0))
            assert counted(before) + net(found) == counted(expected), snapshot
            told = client.execute(
                f"FROM ducklake_table_changes('lake', 'main', 't', {snapshot}, {snapshot})"
            ).to_arrow_table()
            # After a rewrite DuckLake tells of rows again whose deletes were in the catalog, and of rows in a file of
            # several snapshots it tells the one that added them.
            if snapshot not in rewrites and set(told.column("snapshot_id").to_pylist()) <= {snapshot}:
                assert not differences(found, told), snapshot


def test_an_earlier_snapshot_has_its_rows_though_that_of_the_flush_has_expired(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    apply(lake, (CREATE, *MET["flushed deletes"], MANY, "CALL ducklake_expire_snapshots('lake', versions => [5])"))

    with DuckLake(lake).open(read_only=True) as session, plain_client(lake) as client:
        past = past_table(session, PartitionedTable(TABLE, ()), None).of(Partition((), ()))
        for snapshot, number in ((2, 3), (3, 2), (4, 1), (6, 101)):
            assert as_ducklake(client, snapshot).num_rows == number
            assert rows_of(lake, with_files(session, scanned_columns(session, TABLE, snapshot))).num_rows == number
            assert past.rows(snapshot) == number


def counted(rows: pa.Table) -> Counter[tuple[int, int]]:
    """Return how often each row is there."""
    return Counter(zip(*(rows.column(name).to_pylist() for name in ("a", "b")), strict=True))


def net(changed: pa.Table) -> Counter[tuple[int, int]]:
    """Return how many more of each row there are after changes."""
    kinds = changed.column("change_type").to_pylist()
    is_new = pa.array([kind in ("insert", "update_postimage") for kind in kinds], pa.bool_())
    result = counted(changed.filter(is_new))
    result.subtract(counted(changed.filter(pc.invert(is_new))))
    return result
