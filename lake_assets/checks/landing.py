"""Checks of the landing zone against the ledger."""

from collections.abc import Mapping, Sequence

from lake_assets.checks.result import NAMED, CheckResult, Scope
from lake_assets.ingest.index.verify import IndexedState, check_indexed
from lake_assets.lake.ledger.last_runs import last_runs
from lake_assets.layout.partition import Partition
from lake_assets.report.state import PartitionState, partition_state, read_state
from lake_assets.streams.calendar import Calendar
from lake_assets.streams.landing_zone import UnmatchedObject, list_landed_in, unmatched_folders
from lake_assets.streams.stream import OpenStream

FEW = 4  # that are named of the partitions outside the config, and of the folders of no partition


def landing_zone(stream: OpenStream, scope: Scope) -> CheckResult:
    """Whether nothing in the landing zone is newer than what the ledger says was ingested.

    Raises:
        LakeAssetsError: the landing zone or the lake cannot be read.
    """
    states, unmatched = _states(stream, scope)
    waiting = [f"{one.partition}: {one.state}" for one in states if one.is_waiting or one.partition in scope.failed]
    outside = [f"{one.partition}: {one.outside}" for one in states if one.is_left_out][:FEW]
    folders = [str(folder) for folder in unmatched_folders(unmatched)][:FEW]
    left_out = sum(one.is_left_out for one in states)
    # Where the partitions are named, one outside the config counts as others do, if the lake has it.
    inside = len(states) - left_out if scope.tried is not None else sum(one.state != "outside" for one in states)
    told = [
        f"{len(waiting):,} of {inside:,} partitions have objects that are not in the lake; refresh these."
        if waiting
        else f"All that has landed in {inside:,} partitions is in the lake."
    ]
    if left_out:
        told.append(f"{left_out:,} partitions outside the config have objects that no refresh takes in.")
    if unmatched:
        told.append(f"{len(unmatched):,} objects lie in no partition.")
    return CheckResult(
        "landing_zone",
        not (waiting or left_out or unmatched),
        " ".join(told),
        "warn",
        {"partitions": inside, "waiting": len(waiting)}
        | ({"outside": left_out, "objects_in_no_partition": len(unmatched)} if scope.tried is None else {}),
        # Some of each kind, or a hundred partitions with new objects would hide the others.
        [*waiting[: NAMED - len(outside) - len(folders)], *outside, *folders],
    )


def landing_zone_by_partition(stream: OpenStream, scope: Scope) -> Mapping[Partition, CheckResult]:
    """The same for each partition by itself. One that the run tried and did not commit does not pass.

    Raises:
        LakeAssetsError: the landing zone or the lake cannot be read.
    """
    return {
        one.partition: _of_partition(one, is_failed=one.partition in scope.failed) for one in _states(stream, scope)[0]
    }


def _of_partition(one: PartitionState, *, is_failed: bool) -> CheckResult:
    found = "All that has landed in the partition is in the lake."
    if is_failed:
        found = "The run did not take the partition into the lake; refresh it."
    elif one.is_waiting:
        found = f"The partition is {one.state}: it has objects that are not in the lake; refresh it."
    elif one.is_left_out:
        found = f"The partition has objects that no refresh takes in: {one.outside}"
    passed = not (is_failed or one.is_waiting or one.is_left_out)
    numbers = {"objects": one.objects, "bytes": one.size}
    return CheckResult("landing_zone", passed, found, "warn", numbers, [one.error] if one.error and not passed else ())


def _states(stream: OpenStream, scope: Scope) -> tuple[list[PartitionState], Sequence[UnmatchedObject]]:
    """The partitions of the scope, and the objects that lie in none where it is the whole landing zone."""
    if scope.tried is None:
        state = read_state(stream)
        return [one for one in state.partitions if one.state != "absent"], state.unmatched
    with stream.lake.open_if_exists() as lake:
        runs = {} if lake is None else last_runs(lake, stream.table)
    calendar = Calendar(stream.config)
    return [
        partition_state(stream, partition, manifest, runs.get(partition.path), calendar)
        for partition, manifest in list_landed_in(stream, scope.tried).items()
    ], ()


def indexed_objects(stream: OpenStream, scope: Scope) -> CheckResult:
    """Whether the landed objects that are the lake's files in place are still there, and still the same.

    Raises:
        LakeAssetsError: the landing zone or the lake cannot be read.
    """
    return _of_indexed(stream, check_indexed(stream, scope.tried))


def indexed_objects_by_partition(stream: OpenStream, scope: Scope) -> Mapping[Partition, CheckResult]:
    """The same for each partition by itself; without a run, for each that is not sound.

    Raises:
        LakeAssetsError: the landing zone or the lake cannot be read.
    """
    state = check_indexed(stream, scope.tried)
    partitions = state.unsound(stream.config.columns) if scope.tried is None else scope.tried
    return {partition: _of_indexed(stream, state.of(partition)) for partition in partitions}


def _of_indexed(stream: OpenStream, state: IndexedState) -> CheckResult:
    wrong = [f"{o.uri} has vanished" for o in state.vanished] + [f"{o.now.uri} has changed" for o in state.changed]
    return CheckResult(
        "indexed_objects",
        state.is_sound,
        f"{len(wrong):,} registered objects are no longer what they were; "
        f"`lake-assets index {stream.name} --repair` makes the lake what is there."
        if wrong
        else f"{state.registered:,} registered objects are what they were.",
        numbers={"registered": state.registered, "vanished": len(state.vanished), "changed": len(state.changed)},
        named=wrong[:NAMED],
    )
