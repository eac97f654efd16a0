"""The plan of partitions: what becomes of each, by its landed objects and by what the lake has of it.

A run executes it, and a dry run shows it. Nothing is written, and no footer is read.

The partitions of a key in streams that are released together become visible in one snapshot, or none does. An unchanged
one does not hold the others back. One that failed does, and so does one in which nothing has landed, unless the
stream's `on_empty` says what that means.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, Self

from pydantic import WithJsonSchema

from lake_assets.base.duckdb_engine import identifier
from lake_assets.base.errors import (
    CatalogError,
    EmptySourceError,
    HeldBackError,
    LakeAssetsError,
    PartitionError,
    PlanMovedError,
    SourceError,
)
from lake_assets.base.json_dataclasses import AsText, Documented, NotInJson, in_json
from lake_assets.base.texts import count, several
from lake_assets.config.layout.partition import Partition
from lake_assets.config.modes import Mode, OnEmpty, SchemaPolicy
from lake_assets.ingest.compare_objects import Comparison, changed_objects, compare, needs_rows
from lake_assets.ingest.outcome import IngestOptions
from lake_assets.lake.catalog.past_partitions import partition_condition
from lake_assets.lake.catalog.table import renamed
from lake_assets.lake.commit.change import Planned
from lake_assets.lake.commit.extension import Statement
from lake_assets.lake.commit.strategy import StrategyName
from lake_assets.lake.ledger.ledger_relation import LedgerScope
from lake_assets.lake.ledger.read import Pace, commits, last_commits, last_runs, partitions_in_ledger
from lake_assets.lake.ledger.tables import LedgerRow, release_command
from lake_assets.lake.session import LakeSession, TableName
from lake_assets.storage.manifest import LandedObject, Manifest
from lake_assets.streams.calendar import Calendar
from lake_assets.streams.left_out import LeftOut, NotRegistered
from lake_assets.streams.select import UnknownPartitions
from lake_assets.streams.stream import OpenStream

Action = Literal["replace", "append", "register", "skip", "keep", "clear", "fail", "leave_out"]
"""What to do with a partition.

