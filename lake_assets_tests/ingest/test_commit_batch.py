"""`commit_batch`: partitions of a run are one snapshot, and what keeps one of them from it does not keep the others."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from pydantic import TypeAdapter, ValidationError

from dev.plain_client import plain_client
from lake_assets.base.errors import CatalogUnreachableError, SourceError, StorageError
from lake_assets.base.events import Event, listening
from lake_assets.config.fields import CommitBatch
from lake_assets.ingest.partition_run import PartitionRun
from lake_assets.ingest.replace.replace_run import GROUP_PARTITIONS
from lake_assets.lake.commit import strategy
from lake_assets.upkeep.history.history_entries import history
from lake_assets.upkeep.history.restore import Restoration, release
from lake_assets_tests.faults.lake_invariants import assert_sound
from lake_assets_tests.ingest.batches import BATCH, TEXTS, filled, ingest_texts, land_all, snapshots
from lake_assets_tests.ingest.overtaking import before
from lake_assets_tests.ingest.test_in_rows import LATER, MIXED, both_in_rows, put, rows
from lake_assets_tests.world import NW, SW, World, sales

__all__ = ["filled"]

FIRST, *OTHERS = TEXTS


def test_a_batch_is_one_snapshot_and_each_partition_is_whole(world: World) -> None:
    world.options = {"commit_batch": 4}
    land_all(world, 10)
    first = ingest_texts(world)
    land_all(world, 20)
    second = ingest_texts(world)

    for outcomes in (first, second):
        found = snapshots(outcomes)
        assert len(found) == len(TEXTS)
        assert sorted(list(found.values()).count(snapshot) for snapshot in set(found.values())) == [2, 4]
    rows = {text: outcome.row for text, outcome in second.items()}
    assert {(row.rows_before, row.row_count, row.files_written) for row in rows.values()} == {(2, 2, 1)}
    assert {row.load_partition: row.snapshot_id for row in world.ledger()[: len(TEXTS)]} == {
        row.load_partition: row.snapshot_id for row in rows.values()
    }
    for number, text in enumerate(TEXTS):
        assert world.totals(text) == [20 + number, 20.5 + number]
    assert_sound(world)
    assert {outcome.status for outcome in ingest_texts(world).values()} == {"skipped"}


def test_history_and_restore_see_each_partition_of_a_batch(filled: World) -> None:
    ingest_texts(filled)
    partition = filled.partition(FIRST)
    newest, oldest = history(filled.stream, partition)

    assert (newest.rows_before, newest.rows, oldest.rows_before, oldest.rows) == (2, 2, 0, 2)
    assert [entry.snapshot for entry in history(filled.stream)][:12] == [newest.snapshot] * 6 + [oldest.snapshot] * 6

    Restoration(filled.stream, partition, oldest.snapshot).run()

    assert filled.totals(FIRST) == [10, 10.5]
    assert filled.totals(OTHERS[0]) == [21, 21.5]


@pytest.mark.more
def test_a_partition_whose_objects_change_is_read_again_and_the_others_are_one_snapshot(
    filled: World,
) -> None:
    with before("verify", lambda _: filled.land(FIRST, sales(5))):
        found = snapshots(ingest_texts(filled))

    assert filled.totals(FIRST) == [5]
    assert len({found[text] for text in OTHERS}) == 1
    assert found[FIRST] > found[OTHERS[0]]
    assert_sound(filled)


@pytest.mark.more
def test_a_partition_that_is_held_meanwhile_keeps_its_rows_and_the_others_are_committed(
    filled: World,
) -> None:
    oldest = history(filled.stream, filled.partition(FIRST))[-1].snapshot
    other = replace(filled, _opened=None)
    with before("commit", lambda _: Restoration(other.stream, other.partition(FIRST), oldest, hold=True).run()):
        outcomes = ingest_texts(filled)

    assert (outcomes[FIRST].row.status, outcomes[FIRST].row.hold) == ("skipped", "held")
    assert filled.totals(FIRST) == [10, 10.5]
    assert len(snapshots(outcomes)) == len(OTHERS)
    assert filled.totals(OTHERS[0]) == [21, 21.5]


@pytest.mark.more
def test_a_partition_that_was_released_is_part_of_its_batch_and_an_emptied_one_is_cleared(filled: World) -> None:
    """The names of its files still say that it may be held, so the commit reads the ledger."""
    filled.options = BATCH | {"on_empty": "clear"}
    filled.unland(OTHERS[0])
    partition = filled.partition(FIRST)
    Restoration(filled.stream, partition, history(filled.stream, partition)[-1].snapshot, hold=True).run()
    release(filled.stream, partition)

    found = snapshots(ingest_texts(filled))

    assert len(found) == len(TEXTS)
    assert {found[text] for text in TEXTS if text != OTHERS[0]} == {max(found.values())}
    assert filled.totals(FIRST) == [20, 20.5]
    assert filled.totals(OTHERS[0]) == []
    assert_sound(filled)


@pytest.mark.more
@pytest.mark.parametrize("overtaken", [True, False])
def test_additions_of_a_batch_are_one_snapshot_without_what_another_run_added_meanwhile(
    local_world: World, overtaken: bool
) -> None:
    local_world.options = BATCH | {"mode": "append"}
    land_all(local_world, 10)
    ingest_texts(local_world)
    land_all(local_world, 20, "batch_2.parquet")
    other = replace(local_world, _opened=None)
    with before("commit", lambda _: other.ingest(FIRST)) if overtaken else nullcontext():
        outcomes = ingest_texts(local_world)

    assert {outcome.error for outcome in outcomes.values()} == {None}
    if not overtaken:
        assert len(set(snapshots(outcomes).values())) == 1
        assert {outcome.row.rows_before for outcome in outcomes.values()} == {2}
    for number, text in enumerate(TEXTS):
        assert local_world.totals(text) == [10 + number, 10.5 + number, 20 + number, 20.5 + number]
    assert_sound(local_world)


def remove_the_file(filled: World) -> Callable[[Sequence[PartitionRun]], None]:
    """As maintenance with a short `orphans_older_than` does it in a slow run."""
    partition = filled.partition(FIRST)
    return lambda runs: Path(next(run for run in runs if run.partition == partition).written.files[0].uri).unlink()


@pytest.mark.parametrize("error", [SourceError, StorageError])
def test_a_partition_that_fails_keeps_no_other_from_its_commit(filled: World, error: type[Exception]) -> None:
    """It has a bad object, or its file is gone when it is committed."""
    if error is SourceError:
        filled.land(FIRST, b"no Parquet")

    with before("commit", remove_the_file(filled)) if error is StorageError else nullcontext():
        outcomes = ingest_texts(filled)

    assert isinstance(outcomes[FIRST].error, error)
    assert filled.totals(FIRST) == [10, 10.5]
    assert len(snapshots(outcomes)) == len(OTHERS)
    if error is SourceError:  # which is known before the commit; without the file, each is committed by itself
        assert len(set(snapshots(outcomes).values())) == 1
    assert [row.status for row in filled.ledger(FIRST)] == ["failed", "committed"]


@pytest.mark.more
def test_a_partition_of_which_rows_were_deleted_is_committed_by_itself_and_the_others_too(filled: World) -> None:
    with plain_client(filled.config.lakes["test"], read_only=False) as client:
        client.execute("DELETE FROM lake.sales WHERE total = 10")

    outcomes = ingest_texts(filled)

    rows_before = {text: outcome.row.rows_before for text, outcome in outcomes.items()}
    assert rows_before == dict.fromkeys(TEXTS, 2) | {FIRST: 1}
    for number, text in enumerate(TEXTS):
        assert filled.totals(text) == [20 + number, 20.5 + number]


@pytest.mark.more
def test_transformed_partitions_and_their_dead_letters_are_one_snapshot(local_world: World) -> None:
    sql = "SELECT id, total * 2 AS total FROM source"
    local_world.options = BATCH | {"on_bad_row": "dead_letter", "transform": {"sql": sql}}
    for number, text in enumerate(TEXTS):
        region = text.split(",")[0].removeprefix("region=")
        local_world.land(text, sales(number, 100).append_column("region", [[region, "elsewhere"]]))

    found = snapshots(ingest_texts(local_world))

    noted = local_world.query("SELECT load_partition, snapshot_id, rows FROM lake.ingest_dead_letters ORDER BY ALL")
    assert noted == sorted((text.replace(",", "/"), snapshot, 1) for text, snapshot in found.items())
    assert len(found) == len(TEXTS)
    assert len(set(found.values())) == 1
    assert local_world.totals() == [2 * number for number in range(len(TEXTS))]


def test_partitions_of_shared_objects_are_one_snapshot_with_their_own_rows(local_world: World) -> None:
    local_world.options = BATCH | both_in_rows()
    shared = put(local_world, "a.parquet", rows(*(row for row in MIXED if row[0])))
    alone = put(local_world, "b.parquet", rows(("SW", "2026-02-11", 16.0)))

    outcomes = ingest_texts(local_world, [NW, SW, LATER])

    (snapshot,) = set(snapshots(outcomes).values())
    counts = {text: outcome.row.row_count for text, outcome in outcomes.items()}
    assert counts == {NW: 1, SW: 2, LATER: 1}
    assert [local_world.totals(text) for text in (NW, SW, LATER)] == [[1], [2, 16], [8]]
    read = local_world.query("SELECT load_partition, uri FROM lake.ingest_files ORDER BY ALL")
    holding = [(NW, shared), (SW, shared), (SW, alone), (LATER, shared)]  # by the statistics of the objects
    assert read == sorted((local_world.partition(text).path, uri) for text, uri in holding)
    assert {row.snapshot_id for row in local_world.ledger()} == {snapshot}
    assert_sound(local_world)


def test_an_error_that_all_partitions_would_have_ends_the_run(filled: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the commit was made is unknown then, so that no file is removed."""
    filled.options = {"commit_batch": 2}
    files = filled.data_files()

    error = CatalogUnreachableError("the server is away:", "try again.")
    monkeypatch.setattr(strategy, "STRATEGIES", (Mock(side_effect=error),))
    outcomes = ingest_texts(filled)

    assert {str(outcome.error) for outcome in outcomes.values()} == {"the server is away: try again."}
    assert len(filled.data_files() - files) == 2  # those of the batch; the others were removed
    assert filled.totals(FIRST) == [10, 10.5]


def test_a_batch_is_at_most_the_partitions_of_a_job() -> None:
    batch: TypeAdapter[CommitBatch] = TypeAdapter(CommitBatch)

    assert batch.validate_python(200) == 200 <= GROUP_PARTITIONS
    with pytest.raises(ValidationError, match="less than or equal to 200"):
        batch.validate_python(201)


def test_each_partition_of_a_batch_has_one_event_of_its_commit(filled: World) -> None:
    seen: list[Event] = []
    with listening(seen.append):
        outcomes = ingest_texts(filled)

    commits = [event for event in seen if event.event == "step" and event.step == "commit"]
    paths = {filled.partition(text).path for text in TEXTS}
    assert len(commits) == len(TEXTS)
    assert {event.partition for event in commits} == paths
    assert {(event.status, event.snapshot) for event in commits} == {("committed", *set(snapshots(outcomes).values()))}
    reported = [event.partition for event in seen if event.event == "partition" and event.status == "committed"]
    assert set(reported) == paths
    last = max(seen.index(event) for event in commits)
    assert all(seen.index(event) > last for event in seen if event.event == "partition")
