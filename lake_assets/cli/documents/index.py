"""The documents of `index`: of a run, and of `--dry-run`, `--check` and `--repair`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lake_assets.cli.documents.base import Documented
from lake_assets.cli.documents.ingest import Failure, IngestedPartition
from lake_assets.cli.documents.plan import LeftOutCounts, PlannedObject
from lake_assets.cli.documents.report import ReportFolder

if TYPE_CHECKING:
    from lake_assets.ingest.index.diff import IndexPlan
    from lake_assets.ingest.index.verify import IndexedState, Repaired
    from lake_assets.ingest.partition_run import Outcome
    from lake_assets.streams.stream import OpenStream


@dataclass(frozen=True, slots=True)
class IndexOutside(Documented):
    """A partition outside the config with new objects, which are not registered."""

    partition: str
    """As a path, such as `region=NW/date=2026-02-11`."""
    new: int
    """The number of its new objects."""
    why: str
    """Why the config does not have it."""


@dataclass(frozen=True, slots=True)
class IndexIgnored(Documented):
    """What is not registered. Objects are looked for if no partitions are selected."""

    objects_in_no_partition: int
    """The number of landed objects that are in no partition."""
    left_out: LeftOutCounts
    """All landed objects that nothing registers."""
    folders: list[ReportFolder]
    """Where they are."""
    outside: list[IndexOutside]
    """Partitions outside the config, unless `--outside` is given."""

    @classmethod
    def of(cls, plan: "IndexPlan | None") -> "IndexIgnored":
        """What a plan leaves out; nothing without a plan."""
        from lake_assets.ingest.index.diff import IndexPlan  # noqa: PLC0415 - `--help` stays quick

        plan = plan or IndexPlan(())
        outside = [IndexOutside(str(o.partition), o.new, str(o.why)) for o in plan.outside]
        return cls(
            len(plan.left_out.unmatched), LeftOutCounts.of(plan.left_out), ReportFolder.list_of(plan.left_out), outside
        )


@dataclass(frozen=True, slots=True)
class IndexRunDocument(Documented):
    """What a run registered. It is printed after an interrupt too, with the partitions that have ended by then."""

    action: Literal["index"]
    """Tells this document from those of `--dry-run`, `--check` and `--repair`."""
    stream: str
    """Its name."""
    table: str
    """With its schema, such as `main.sales`."""
    run: str
    """The run's id, as in the ledger."""
    committed: int
    """The number of partitions with newly registered files."""
    failed: int
    """The number of partitions with objects that were not registered."""
    files: int
    """The number of registered files."""
    rows: int
    """Their rows."""
    partitions: list[IngestedPartition]
    """Those that were selected, or have new or changed objects."""
    ignored: IndexIgnored
    """What was not registered."""
    error: Failure | None
    """What ended the run before all partitions had ended."""

    @classmethod
    def of(
        cls,
        stream: "OpenStream",
        run: str,
        outcomes: "Sequence[Outcome]",
        plan: "IndexPlan | None",
        error: BaseException | None,
    ) -> "IndexRunDocument":
        """The document of a run.

        Args:
            stream: its stream.
            run: its id.
            outcomes: of the partitions that have ended.
            plan: of the run; None if partitions were selected.
            error: what ended the run; None if nothing did.
        """
        partitions = [IngestedPartition.of(outcome) for outcome in outcomes if outcome.result or outcome.error]
        return cls(
            action="index",
            stream=stream.name,
            table=str(stream.table),
            run=run,
            committed=sum(partition.snapshot is not None for partition in partitions),
            failed=sum(partition.error is not None for partition in partitions),
            files=sum(partition.files or 0 for partition in partitions),
            rows=sum(partition.rows or 0 for partition in partitions),
            partitions=partitions,
            ignored=IndexIgnored.of(plan),
            error=None if error is None else Failure.of(error),
        )


@dataclass(frozen=True, slots=True)
class IndexPlanPartition(Documented):
    """What an index would do with one partition now."""

    partition: str
    """As a path, such as `region=NW/date=2026-02-11`."""
    objects: int
    """The number of landed objects."""
    new: list[PlannedObject]
    """Those that would be registered."""
    changed: list[PlannedObject]
    """Those that have changed since they were registered."""


