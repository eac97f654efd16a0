"""Checks of the landing zone against the ledger.

Every check raises LakeAssetsError if the landing zone or the lake cannot be read.
"""

from collections.abc import Mapping, Sequence

from lake_assets.checks.result import NAMED, CheckResult, Scope
from lake_assets.ingest.index.verify import IndexedState, check_indexed
from lake_assets.lake.ledger.last_runs import last_runs
from lake_assets.layout.partition import Partition
from lake_assets.report.state import PartitionState, partition_state, read_state
from lake_assets.streams.calendar import Calendar
from lake_assets.streams.landing_zone import UnmatchedObject, list_landed_in, unmatched_folders
from lake_assets.streams.stream import OpenStream

FEW = 4  # partitions outside the config, and folders of no partition, that a result names at most


def landing_zone(stream: OpenStream, scope: Scope) -> CheckResult:
    """Whether all objects in the landing zone were ingested by the ledger."""
    states, unmatched = _states(stream, scope)
    pending = [f"{s.partition}: {s.state}" for s in states if s.is_waiting or s.partition in scope.failed]
    outside = [f"{s.partition}: {s.outside}" for s in states if s.is_left_out][:FEW]
    folders = [str(folder) for folder in unmatched_folders(unmatched)][:FEW]
    left_out = sum(s.is_left_out for s in states)
    # In a run, a partition outside the config counts too, if the lake has it.
    inside = len(states) - left_out if scope.tried is not None else sum(s.state != "outside" for s in states)
    sentences = [
        f"{len(pending):,} of {inside:,} partitions have objects that are not in the lake; refresh these."
        if pending
        else f"All landed objects of {inside:,} partitions are in the lake."
    ]
    if left_out:
        sentences.append(f"{left_out:,} partitions outside the config have objects that no refresh reads.")
    if unmatched:
        sentences.append(f"{len(unmatched):,} objects lie in no partition.")
    return CheckResult(
        "landing_zone",
        not (pending or left_out or unmatched),
        " ".join(sentences),
        "warn",
        {"partitions": inside, "waiting": len(pending)}
        | ({"outside": left_out, "objects_in_no_partition": len(unmatched)} if scope.tried is None else {}),
        # Some of each kind, so that many pending partitions do not hide the others.
        [*pending[: NAMED - len(outside) - len(folders)], *outside, *folders],
    )


def landing_zone_by_partition(stream: OpenStream, scope: Scope) -> Mapping[Partition, CheckResult]:
    """The check of each partition. A partition that the run did not commit fails."""
    return {
        state.partition: _of_partition(state, is_failed=state.partition in scope.failed)
        for state in _states(stream, scope)[0]
    }


def _of_partition(state: PartitionState, *, is_failed: bool) -> CheckResult:
    description = "All landed objects of the partition are in the lake."
    if is_failed:
        description = "The run did not commit the partition; refresh it."
    elif state.is_waiting:
        description = f"The partition is {state.state}: it has objects that are not in the lake; refresh it."
    elif state.is_left_out:
        description = f"The partition has objects that no refresh reads: {state.outside}"
    passed = not (is_failed or state.is_waiting or state.is_left_out)
    numbers = {"objects": state.objects, "bytes": state.size}
    errors = [state.error] if state.error and not passed else ()
    return CheckResult("landing_zone", passed, description, "warn", numbers, errors)


def _states(stream: OpenStream, scope: Scope) -> tuple[list[PartitionState], Sequence[UnmatchedObject]]:
    """The partitions of the scope, and for the whole landing zone the unmatched objects."""
    if scope.tried is None:
        state = read_state(stream)
        return [partition for partition in state.partitions if partition.state != "absent"], state.unmatched
    with stream.lake.open_if_exists() as lake:
        runs = {} if lake is None else last_runs(lake, stream.table)
    calendar = Calendar(stream.config)
    return [
        partition_state(stream, partition, manifest, runs.get(partition.path), calendar)
        for partition, manifest in list_landed_in(stream, scope.tried).items()
    ], ()


def indexed_objects(stream: OpenStream, scope: Scope) -> CheckResult:
    """Whether the registered landed objects still exist and are unchanged."""
    return _of_indexed(stream, check_indexed(stream, scope.tried))


def indexed_objects_by_partition(stream: OpenStream, scope: Scope) -> Mapping[Partition, CheckResult]:
    """The check of each partition of a run; without a run, of each partition that fails."""
    state = check_indexed(stream, scope.tried)
    partitions = state.unsound(stream.config.columns) if scope.tried is None else scope.tried
    return {partition: _of_indexed(stream, state.of(partition)) for partition in partitions}


def _of_indexed(stream: OpenStream, state: IndexedState) -> CheckResult:
    findings = [f"{vanished.uri} has vanished" for vanished in state.vanished]
    findings += [f"{changed.now.uri} has changed" for changed in state.changed]
    return CheckResult.of_findings(
        "indexed_objects",
        findings,
        failure=f"{len(findings):,} registered objects have changed or vanished; "
        f"`lake-assets index {stream.name} --repair` updates the lake.",
        success=f"{state.registered:,} registered objects are unchanged.",
        numbers={"registered": state.registered, "vanished": len(state.vanished), "changed": len(state.changed)},
    )