`replace`: read the objects and replace the partition. `append`: read the new objects and add their rows. `register`:
register new objects in place. `skip`: nothing has changed. `keep`, `clear`: the source has no rows, and the partition
stays or is emptied. `fail`: report an error. `leave_out`: nothing has landed, and the partition has neither a result
nor an error.
"""

_WORDS: dict[Action, str] = {
    "replace": "replace the partition",
    "keep": "keep the partition",
    "clear": "clear the partition",
    "leave_out": "leave the partition out",
}


JobKind = Literal["copy", "encode", "copy and encode", "transform", "register"]
"""What makes the data files: copies of objects, encoding of their rows, a transform, or nothing (in place)."""

READING_ACTIONS: frozenset[Action] = frozenset({"replace", "append", "register"})
IDLE: frozenset[Action] = frozenset({"skip", "leave_out"})


@dataclass(frozen=True, slots=True)
class Decision(Documented):
    """What to do with a partition, and why."""

    action: Action
    """What to do: read its objects (`replace`, `append`, `register`), empty it (`clear`), or nothing."""
    why: str = ""
    """The reason, a clause; empty if the action needs none."""
    is_recorded: Annotated[bool, NotInJson] = True  # in the ledger; an unknown one without objects is probably a typo
    note: str = ""
    """For a partition of which nothing has landed: the values that exist; for one with a changed object that fails it:
    how to fix it; otherwise empty."""
    on_empty: OnEmpty | None = None
    """The policy that decided, if the partition has no rows."""
    is_hold: bool = False
    """Whether a restore keeps refreshes off the partition."""
    failure: Annotated[str, NotInJson] = ""  # why the partition fails after new objects were registered, a clause
    errors: Annotated[tuple[LakeAssetsError, ...], NotInJson] = ()  # of a partition that fails

    @in_json
    def fails(self) -> str:
        """Why the partition fails; empty if it does not. With `register`, new objects are registered before."""
        return self.why if self.action == "fail" else self.failure

    def __str__(self) -> str:
        if self.action in ("register", "append"):
            return f"{self.action} {self.why}{f', then fail: {self.failure}' if self.failure else ''}"
        action = _WORDS.get(self.action, self.action)
        return f"{action}: {self.why}" if self.why else action


@dataclass(frozen=True, slots=True)
class PartitionPlan(Documented):
    """What becomes of one partition.

    `index --dry-run` shows only the decision and the objects. The rest, from `source_glob` on, is empty, 0 or null.
    """

    partition: Annotated[Partition, AsText]
    """As a path, such as `region=NW/date=2026-02-11`."""
    landed: Annotated[Manifest, NotInJson] = Manifest(())  # noqa: RUF009 - it is frozen
    decision: Decision = Decision("fail")
    """What to do, and why."""
    # Its last commit; None if it has none, or if the decision needs none
    last: Annotated[LedgerRow | None, NotInJson] = None
    # Its objects compared with the known ones; of nothing in a run of mode replace
    compared: Annotated[Comparison, NotInJson] = Comparison()  # noqa: RUF009 - it is frozen
    # The URIs of changed objects that are files of the table, in mode index
    live: Annotated[AbstractSet[str], NotInJson] = frozenset()
    table_exists: bool = False
    """Whether the lake has the table; false if the decision does not need that."""
    snapshot: Annotated[int, NotInJson] = 0  # the lake's newest one before it was looked into
    is_unchanged: Annotated[bool, NotInJson] = False
    rows: Annotated[int | None, NotInJson] = None  # that were read; None before the Spark job
    source_glob: str = ""
    """Path or URI of the landed objects, with wildcards."""
    fingerprint: str = ""
    """Of its landed objects, in hexadecimal digits."""
    reads: Annotated[Manifest, NotInJson] = Manifest(())  # noqa: RUF009 - it is frozen; all objects, or the new ones
    rows_before: int = 0
    """The partition's rows in the lake now."""
    rows_after: int | str | None = None
    """Its rows after the ingest; null if they stay as they are; a text says why the footers do not tell them."""
    job: JobKind | None = None
    """What makes the data files; null if nothing is read."""
    strategy: StrategyName | None = None
    """The strategy of the commit; null if there is none."""
    columns: tuple[str, ...] = ()
    """What the table's columns would become, or why objects do not fit, each in one clause."""
    files_written: int = 0
    """The number of data files, estimated from the objects' bytes and the cores of this machine."""
    files_copied: int = 0
    """Of them, those that are copies of objects, at most."""
    destination: str = ""
    """Path or URI of the folder of the data files; in mode index, of the objects."""
    statements: Annotated[tuple[Statement, ...], NotInJson] = ()  # the commit's, in the other strategies than direct
    letters: str | None = None
    """Path or URI of the folder of rows that do not fit; null if they fail the partition."""
    letters_now: int = 0
    """Rows of the partition that are there now."""
    deltas: str | None = None
    """Path or URI of the folder that the commit's changes are exported to; null if they are not."""

    @in_json
    def new(self) -> tuple[LandedObject, ...]:
        """Objects that no commit has read."""
        return self.compared.new.objects

    @in_json
    def changed(self) -> tuple[LandedObject, ...]:
        """Objects that have changed since a commit read them."""
        return self.compared.changed

    @in_json
    def vanished(self) -> tuple[str, ...]:
        """URIs of objects that the lake has rows of, and that are gone."""
        return tuple(sorted(obj.uri for obj in self.compared.vanished))

    @in_json
    def objects(self) -> int:
        """The number of objects that would be read."""
        return len(self.reads.objects)

    @in_json
    def bytes(self) -> int:
        """Their size in bytes."""
        return self.reads.size

    @property
    def action(self) -> str:
        """The decision and its reason, in one sentence."""
        return str(self.decision)

    @property
    def adds_rows(self) -> bool:
        """Whether the ingest reads or registers objects."""
        return self.decision.action in READING_ACTIONS

    @property
    def commits(self) -> bool:
        """Whether the ingest makes a commit."""
        return self.adds_rows or self.decision.action == "clear"

    @property
    def is_idle(self) -> bool:
        """Whether an ingest would change nothing."""
        return self.decision.action in IDLE

    @property
    def is_held(self) -> bool:
        """Whether a restore keeps refreshes off."""
        return self.last is not None and self.last.is_held

    @property
    def planned(self) -> Planned:
        """What the partition was made of."""
        return Planned(self.snapshot, None if self.last is None else self.last.source_fingerprint)

    @property
    def is_registered(self) -> bool:
        """Whether objects have landed, and all of them are known as they are."""
        return bool(self.landed.objects) and not self.new and not self.changed


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Documented):
    """What a run over partitions of a stream would do now."""

    stream: str
    """The stream's name."""
    lake: str
    """The name of its lake in the config."""
    table: str
    """With its schema, such as `main.sales`."""
    mode: Annotated[Mode, WithJsonSchema({"enum": [mode.value for mode in Mode], "type": "string"})]
    """Of the stream."""
    on_empty: OnEmpty
    """Of the stream."""
    schema_policy: SchemaPolicy
    """Of the stream."""
    joined: tuple[str, ...] = ()
    """Other tables of the lake that the transform reads."""
    force: bool = False
    """Whether unchanged partitions would be read too."""
    outside: bool = False
    """Whether partitions outside the config are accepted."""
    partitions: tuple[PartitionPlan, ...] = ()
    """In the order of the selection."""
    not_registered: tuple[NotRegistered, ...] = ()
    """Partitions outside the config, which `index` leaves alone unless `--outside` is given."""
    left_out: LeftOut = field(default_factory=LeftOut)
    """The landed objects that no refresh reads; none if only the folders of the selection were listed."""
    pace: Annotated[Pace | None, NotInJson] = None  # of the stream's last runs; None if there is none

    @classmethod
    def of(cls, stream: OpenStream, options: IngestOptions, partitions: Iterable[PartitionPlan], **others: Any) -> Self:  # noqa: ANN401 - other fields
        """Return the plan of a stream's partitions."""
        return cls(
            stream=stream.name,
            lake=stream.lake_name,
            table=str(stream.table),
            mode=stream.config.mode,
            on_empty=stream.config.on_empty,
            schema_policy=stream.config.schema_policy,
            joined=tuple(map(str, stream.joined().values())),
            force=options.force,
            outside=options.outside,
            partitions=tuple(partitions),
            **others,
        )

    @in_json
    def seconds(self) -> float | None:
        """The estimated time in seconds; null without earlier runs, or if nothing is read."""
        reads = [planned for planned in self.work if planned.adds_rows]
        if self.pace is None or not reads:
            return None
        return self.pace.seconds(len(reads), sum(planned.reads.size for planned in reads))

    @property
    def work(self) -> list[PartitionPlan]:
        """The partitions of which an ingest would change something."""
        return [planned for planned in self.partitions if not planned.is_idle]

    @property
    def fingerprints(self) -> dict[str, str]:
        """Of the landed objects of each partition of `work`, by its path, for `IngestOptions`."""
        return {planned.partition.path: planned.fingerprint for planned in self.work}

    @property
    def new(self) -> tuple[LandedObject, ...]:
        """All objects that no commit has read."""
        return tuple(obj for part in self.partitions for obj in part.new)


