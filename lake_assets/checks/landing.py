"""Checks of the landing zone against the ledger."""

from collections.abc import Mapping

from lake_assets.checks.result import NAMED, CheckResult, Scope
from lake_assets.errors import NoLakeError
from lake_assets.index_check import IndexedState, check_indexed
from lake_assets.lake.history import last_runs
from lake_assets.landed import list_landed_in
from lake_assets.partition import Partition
from lake_assets.report.state import PartitionState, partition_state, read_state
from lake_assets.stream import OpenStream


def landing_zone(stream: OpenStream, scope: Scope) -> CheckResult:
    """Whether nothing in the landing zone is newer than what the ledger says was ingested.

    Raises:
        LakeAssetsError: the landing zone or the lake cannot be read.
    """
    states = _states(stream, scope)
    waiting = [f"{one.partition}: {one.state}" for one in states if one.is_waiting or one.partition in scope.failed]
    return CheckResult(
        "landing_zone",
        not waiting,
        f"{len(waiting):,} of {len(states):,} partitions have objects that are not in the lake; refresh these."
        if waiting
        else f"All that has landed in {len(states):,} partitions is in the lake.",
        "warn",
        {"partitions": len(states), "waiting": len(waiting)},
        waiting[:NAMED],
    )


def landing_zone_by_partition(stream: OpenStream, scope: Scope) -> Mapping[Partition, CheckResult]:
    """The same for each partition by itself. One that the run tried and did not commit does not pass, whatever landed.

    Raises:
        LakeAssetsError: the landing zone or the lake cannot be read.
    """
    return {
        one.partition: _of_partition(one, is_failed=one.partition in scope.failed) for one in _states(stream, scope)
    }


def _of_partition(one: PartitionState, *, is_failed: bool) -> CheckResult:
    found = "All that has landed in the partition is in the lake."
    if is_failed:
        found = "The run did not take the partition into the lake; refresh it."
    elif one.is_waiting:
        found = f"The partition is {one.state}: it has objects that are not in the lake; refresh it."
    passed = not (is_failed or one.is_waiting)
    numbers = {"objects": one.objects, "bytes": one.size}
    return CheckResult("landing_zone", passed, found, "warn", numbers, [one.error] if one.error and not passed else ())


def _states(stream: OpenStream, scope: Scope) -> list[PartitionState]:
    if scope.tried is None:
        return [one for one in read_state(stream).partitions if one.state != "absent"]
    try:
        with stream.lake.open(read_only=True) as lake:
            runs = last_runs(lake, stream.table)
    except NoLakeError:
        runs = {}
    return [
        partition_state(stream, partition, manifest, runs.get(partition.path))
        for partition, manifest in list_landed_in(stream, scope.tried).items()
    ]


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
