"""Checks of the landing zone against the ledger, and of what runs have left out: bad objects and rows."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TypeVar

from lake_assets.base.texts import count
from lake_assets.config.layout.partition import Partition
from lake_assets.ingest.compare_objects import Comparison, compare_partition, read_noted
from lake_assets.ingest.index.index_run import objects_of_lake, registered_uris
from lake_assets.ingest.index.verify import IndexedState, compare_indexed
from lake_assets.lake.ledger.tables import LedgerRow
from lake_assets.spark.task.job import LetterFile
from lake_assets.storage.manifest import Manifest
from lake_assets.streams.calendar import Calendar
from lake_assets.streams.left_out import LeftOut
from lake_assets.streams.stream import OpenStream
from lake_assets.upkeep.checks.facts import NAMED, CheckResult, Facts, PreparedCheck, Scope, state_of_all
from lake_assets.upkeep.report.state import PartitionState, held_text, partition_state

OfPartition = TypeVar("OfPartition")

FEW = 4  # partitions outside the config, and folders of no partition, that a result names at most


def last_run(facts: Facts) -> PreparedCheck:
    """The last run of every partition succeeded."""
    failed = dict(facts.scope.failed)
    if facts.scope.run_id is None:
        calendar = Calendar(facts.stream.config)
        of_ledger = {p: runs.newest for p, runs in facts.runs.items() if runs.status == "failed"}
        failed = {p: not_committed(row) for p, row in of_ledger.items() if calendar.outside(p) is None}
    tried = facts.scope.tried
    checked = len(facts.runs if tried is None else tried)
    succeeded = f"The last run of {count(checked, 'partition')} succeeded."
    whole = CheckResult.of_findings(
        "last_run",
        [f"{partition}: {error}" for partition, error in failed.items()],
        failure=f"{len(failed):,} of {count(checked, 'partition')} failed in the last run. Their earlier rows stay.",
        success=succeeded if checked else "No partition has been refreshed.",
        numbers={"partitions": checked, "failed": len(failed)},
    )
    passed = CheckResult("last_run", True, "The last run of the partition succeeded.")
    by_partition = {p: last_run_failed(facts.stream, p, error) for p, error in failed.items()}
    return PreparedCheck(lambda: whole, lambda: dict.fromkeys(tried or (), passed) | by_partition)


def last_run_failed(stream: OpenStream, partition: Partition, error: str) -> CheckResult:
    """Return the result of `last_run` for a partition that its last run did not commit, with the reason.

    Its text has objects by their names in the partition's folder, and `named` by their URIs.
    """
    short = re.sub(rf"\bthe object {re.escape(stream.source.root)}/(?:{re.escape(partition.path)}/)?", "", error)
    return CheckResult("last_run", False, f"{partition}: {short}", named=() if short == error else (error,))


def not_committed(row: LedgerRow) -> str:
    """Return why a run did not commit a partition, without the name of the error's class."""
    if row.status == "cancelled":
        return "the run was cancelled before the commit. Refresh it again."
    return _without_class(row.error) or "the ledger has no error of its last run. Refresh it again."


def landing_zone_check(facts: Facts) -> PreparedCheck:
    """Every landed file is in the lake."""
    _ = facts.runs, facts.left_out
    scope = facts.scope

    @cache
    def states() -> tuple[Sequence[PartitionState], LeftOut | None]:
        landed, left_out = _states(facts)
        quarantined = facts.still_landed()
        return [replace(s, quarantined=quarantined.get(s.partition, {})) for s in landed], left_out

    return PreparedCheck(
        lambda: _result_of_states(scope, *states()), lambda: {s.partition: _result_of_partition(s) for s in states()[0]}
    )


def _result_of_states(scope: Scope, states: Sequence[PartitionState], listed: LeftOut | None) -> CheckResult:
    listed = listed or LeftOut()
    unmatched = len(listed.unmatched)
    waiting = [s for s in states if s.is_waiting]
    pending = [f"{s.partition}: {_without_class(s.error) or s.state}" for s in waiting]
    held = [f"{s.partition}: held by {s.holder}" for s in states if s.holder is not None]
    quarantined = sum(len(s.quarantined) for s in states)
    outside = [f"{s.partition}: {s.outside}" for s in states if s.is_left_out][:FEW]
    folders = [str(folder) for folder in listed.unmatched_folders][:FEW]
    left_out = sum(s.is_left_out for s in states)
    # In a run, a partition outside the config counts too, if the lake has it.
    inside = len(states) - left_out if scope.tried is not None else sum(s.state != "outside" for s in states)
    sentences = []
    if pending:
        sentences = [f"Objects of {len(pending):,} of {count(inside, 'partition')} are not in the lake."]
        sentences.append(_what_to_do(waiting))
    elif inside > len(held) or not held:
        refreshed = count(inside - len(held), "partition")
        sentences = [f"All landed objects of {refreshed} are in the lake{_but(quarantined)}."]
    if pending and quarantined:
        sentences.append(f"{count(quarantined, 'object')} {'is' if quarantined == 1 else 'are'} quarantined.")
    if held:
        are, them = ("is", "it") if len(held) == 1 else ("are", "them")
        sentences.append(f"{count(len(held), 'partition')} {are} held, so no refresh changes {them}.")
    if left_out:
        sentences.append(f"No refresh reads the objects of {count(left_out, 'partition')} outside the config.")
    if unmatched:
        sentences.append(f"The landing zone has {count(unmatched, 'object')} in no partition.")
    if listed.counts["not_data"]:
        sentences.append(f"Of {count(listed.listed, 'object')}, {listed.counts['not_data']:,} are not data files.")
    return CheckResult(
        "landing_zone",
        not (pending or left_out or unmatched),
        " ".join(sentences),
        {"partitions": inside, "waiting": len(pending)}
        | ({"held": len(held)} if held else {})
        | ({"quarantined": quarantined} if quarantined else {})
        | ({"outside": left_out, "objects_in_no_partition": unmatched} if scope.tried is None else {})
        | {f"objects_{name}": n for name, n in listed.counts.items() if n},
        # Some of each kind, so that many pending partitions do not hide the others.
        [*pending[: NAMED - len(outside) - len(folders) - len(held[:FEW])], *outside, *folders, *held[:FEW]],
    )