def _objects(number: int, kind: str) -> str:
    return count(number, f"{kind} object")


class Planner:
    """Plans the partitions of one run, by its options.

    For the first partition without rows it looks up in the ledger which of all partitions that are planned it knows.
    """

    def __init__(self, stream: OpenStream, options: IngestOptions) -> None:
        self._stream = stream
        self._force = options.force
        self._landed_only = options.landed_only
        self._planned = options.planned
        self._expected: list[str] = []
        self._known: dict[str, bool] = {}
        self._unknown: UnknownPartitions | None = None

    def plan(
        self,
        lake: LakeSession | None,
        landed: Mapping[Partition, Manifest],
        compared: Mapping[Partition, Comparison] | None = None,
        live: AbstractSet[str] = frozenset(),
    ) -> list[PartitionPlan]:
        """Decide what becomes of some partitions, which are looked up in the lake together.

        `compared` is needed in mode index; when None, those that have changed are compared in mode append, and none in
        mode replace. `live` is as of `PartitionPlan`.
        """
        stream, mode, comparisons = self._stream, self._stream.config.mode, compared or {}
        refused = {p: decision for p, m in landed.items() if (decision := self._refusal(p, m)) is not None}
        plans = [PartitionPlan(p, m, compared=comparisons.get(p, Comparison()), live=live) for p, m in landed.items()]
        # A partition of mode index whose objects are all registered needs no look into the lake.
        open_plans = [plan for plan in plans if plan.partition not in refused]
        wanted = [plan.partition for plan in open_plans if not mode.registers or not plan.is_registered]
        has_table = bool(wanted) and lake is not None and lake.exists(stream.table)
        if wanted:
            stream.refuse_missing(lake)
        # If the table was dropped, a partition is not skipped because of its earlier commits.
        last: Mapping[str, LedgerRow] = {}
        snapshot = 0
        if lake is not None and has_table:
            snapshot = lake.current_snapshot()
            last = last_commits(lake, stream.table, wanted, newest=mode.reads_new)
            refused |= self._decomposed_letters(lake, wanted)
        elif lake is not None and wanted and not self._force and (error := _renamed(lake, stream.table)) is not None:
            refused |= {plan.partition: _refused(error) for plan in open_plans if plan.landed.objects}
        plans = [replace(self._with_last(plan, last), table_exists=has_table, snapshot=snapshot) for plan in plans]
        if mode.reads_new and compared is None:
            open_plans = [plan for plan in plans if plan.partition not in refused]
            landed_plans = [plan for plan in open_plans if plan.landed.objects or plan.landed.folder]
            read = [plan for plan in landed_plans if self._force or not plan.is_unchanged]
            comparisons = compare(lake, stream, {plan.partition: plan.landed for plan in read})
            plans = [replace(plan, compared=comparisons.get(plan.partition, plan.compared)) for plan in plans]
        self._expected += [partition.path for partition in landed]
        return [replace(plan, decision=refused.get(plan.partition) or self.decide(plan, lake)) for plan in plans]

    def _refusal(self, partition: Partition, landed: Manifest) -> Decision | None:
        """Refuse objects that cannot be Parquet files, and those that are not the ones of the plan that is applied."""
        if not self._stream.config.mode.registers and (error := _no_file(self._stream, landed)) is not None:
            return _refused(error)
        if self._planned is None or self._stream.fingerprint(landed) == self._planned.get(partition.path):
            return None
        moved = PlanMovedError(
            f"the landing zone of partition {partition} has changed since the plan, or the stream's config has:",
            f"make a new plan: `lake-assets plan {self._stream.name}`.",
        )
        return replace(_refused(moved), is_recorded=False)

    def _decomposed_letters(self, lake: LakeSession, partitions: Sequence[Partition]) -> dict[Partition, Decision]:
        """Refuse partitions whose rows the lake has with decomposed letters, as earlier versions read folders."""
        earlier = {form: partition for partition in partitions for form in partition.forms[1:]}
        runs = last_runs(lake, self._stream.table, list(earlier)) if earlier else {}
        refused = {}
        for form, partition in earlier.items():
            if form.path in runs and runs[form.path].rows:
                names = ", ".join(
                    c.name for c, v, w in zip(form.columns, form.values, partition.values, strict=True) if v != w
                )
                refused[partition] = _refused(
                    PartitionError(
                        f"the lake has rows of partition {partition} with decomposed letters in {names}, as an earlier "
                        "version of lake-assets read its folders:",
                        f"set `exact: true` for {names} in `partitions`, by which the two forms remain two values.",
                    )
                )
        return refused

    def _with_last(self, plan: PartitionPlan, commits: Mapping[str, LedgerRow]) -> PartitionPlan:
        last = commits.get(plan.partition.path)
        is_unchanged = last is not None and self._stream.has_read(plan.landed, last.source_fingerprint)
        return replace(plan, last=last, is_unchanged=is_unchanged)

    def decide(self, plan: PartitionPlan, lake: LakeSession | None) -> Decision:
        """Decide what to do with a partition, also once its rows are read; `lake` is None if there is no lake yet."""
        mode = self._stream.config.mode
        if plan.is_held and not self._force and not (mode.registers and plan.is_registered):
            release = release_command(self._stream.name, plan.partition.option)
            return Decision("skip", f"held until {release}, and only --force replaces it", is_hold=True)
        if self._landed_only and plan.last is None and not plan.landed.objects:
            return Decision("leave_out", "nothing of it has landed")
        of_mode = {
            Mode.REPLACE: self._decision_of_replace,
            Mode.APPEND: self._decision_of_append,
            Mode.INDEX: self._decision_of_index,
        }
        return of_mode[mode](plan) or self._without_rows(plan, lake)

    def _decision_of_append(self, plan: PartitionPlan) -> Decision | None:
        if plan.is_unchanged and not self._force:
            return Decision("skip", "all of its objects have been read")
        if not plan.landed.objects and not plan.changed:
            gone = Decision("skip", "all of its objects have vanished, and their rows stay")
            return gone if plan.last is not None else None
        if plan.last is not None and plan.last.row_count and not plan.compared.noted and not self._force:
            return _refused(_unknown_objects(self._stream, plan))
        if self._force or (plan.changed and self._stream.config.on_changed == "refresh"):
            gives_up = self._force and not self._stream.config.empties_source
            if plan.compared.taken and not gives_up:
                return _refused(_taken_away(plan))
            why = "--force" if self._force else f"{_objects(len(plan.changed), 'changed')}, and on_changed is refresh"
            return self._reading(plan, Decision("replace", why)) if plan.rows != 0 else None
        if plan.changed:
            why = f"{_objects(len(plan.changed), 'changed')}, and on_changed is fail"
            return Decision("fail", why, errors=(plan.compared.refusal(plan.partition),))
        if not plan.new:
            but = f" but {_objects(len(plan.compared.quarantined), 'quarantined')}, which --force tries again"
            return Decision("skip", f"all of its objects have been read{but if plan.compared.quarantined else ''}")
        # Objects without rows are noted, so that no later run reads them; a partition without any is for `on_empty`.
        if plan.rows == 0 and not plan.compared.known:
            return None
        return self._reading(plan, Decision("append", _objects(len(plan.new), "new")))

    def _reading(self, plan: PartitionPlan, decision: Decision) -> Decision:
        """Return the decision to read objects, or to fail if none of them can be read and the partition needs rows."""
        adds_to = plan.compared if decision.action == "append" else None
        reads = plan.landed if adds_to is None else adds_to.new
        if plan.rows is not None or reads.read or not needs_rows(self._stream, adds_to):
            return decision
        error = _no_file(self._stream, Manifest(reads.objects))
        return decision if error is None else _refused(error)

    def _decision_of_index(self, plan: PartitionPlan) -> Decision | None:
        check = f"see `lake-assets index {self._stream.name} --check`"
        failure = f"{_objects(len(plan.changed), 'changed')}, {check}" if plan.changed else ""
        changed = changed_objects(self._stream, plan.partition, plan.compared, plan.live)
        errors = tuple(obj.error for obj in changed)
        if plan.new:
            return Decision("register", f"{_objects(len(plan.new), 'new')} in place", failure=failure, errors=errors)
        if plan.changed:
            return Decision("fail", f"nothing new; {failure}", errors=errors)
        return Decision("skip", "all objects are registered") if plan.landed.objects else None

    def _decision_of_replace(self, plan: PartitionPlan) -> Decision | None:
        if plan.is_unchanged and not self._force:
            return Decision("skip", "the objects are those of the last commit")
        return Decision("replace") if plan.landed.objects and plan.rows != 0 else None

    def _without_rows(self, plan: PartitionPlan, lake: LakeSession | None) -> Decision:
        """Apply the stream's `on_empty` to a partition without objects, or without rows in them."""
        config = self._stream.config
        if self._landed_only and config.selects_rows and not self._has_rows(plan, lake):
            if plan.landed.objects:
                return Decision("leave_out", "its objects have no rows of it", on_empty=config.on_empty)
            return Decision("leave_out", "nothing of it has landed")
        is_unknown = plan.last is None and not self._is_known(plan.partition.path, lake)
        is_typo = is_unknown and (not plan.landed.objects or (config.on_empty == "fail" and config.selects_rows))
        note = self._suggest(plan.partition, lake) if is_typo else ""
        source = "the source partition" if config.on_empty == "fail" else "its source"
        empty = f"{source} has no {'rows' if plan.landed.objects or plan.landed.folder else 'objects'}"
        action, why = self._action_on_empty(plan, is_typo=is_typo)
        errors = (_empty_source(self._stream, plan, note),) if action == "fail" else ()
        return Decision(action, f"{empty}, and {why}", not is_typo, note, config.on_empty, errors=errors)

    def _action_on_empty(self, plan: PartitionPlan, *, is_typo: bool) -> tuple[Action, str]:
        policy = self._stream.config.on_empty
        if policy == "fail":
            return "fail", "on_empty is fail"
        if policy == "keep" or self._stream.config.mode.registers:
            return "keep", f"on_empty is {policy}"
        if not plan.table_exists:
            return "skip", "there is no table to clear it from"
        return ("skip", "the ledger does not know it") if is_typo else ("clear", "on_empty is clear")

    def _is_known(self, path: str, lake: LakeSession | None) -> bool:
        """Return whether the ledger has a row of a partition."""
        if lake is None:
            return False
        if path not in self._known:
            paths, self._expected = [path, *self._expected], []
            known = partitions_in_ledger(lake, self._stream.table, paths)
            self._known = {path: path in known for path in paths} | self._known
        return self._known[path]

    def _suggest(self, partition: Partition, lake: LakeSession | None) -> str:
        if self._unknown is None:
            # A hint at a typo may read the partitions of the whole ledger.
            known: Iterable[str] = () if lake is None else partitions_in_ledger(lake, self._stream.table)
            self._unknown = UnknownPartitions(self._stream, known)
        return self._unknown.suggest(partition)

    def _has_rows(self, plan: PartitionPlan, lake: LakeSession | None) -> bool:
        if lake is None or not plan.table_exists:
            return False
        condition, parameters = partition_condition(plan.partition)
        table = self._stream.table.sql
        return bool(lake.rows(f"SELECT 1 FROM {table} WHERE {condition} LIMIT 1", parameters))  # noqa: S608


