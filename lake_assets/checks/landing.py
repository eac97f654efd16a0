"""Checks of the landing zone against the ledger."""

from lake_assets.checks.result import NAMED, CheckResult, Scope
from lake_assets.errors import NoLakeError
from lake_assets.index_check import check_indexed
from lake_assets.lake.history import last_runs
from lake_assets.landed import list_landed_in
from lake_assets.report.state import PartitionState, partition_state, read_state
from lake_assets.stream import OpenStream


def landing_zone(stream: OpenStream, scope: Scope) -> CheckResult:
    """Whether nothing in the landing zone is newer than what the ledger says was ingested.

    Raises:
        LakeAssetsError: the landing zone or the lake cannot be read.
    """
    states = _states(stream, scope)
    waiting = [f"{one.partition}: {one.state}" for one in states if one.is_waiting]
    return CheckResult(
        "landing_zone",
        not waiting,
        f"{len(waiting):,} partitions have objects that are not in the lake yet; a refresh takes them in."
        if waiting
        else f"All that has landed in {len(states):,} partitions is in the lake.",
        "warn",
        {"partitions": len(states), "waiting": len(waiting)},
        waiting[:NAMED],
    )


def _states(stream: OpenStream, scope: Scope) -> list[PartitionState]:
    if scope.partitions is None:
        return [one for one in read_state(stream).partitions if one.state != "absent"]
    try:
        with stream.lake.open(read_only=True) as lake:
            runs = last_runs(lake, stream.table)
    except NoLakeError:
        runs = {}
    return [
        partition_state(stream, partition, manifest, runs.get(partition.path))
        for partition, manifest in list_landed_in(stream, scope.partitions).items()
    ]


def indexed_objects(stream: OpenStream, scope: Scope) -> CheckResult:
    """Whether the landed objects that are the lake's files in place are still there, and still the same.

    Raises:
        LakeAssetsError: the landing zone or the lake cannot be read.
    """
    state = check_indexed(stream, scope.partitions)
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
