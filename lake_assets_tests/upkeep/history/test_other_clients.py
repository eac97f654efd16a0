"""What other clients do to a table, and what each command then says of its snapshots.

The oracle is a plain DuckDB client: what it reads from the table AT a snapshot is what the snapshot has.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from dev.plain_client import plain_client
from lake_assets.base.errors import PartitionError
from lake_assets.upkeep.history.diff import DiffOptions, diff
from lake_assets.upkeep.history.history_entries import history
from lake_assets.upkeep.history.restore import Restoration, release
from lake_assets.upkeep.maintenance.compaction import compact, compactable
from lake_assets.upkeep.report.state import read_stream_state
from lake_assets_tests.tiers import more, soak
from lake_assets_tests.upkeep.checks.checked import check
from lake_assets_tests.world import NW, SW, World, sales

INLINE = "CALL lake.set_option('data_inlining_row_limit', 10)"
MERGE = "CALL ducklake_merge_adjacent_files('lake')"
REWRITE = "CALL ducklake_rewrite_data_files('lake', delete_threshold => 0)"
FLUSH = "CALL ducklake_flush_inlined_data('lake')"
INSERT = (
    "INSERT INTO lake.sales (id, total, region, date) VALUES (8, 80, 'NW', '2026-02-11'), (9, 90, 'SW', '2026-02-11')"
)
DELETES = ("DELETE FROM lake.sales WHERE total = 1", "DELETE FROM lake.sales WHERE total = 3")
UPDATE = "UPDATE lake.sales SET total = 30 WHERE total = 3"

EXPIRE = (
    "CALL ducklake_expire_snapshots('lake', older_than => now())",
    "CALL ducklake_cleanup_old_files('lake', cleanup_all => true)",
)
CLIENTS: Mapping[str, Sequence[str]] = {
    "merge": [MERGE],
    "merge and deletes": [MERGE, *DELETES],
    "deletes": DELETES,
    "flushed deletes": [INLINE, *DELETES, FLUSH],
    "deletes and rewrite": [*DELETES, REWRITE],
    "update": [UPDATE],
    "update and merge": [UPDATE, INSERT, MERGE],
    "inlined": [INLINE, INSERT, *DELETES, UPDATE],
    "inlined and flushed": [INLINE, INSERT, *DELETES, UPDATE, FLUSH],
    "checkpoint": [INLINE, INSERT, *DELETES, "CHECKPOINT lake"],
    "truncate": ["TRUNCATE TABLE lake.sales"],
    "expiry": [*DELETES, MERGE, *EXPIRE],
    "rename": ["ALTER TABLE lake.sales RENAME COLUMN id TO number", *DELETES],
    "rename and update": [
        "ALTER TABLE lake.sales RENAME COLUMN total TO amount",
        "UPDATE lake.sales SET amount = 30 WHERE amount = 3",
    ],
    "partitioned by more": [
        "ALTER TABLE lake.sales SET PARTITIONED BY (region, date, id)",
        INSERT,
        "DELETE FROM lake.sales WHERE total = 80",
    ],
    "partitioned by less": ["ALTER TABLE lake.sales SET PARTITIONED BY (region)", INSERT, *DELETES],
}

Rows = dict[int, Counter[Any]]
"""The rows of the partition by snapshot."""

AT = "SELECT * FROM lake.sales AT (VERSION => {}) WHERE region = 'NW'"


# Inlined rows, delete files and their flush in one case; the others are more of the same.
FEW = [("inlined and flushed", "append")]
MORE = [("merge and deletes", "append"), ("partitioned by more", "replace"), ("rename and update", "append")]
# The files of a replaced partition are as those of an addition; what differs is that earlier ones have ended.
OF_REPLACE = ("merge", "deletes", "inlined", "truncate", "rename and update")
OF_APPEND = [client for client in CLIENTS if client != "expiry"]  # of which the oracle has no earlier snapshots
MANY = [*((client, "append") for client in OF_APPEND), *((client, "replace") for client in OF_REPLACE)]
RARE = [(client, mode) for client in ("deletes", "flushed deletes") for mode in ("index", "encrypted")]
CHANGED = pytest.mark.parametrize(
    ("client", "mode"), [*FEW, *more(MORE), *soak(case for case in [*MANY, *RARE] if case not in FEW + MORE)]
)
BESIDE_FEW = [("inlined and flushed", "append"), ("update", "append"), ("truncate", "replace")]
OF_BESIDE = ("merge", "deletes and rewrite", "inlined and flushed", "expiry", "update", "deletes", "truncate")
BESIDE_ALL = [(client, mode) for client in OF_BESIDE for mode in ("append", "replace")]
BESIDE = pytest.mark.parametrize(
    ("client", "mode"),
    [BESIDE_FEW[0], *more(BESIDE_FEW[1:]), *soak(case for case in BESIDE_ALL if case not in BESIDE_FEW)],
)
LANDED = [1, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5, 6]  # the totals of all objects of the partition


@pytest.fixture
def changed(client: str, mode: str, local_world: World) -> World:
    """Three commits of a partition and one of another, and then what a client does."""
    if mode == "encrypted":
        local_world.lake_options = {"attach_options": {"encrypted": True}}
    local_world.options = {"mode": "append" if mode == "encrypted" else mode}
    begin(local_world)
    run(local_world, *CLIENTS[client])
    return local_world


def begin(world: World) -> None:
    world.land(SW, sales(7))
    world.ingest(SW)
    for number in (1, 2, 3):
        world.land(NW, sales(*range(1, 2 * number + 1)), f"{number}.parquet")
        world.ingest(NW)


def run(world: World, *statements: str) -> None:
    with plain_client(world.config.lakes["test"], read_only=False) as client:
        for statement in statements:
            client.execute(statement)


def snapshots(world: World) -> Rows:
    """The rows of the partition in each snapshot that has the table."""
    with world.reader() as client:
        numbers = client.execute("SELECT snapshot_id FROM ducklake_snapshots('lake') ORDER BY 1").fetchall()
        found = {}
        for (number,) in numbers:
            tables = client.execute(
                "SELECT count(*) FROM __ducklake_metadata_lake.ducklake_table "
                f"WHERE table_name = 'sales' AND begin_snapshot <= {number}"
            ).fetchall()
            if tables != [(0,)]:
                found[number] = Counter(client.execute(AT.format(number)).fetchall())
        return found


@pytest.mark.more
@CHANGED
def test_commands_that_read_say_what_the_snapshots_have_and_compaction_keeps_the_rows(changed: World) -> None:
    rows = snapshots(changed)
    history_has_each_change(changed, rows)
    diff_is_what_differs(changed, rows)
    result = check(changed, "ledger")
    assert (result.passed, result.numbers["expired"]) == (True, 0), result
    assert check(changed, "data_files").passed
    states = {state.partition: state.rows for state in read_stream_state(changed.stream).partitions}
    assert states[changed.partition(NW)] == rows[max(rows)].total()

    with changed.stream.lake.open() as lake:
        promised = [candidate.partition for candidate in compactable(changed.stream, lake, 2)]
    done = compact(changed.stream, 2, changed.sessions)

    assert [(result.partition, result.why) for result in done] == [(partition, None) for partition in promised]
    after = snapshots(changed)
    assert after[max(after)] == rows[max(rows)]
    with changed.stream.lake.open() as lake:
        assert compactable(changed.stream, lake, 2) == []
    assert check(changed, "ledger").passed


def history_has_each_change(changed: World, rows: Rows) -> None:
    changes = [n for n in rows if n > min(rows) and rows[n] != rows.get(n - 1, Counter())]

    for partition in (changed.partition(NW), None):
        entries = [e for e in history(changed.stream, partition) if e.partition == changed.partition(NW).path]
        entries = [e for e in entries if e.snapshot in rows or e.kept is not None]  # others have expired
        assert {entry.snapshot: entry.rows for entry in entries} == {
            e.snapshot: rows[e.snapshot].total() for e in entries
        }
        assert {e.snapshot: e.rows_before for e in entries if e.snapshot in changes} == {
            n: rows.get(n - 1, Counter()).total() for n in changes
        }


def test_history_counts_inlined_rows_that_a_replacement_ended_before_their_flush(local_world: World) -> None:
    local_world.commit(NW, 1, 2)
    rows = "(SELECT unnest([10, 11, 12]) AS id, 0.5 AS total, 'NW' AS region, DATE '2026-02-11' AS date)"
    # Of the table alone: a run sets its own limit.
    inline = "CALL lake.set_option('data_inlining_row_limit', 10, table_name => 'sales')"
    run(local_world, inline, f"INSERT INTO lake.sales BY NAME {rows}", "DELETE FROM lake.sales WHERE id = 11")
    local_world.commit(NW, 1, 2, 3)
    run(local_world, FLUSH)

    history_has_each_change(local_world, snapshots(local_world))


def diff_is_what_differs(changed: World, rows: Rows) -> None:
    for first in rows:
        for second in [n for n in rows if n > first and n in (first + 1, max(rows)) and (rows[n] or rows[first])]:
            found = diff(changed.stream, changed.partition(NW), DiffOptions(first, second))
            assert (found.inserted, found.deleted) == (
                (rows[second] - rows[first]).total(),
                (rows[first] - rows[second]).total(),
            )


@CHANGED
def test_restore_is_unchanged_only_where_the_rows_are_and_brings_them_back(changed: World) -> None:
    rows = snapshots(changed)
    newest = max(rows)
    if changed.stream.config.mode == "index":
        with pytest.raises(PartitionError, match="so it has no rows of its own to restore"):
            Restoration(changed.stream, changed.partition(NW), newest - 1).dry_run()
        return
    for number in sorted(rows, reverse=True):
        if not rows[number]:
            continue
        dry = Restoration(changed.stream, changed.partition(NW), number).dry_run()
        assert dry.rows == rows[number].total()
        assert dry.rows_before == rows[newest].total()
        if dry.is_unchanged:
            assert rows[number] == rows[newest]
    for number in [n for n in rows if rows[n] and rows[n] != rows[newest]][:2]:
        restored = Restoration(changed.stream, changed.partition(NW), number).run()
        assert restored.row is not None
        assert restored.row.rows_before == rows[newest].total()
        after = snapshots(changed)
        newest = max(after)
        assert after[newest] == rows[number]
        assert Restoration(changed.stream, changed.partition(NW), newest).dry_run().is_unchanged
        assert check(changed, "ledger").passed
        rows[newest] = after[newest]


@pytest.mark.more
@BESIDE
def test_a_hold_ends_beside_other_clients(client: str, mode: str, local_world: World) -> None:
    local_world.options = {"mode": mode}
    begin(local_world)
    partition = local_world.partition(NW)
    first = min(entry.snapshot for entry in history(local_world.stream, partition) if entry.rows == 2)
    Restoration(local_world.stream, partition, first, hold=True).run()
    run(local_world, *CLIENTS[client])
    rows = local_world.totals(NW)
    assert [state.partition for state in read_stream_state(local_world.stream).in_state("held")] == [partition]
    assert local_world.ingest(NW).row.status == "skipped"

    row = release(local_world.stream, partition)

    assert (row.row_count, row.rows_before, local_world.totals(NW)) == (len(rows), len(rows), rows)
    assert read_stream_state(local_world.stream).in_state("held") == []
    next_object_is_read(local_world, rows)


@pytest.mark.more
@BESIDE
def test_an_object_leaves_quarantine_beside_other_clients(client: str, mode: str, local_world: World) -> None:
    local_world.options = {"mode": mode, "on_bad_object": "quarantine"}
    begin(local_world)
    local_world.land(NW, b"damaged", "4.parquet")
    local_world.ingest(NW)
    assert not check(local_world, "quarantine").passed
    run(local_world, *CLIENTS[client])
    rows = local_world.totals(NW)
    assert not check(local_world, "quarantine").passed
    assert local_world.ingest(NW).row.status == "skipped"

    next_object_is_read(local_world, rows)

    assert read_stream_state(local_world.stream).quarantined == {}
    assert check(local_world, "quarantine").passed
    assert check(local_world, "data_files").passed


def next_object_is_read(world: World, rows: list[float]) -> None:
    """The fourth object of the partition comes beside the rows there, or replaces them with all that has landed."""
    world.land(NW, sales(9), "4.parquet")
    row = world.ingest(NW).row

    appends = world.stream.config.mode == "append"
    assert world.totals(NW) == sorted([*(rows if appends else LANDED), 9])
    assert (row.rows_before, row.rows_after) == (len(rows), len(world.totals(NW)))
    history_has_each_change(world, snapshots(world))
    assert check(world, "ledger").passed
    assert check(world, "landing_zone").passed


@pytest.mark.more
def test_a_renamed_column_is_compared_with_itself(local_world: World) -> None:
    begin(local_world)
    first = max(snapshots(local_world))
    run(local_world, *CLIENTS["rename and update"])

    found = diff(local_world.stream, local_world.partition(NW), DiffOptions(first))

    assert (found.inserted, found.deleted) == (2, 2)
    assert list(found.table) == ["column total was renamed to amount"]
    assert [column.name for column in found.columns] == ["amount"]


def test_an_expired_snapshot_is_not_restored_from_one_with_other_rows(local_world: World) -> None:
    local_world.options = {"on_empty": "clear"}
    local_world.land(NW, sales(1, 2))
    first = local_world.ingest(NW).row.snapshot_id
    local_world.unland(NW)
    emptied = local_world.ingest(NW).row.snapshot_id
    run(local_world, f"CALL ducklake_expire_snapshots('lake', versions => [{first}])", EXPIRE[1])
    local_world.land(NW, sales(1, 2, 3))
    local_world.ingest(NW)

    entries = history(local_world.stream, local_world.partition(NW))
    assert {entry.snapshot: (entry.rows, entry.kept) for entry in entries if entry.snapshot in (first, emptied)} == {
        first: (2, None),
        emptied: (0, emptied),
    }
    result = check(local_world, "ledger")
    assert (result.passed, result.numbers["expired"]) == (True, 1)


@pytest.mark.parametrize("inlined", [DELETES[0], *more([INSERT])])
def test_the_rows_before_an_addition_are_those_of_the_lake(inlined: str, local_world: World) -> None:
    local_world.options = {"mode": "append"}
    begin(local_world)
    run(local_world, INLINE, inlined)
    rows = len(local_world.totals(NW))
    local_world.land(NW, sales(5), "4.parquet")

    row = local_world.ingest(NW).row

    assert row.rows_before == rows
    assert row.rows_after == len(local_world.totals(NW)) == rows + 1
    assert check(local_world, "ledger").passed