def edited_text(stream: OpenStream, partition: Partition, last: LedgerRow, rows: int) -> str:
    """Return how another client changed the rows since the last commit, and how to undo it: one clause."""
    of_partition = f"{stream.name} --partition {partition.option}"
    undo = f"`lake-assets ingest {of_partition} --force` does"
    if stream.config.mode.registers:  # a registered file is not registered again
        undo = "to undo it, delete all its rows with SQL, land its objects under other names, and ingest it"
    elif last.is_held:
        undo = f"`lake-assets restore {of_partition} --snapshot {last.snapshot} --hold` does"
    before = count(last.rows_after or 0, "row")
    return f"another client changed it from {before} to {rows:,}, and no refresh undoes that; {undo}"


def _renamed(lake: LakeSession, table: TableName) -> CatalogError | None:
    """Return the error of a table that runs have filled and another client has renamed; None if it was not renamed."""
    tables = renamed(lake, table)
    last = commits(lake, LedgerScope(table), newest=1) if tables else []
    if not last or last[0].snapshot >= tables[0][1]:  # a later table of the name was dropped
        return None
    (now, snapshot), *_ = tables
    return CatalogError(
        f"the table {table} was renamed to {now} in snapshot {snapshot}, and the ledger has commits of it:",
        f"rename it back, by ALTER TABLE {now} RENAME TO {identifier(table.table)}, or begin a new table {table} with "
        "--force.",
    )