def _what_to_do(waiting: Sequence[PartitionState]) -> str:
    failed = sum(s.is_failed_by_objects for s in waiting)
    if not failed:
        return "Refresh these."
    others = "" if failed == len(waiting) else " Refresh the others."
    return f"The last run of {count(failed, 'partition')} failed: correct what its error names.{others}"


def _without_class(error: str | None) -> str:
    """Return the text of an error in the ledger."""
    return re.sub(r"^\w+: ", "", error or "")


def _but(quarantined: int) -> str:
    if not quarantined:
        return ""
    return f" but {count(quarantined, 'object')} that {'is' if quarantined == 1 else 'are'} quarantined"


def _result_of_partition(state: PartitionState) -> CheckResult:
    description = f"All landed objects of the partition are in the lake{_but(len(state.quarantined))}."
    if state.holder is not None:
        description = f"No refresh changes the partition: {held_text(state)}."
    elif state.is_waiting and state.is_failed_by_objects:
        description = (
            f"{state.partition}: it has objects that are not in the lake, as its last run failed: "
            f"{_without_class(state.error)}"
        )
    elif state.is_waiting:
        description = f"{state.partition}: it is {state.state}, with objects that are not in the lake. Refresh it."
    elif state.is_left_out:
        description = f"{state.partition}: it has objects that no refresh reads: {state.outside}"
    passed = not (state.is_waiting or state.is_left_out)
    numbers = {"objects": state.objects, "bytes": state.size}
    errors = [state.error] if state.error and not passed else ()
    return CheckResult("landing_zone", passed, description, numbers, errors)


def _states(facts: Facts) -> tuple[Sequence[PartitionState], LeftOut | None]:
    """Return the partitions of the scope, and for the whole landing zone what no refresh reads."""
    tried = facts.scope.tried
    if tried is None:
        state = state_of_all(facts)
        return [partition for partition in state.partitions if partition.state != "absent"], state.left_out
    states = _states_of(facts, tried)
    # The ingest listed these before its commit, and another run may have committed a partition since.
    if facts.landed.list_again(s.partition for s in states if s.is_waiting or s.is_left_out):
        states = _states_of(facts, tried)
    return states, None


def _states_of(facts: Facts, partitions: Sequence[Partition]) -> list[PartitionState]:
    calendar, scan = Calendar(facts.stream.config), facts.scan(facts.landed.of(partitions))
    return [partition_state(scan, partition, calendar) for partition in scan.listed]


def indexed_objects(facts: Facts) -> PreparedCheck:
    """Every registered file still exists and is unchanged."""
    stream, tried = facts.stream, facts.scope.tried
    known = objects_of_lake(facts.lake, stream, tried)
    if not known:
        live = set()
    elif tried is not None and facts.past().is_read and not facts.past().elsewhere:
        live = {file.uri for files in facts.past().files.values() for file in files}
    else:
        live = registered_uris(facts.lake, stream)
    runs = facts.runs if tried is None else {}

    @cache
    def indexed() -> IndexedState:
        if not known:
            return IndexedState()
        # Listed after the lake was read, so that objects which another process registers meanwhile are listed too.
        if tried is None:
            return compare_indexed(stream, facts.landed.all(runs)[0], known, live)
        state = compare_indexed(stream, facts.landed.of(tried), known, live)
        if facts.landed.list_again(state.inconsistent(stream.config.partition_columns)):
            state = compare_indexed(stream, facts.landed.of(tried), known, live)
        return state

    def by_partition() -> Mapping[Partition, CheckResult]:
        state = indexed()
        partitions = state.inconsistent(stream.config.partition_columns) if tried is None else tried
        return {partition: _result_of_indexed(stream, state.of(partition)) for partition in partitions}

    return PreparedCheck(lambda: _result_of_indexed(stream, indexed()), by_partition)