@dataclass(frozen=True, slots=True)
class IndexPlanDocument(Documented):
    """What an index would register now, by `--dry-run`."""

    action: Literal["dry_run"]
    """Tells this document from the others."""
    stream: str
    """Its name."""
    table: str
    """With its schema, such as `main.sales`."""
    partitions: list[IndexPlanPartition]
    """Those that were selected, or have landed."""
    ignored: IndexIgnored
    """What would not be registered."""

    @classmethod
    def of(cls, stream: "OpenStream", plan: "IndexPlan") -> "IndexPlanDocument":
        """The document of a plan."""
        partitions = [
            IndexPlanPartition(
                str(part.partition),
                len(part.landed.objects),
                PlannedObject.list_of(part.new),
                PlannedObject.list_of(part.changed),
            )
            for part in plan.partitions
        ]
        return cls("dry_run", stream.name, str(stream.table), partitions, IndexIgnored.of(plan))


@dataclass(frozen=True, slots=True)
class VanishedObject(Documented):
    """A registered object that has vanished from the landing zone."""

    partition: str
    """As a path, such as `region=NW/date=2026-02-11`."""
    uri: str
    """Its path or URI."""


@dataclass(frozen=True, slots=True)
class ChangedObject(Documented):
    """A registered object that was replaced by another one of the same name."""

    partition: str
    """As a path, such as `region=NW/date=2026-02-11`."""
    uri: str
    """Its path or URI."""
    repairable: bool
    """Whether `--repair` updates the lake to the object that is there now."""
    error: Failure
    """What is wrong, and the fix."""


@dataclass(frozen=True, slots=True)
class IndexCheckDocument(Documented):
    """The registered objects compared with the landing zone, by `--check`."""

    action: Literal["check"]
    """Tells this document from the others."""
    stream: str
    """Its name."""
    table: str
    """With its schema, such as `main.sales`."""
    registered: int
    """The number of registered objects."""
    vanished: list[VanishedObject]
    """Those that have vanished."""
    changed: list[ChangedObject]
    """Those that have changed."""

    @classmethod
    def of(cls, stream: "OpenStream", state: "IndexedState") -> "IndexCheckDocument":
        """The document of a comparison."""
        vanished = [VanishedObject(obj.load_partition, obj.uri) for obj in state.vanished]
        changed = [
            ChangedObject(str(obj.partition), obj.now.uri, obj.is_live, Failure.of(obj.error(stream.name)))
            for obj in state.changed
        ]
        return cls("check", stream.name, str(stream.table), state.registered, vanished, changed)


@dataclass(frozen=True, slots=True)
class RepairedPartition(Documented):
    """A partition that was updated to the objects that are there now."""

    partition: str
    """As a path, such as `region=NW/date=2026-02-11`."""
    rows_before: int
    """Its rows before."""
    rows_updated: int
    """The rows of its changed files now."""
    snapshot: int | None
    """The number of the commit's snapshot."""


@dataclass(frozen=True, slots=True)
class IndexRepairDocument(Documented):
    """What `--repair` did."""

    action: Literal["repair"]
    """Tells this document from the others."""
    stream: str
    """Its name."""
    table: str
    """With its schema, such as `main.sales`."""
    partitions: list[RepairedPartition]
    """Those that were updated."""
    files_removed: int
    """The number of files that were removed from the table."""
    files_updated: int
    """The number of changed files that were described again."""
    errors: list[Failure]
    """Of the objects that could not be repaired."""

    @classmethod
    def of(cls, stream: "OpenStream", repaired: "Repaired") -> "IndexRepairDocument":
        """The document of a repair."""
        partitions = [
            RepairedPartition(
                row.load_partition, row.rows_before or 0, repaired.updated[row.load_partition], row.snapshot_id
            )
            for row in repaired.rows
        ]
        errors = list(map(Failure.of, repaired.errors))
        return cls("repair", stream.name, str(stream.table), partitions, repaired.ended, repaired.renewed, errors)