def _unknown_objects(stream: OpenStream, plan: PartitionPlan) -> SourceError:
    return SourceError(
        f"{plan.partition} has rows of runs, and the manifest has no object of it for stream {stream.name} and table "
        f"{stream.table}, so the same rows would be added again:",
        f"write the stream's earlier name in streams.{stream.name}.previously, rename the table back, or use --force, "
        "which replaces the partition by its objects.",
    )


def _taken_away(plan: PartitionPlan) -> SourceError:
    taken = plan.compared.taken
    return SourceError(
        f"after_load has taken {_objects(len(taken), 'loaded')} of partition {plan.partition} out of the landing zone, "
        f"such as {taken[0].uri}, and to replace the partition would lose their rows:",
        "put them back, or land what is there now under new names. To give these rows up, set after_load: keep, and "
        "ingest the partition with --force.",
    )


def _refused(error: LakeAssetsError) -> Decision:
    return Decision("fail", str(error).rstrip("."), errors=(error,))


def _no_file(stream: OpenStream, landed: Manifest) -> SourceError | None:
    """Return the error of the first object that cannot be a file of the stream's format; None if there is none."""
    try:
        if stream.config.format.has_types:
            landed.refuse_empty()
    except SourceError as error:
        return error
    return None


def _empty_source(stream: OpenStream, plan: PartitionPlan, note: str) -> EmptySourceError:
    """Return the error for a partition without rows if `on_empty` is fail; the note has the values that exist."""
    partition = plan.partition
    if stream.config.mode.registers:
        missing, policies = "objects", "keep"
    else:
        values = zip(partition.columns, partition.values, strict=True)
        chosen = [f"{column.name}={column.shown(value)}" for column, value in values if column.in_rows]
        missing = f"rows{' of ' if chosen else ''}{', '.join(chosen)}"
        policies = "keep" if stream.config.mode.adds else "keep or clear"
    advice = f"{note} Correct the partition's name, " if note else "check that it has landed, "
    if plan.last is not None and plan.landed.folder:
        advice = "the lake has rows of it from objects that have changed since. Land its rows again, "
    return EmptySourceError(
        f"the source partition has no {missing}: {stream.source_glob(partition)}:",
        f"{advice}or set on_empty to {policies}.",
    )


def waiting_text(streams: Sequence[str]) -> str:
    """Return why a partition waits for streams in which nothing of it has landed, a clause."""
    return f"it waits for {several(streams)}, where nothing has landed"


def held_back(partition: Partition, stream: str, text: str) -> HeldBackError:
    """Return the error of a partition that another stream of its group holds back by an error with this text."""
    problem = f"{partition} is released together with {stream}, where it failed: {text.splitlines()[0].rstrip('.')}."
    return HeldBackError(problem, f"Correct that in {stream}, and run it again.")


def options_of_companion(stream: OpenStream, options: IngestOptions) -> IngestOptions:
    """Return the options of a stream that a run of another one takes along.

    A partition in which nothing has ever landed is waited for, unless the stream's `on_empty` decides on it.
    """
    return replace(options, planned=None, landed_only=options.landed_only or stream.config.on_empty == "fail")


def takes_part(stream: OpenStream, partition: Partition) -> bool:
    """Return whether a stream expects this partition of its group, by its config."""
    return Calendar(stream.config).outside(partition) is None