def _result_of_indexed(stream: OpenStream, state: IndexedState) -> CheckResult:
    findings = [f"{vanished.uri} has vanished" for vanished in state.vanished]
    findings += [f"{changed.now.uri} has changed" for changed in state.changed]
    return CheckResult.of_findings(
        "indexed_objects",
        findings,
        failure=f"{count(len(findings), 'registered object')} changed or vanished. "
        f"`lake-assets index {stream.name} --repair` updates the lake.",
        success=f"{count(state.registered, 'registered object')} unchanged.",
        numbers={"registered": state.registered, "vanished": len(state.vanished), "changed": len(state.changed)},
    )


def appended_objects(facts: Facts) -> PreparedCheck:
    """Every file whose rows were appended still exists and is unchanged."""
    stream, tried = facts.stream, facts.scope.tried
    noted = read_noted(facts.lake, stream, tried)
    runs = facts.runs if tried is None else {}
    partitions = stream.config.by_partition(noted)

    @cache
    def comparisons() -> Mapping[Partition, Comparison]:
        # Listed after the lake was read, so that objects which another process appends meanwhile are listed too.
        landed = facts.landed.all(runs)[0] if tried is None else facts.landed.of(partitions)
        nothing = Manifest(())
        result = {}
        for partition, known in partitions.items():
            compared = compare_partition(stream, known, landed.get(partition, nothing), quarantines=True)
            # Those that were taken away have not vanished by a mistake.
            vanished = tuple(obj for obj in compared.vanished if obj not in compared.taken)
            result[partition] = replace(compared, vanished=vanished)
        return result

    return PreparedCheck(
        lambda: _result_of_appended(comparisons()),
        lambda: _results_by_partition(facts, comparisons(), _result_of_appended),
    )


def _results_by_partition(
    facts: Facts,
    parts: Mapping[Partition, OfPartition],
    result: Callable[[Mapping[Partition, OfPartition]], CheckResult],
) -> Mapping[Partition, CheckResult]:
    """Return a result for each partition of a run; of the whole table, for each partition with findings."""
    tried = facts.scope.tried
    return {p: result({p: parts[p]} if p in parts else {}) for p in (parts if tried is None else tried)}


def _result_of_appended(comparisons: Mapping[Partition, Comparison]) -> CheckResult:
    changed = [f"{obj.uri} has changed" for comparison in comparisons.values() for obj in comparison.changed]
    vanished = [f"{obj.uri} has vanished" for comparison in comparisons.values() for obj in comparison.vanished]
    known = sum(len(comparison.known) for comparison in comparisons.values())
    findings = [*changed, *vanished]
    return CheckResult(
        "appended_objects",
        not findings,
        f"{count(len(changed), 'appended object')} changed, {len(vanished):,} vanished. The lake still has the rows "
        "that were read from them."
        if findings
        else f"{count(known, 'appended object')} unchanged.",
        {"appended": known, "vanished": len(vanished), "changed": len(changed)},
        findings[:NAMED],
    )


def dead_letters_check(facts: Facts) -> PreparedCheck:
    """No landed row is a dead letter."""
    letters = facts.dead_letters
    return PreparedCheck(
        lambda: _result_of_letters(letters), lambda: _results_by_partition(facts, letters, _result_of_letters)
    )


def _result_of_letters(letters: Mapping[Partition, Sequence[LetterFile]]) -> CheckResult:
    files = [letter for of_partition in letters.values() for letter in of_partition]
    rows = sum(letter.rows for letter in files)
    partitions = sum(bool(of_partition) for of_partition in letters.values())
    are = "is" if rows == 1 else "are"
    return CheckResult(
        "dead_letters",
        not files,
        f"{count(rows, 'landed row')} {are} not in the lake. Correct and land them again, or remove them."
        if files
        else "No landed row is a dead letter.",
        {"rows": rows, "partitions": partitions},
        list(map(str, files[:NAMED])),
    )


def quarantine(facts: Facts) -> PreparedCheck:
    """No landed file is quarantined."""
    _ = facts.left_out, facts.runs
    return PreparedCheck(
        lambda: _result_of_left_out(facts.still_landed()),
        lambda: _results_by_partition(facts, facts.still_landed(), _result_of_left_out),
    )


def _result_of_left_out(left_out: Mapping[Partition, Mapping[str, str]]) -> CheckResult:
    reasons = [reason for of_partition in left_out.values() for reason in of_partition.values()]
    are = "is" if len(reasons) == 1 else "are"
    partitions = sum(bool(of_partition) for of_partition in left_out.values())
    return CheckResult(
        "quarantine",
        not reasons,
        f"{count(len(reasons), 'landed object')} {are} quarantined. Land them again, or remove them."
        if reasons
        else "No landed object is quarantined.",
        {"objects": len(reasons), "partitions": partitions},
        reasons[:NAMED],
    )
