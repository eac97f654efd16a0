"""The plan of several partitions: what an ingest would read and change, by which job and commit, and how long."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import pyarrow as pa

from lake_assets.errors import LakeAssetsError, SchemaDriftError
from lake_assets.ingest.decide import Action, Decider, Decision
from lake_assets.ingest.dry_run import InLake, Plan, landed_in, plan_in
from lake_assets.ingest.index.register import Registrar
from lake_assets.ingest.landed_footers import MOST, Footers
from lake_assets.lake.commit.exporter import refuse_earlier_exports
from lake_assets.lake.commit.strategy import StrategyName, foreseen_strategies
from lake_assets.lake.ledger.object_history import KnownObject, partition_objects
from lake_assets.lake.ledger.pace import Pace, pace
from lake_assets.lake.ledger.tables import DELTAS, manifest_table
from lake_assets.lake.schema.evolve import column_changes, evolved
from lake_assets.lake.schema.tables import data_schema
from lake_assets.lake.session import LakeSession
from lake_assets.layout.partition import Partition
from lake_assets.layout.texts import count
from lake_assets.parquet.schema_fit import Fitter
from lake_assets.progress import counted
from lake_assets.storage.manifest import LandedObject
from lake_assets.streams.stream import OpenStream

Job = Literal["copy", "encode", "copy and encode", "transform", "register"]
"""What makes the data files: copies of objects, encoding of their rows, a transform, or nothing (in place)."""

IDLE: frozenset[Action] = frozenset({"skip", "leave_out"})


@dataclass(frozen=True, slots=True)
class PlannedPartition:
    """What an ingest would do with one partition.

    Attributes:
        plan: the decision, the objects to read, rows and files.
        new: landed objects that no commit has read.
        changed: landed objects that have changed since a commit read them.
        vanished: URIs of objects that the lake has rows of, and that are gone.
        job: what makes the data files; None if nothing is read.
        strategy: of the commit; None if there is none.
        columns: what the table would get, or why objects do not fit, each in one clause.
    """

    plan: Plan
    new: tuple[LandedObject, ...] = ()
    changed: tuple[LandedObject, ...] = ()
    vanished: tuple[str, ...] = ()
    job: Job | None = None
    strategy: StrategyName | None = None
    columns: tuple[str, ...] = ()

    @property
    def partition(self) -> Partition:
        """Which one."""
        return self.plan.partition

    @property
    def is_idle(self) -> bool:
        """Whether an ingest would change nothing."""
        return self.plan.decision.action in IDLE


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """What an ingest of several partitions would do now.

    Attributes:
        stream: its name.
        table: the destination.
        partitions: in the given order.
        force: whether unchanged partitions would be read too.
        pace: of the stream's last runs; None if there is none.
    """

    stream: str
    table: str
    partitions: tuple[PlannedPartition, ...]
    force: bool = False
    pace: Pace | None = None

    @property
    def work(self) -> list[PlannedPartition]:
        """The partitions of which an ingest would change something."""
        return [planned for planned in self.partitions if not planned.is_idle]

    @property
    def fingerprints(self) -> dict[Partition, str]:
        """Of the landed objects of each partition of `work`, for `ingest_all`."""
        return {planned.partition: planned.plan.fingerprint for planned in self.work}

    @property
    def seconds(self) -> float | None:
        """How long the run would take, by the stream's last runs; None if there is none, or nothing to do."""
        reads = [planned for planned in self.work if planned.plan.adds_rows]
        if self.pace is None or not reads:
            return None
        return self.pace.seconds(len(reads), sum(planned.plan.reads.size for planned in reads))


def plan_stream(
    stream: OpenStream,
    partitions: Iterable[Partition],
    *,
    force: bool = False,
) -> StreamPlan:
    """What an ingest of partitions would do now. Nothing is written, and no Spark session is started.

    Args:
        stream: of the partitions.
        partitions: each once.
        force: as of `ingest_all`.

    Raises:
        LakeAssetsError: the landing zone or the lake cannot be read, or the ingest would be refused as a whole.
    """
    landed = landed_in(stream, list(partitions))
    decider = Decider(stream, force=force)
    decider.expect(part.partition for part in landed)
    planned = []
    with stream.lake.open_if_exists() as lake:
        there = InLake.of(lake, stream, [part.partition for part in landed])
        parts = counted(landed, f"plan {stream.name}", "partitions", len(landed))
        plans = [plan_in(stream, part, decider, there) for part in parts]
        footers = Footers(stream, [plan.reads for plan in plans if plan.adds_rows])
        columns = _Columns.of(lake, stream, footers, plans)
        refusals = {plan.partition: columns.refusals(plan) for plan in plans}
        plans = [_judged(plan.with_rows(footers), refusals[plan.partition]) for plan in plans]
        known = _known(lake, stream, [part.partition for part in landed])
        is_index = stream.config.mode == "index"
        adds = {p.partition: is_index or p.decision.action == "append" for p in plans if _commits(p)}
        strategies = foreseen_strategies(stream.lake_config, lake, stream.table, adds)
        if lake is not None and stream.export is not None and lake.exists(DELTAS.name(lake.config)):
            begun = [plan for plan in plans if _commits(plan) and (adds[plan.partition] or not plan.rows_before)]
            if begun:
                refuse_earlier_exports(lake, stream.name, stream.table)
        for plan in plans:
            new, changed, vanished = _compare(plan, known.get(plan.partition.path, {}))
            planned.append(
                PlannedPartition(
                    plan,
                    new,
                    changed,
                    vanished,
                    _job(stream, plan),
                    strategies.get(plan.partition),
                    (refusals[plan.partition] if is_index else ()) or columns.changes(plan),
                )
            )
        found = None if lake is None else pace(lake, stream.name, stream.config.mode)
    return StreamPlan(stream.name, str(stream.table), tuple(planned), force, found)


def plan(stream: OpenStream, partition: Partition, *, force: bool = False) -> Plan:
    """What an ingest of one partition would do now; as `plan_stream`."""
    (planned,) = plan_stream(stream, [partition], force=force).partitions
    return planned.plan


def _commits(plan: Plan) -> bool:
    return plan.adds_rows or plan.decision.action == "clear"


def _known(
    lake: LakeSession | None, stream: OpenStream, partitions: Sequence[Partition]
) -> Mapping[str, Mapping[str, KnownObject]]:
    """The objects that the rows of each partition were made of, by path and URI."""
    if lake is None or not (lake.exists(stream.table) and lake.exists(manifest_table(lake.config))):
        return {}
    return partition_objects(lake, stream.name, stream.table, [partition.path for partition in partitions])


def _compare(
    plan: Plan, known: Mapping[str, KnownObject]
) -> tuple[tuple[LandedObject, ...], tuple[LandedObject, ...], tuple[str, ...]]:
    """The new, changed and vanished objects of a partition."""
    landed = {obj.uri: obj for obj in plan.manifest.objects}
    new = tuple(obj for uri, obj in landed.items() if uri not in known)
    changed = tuple(obj for uri, obj in landed.items() if uri in known and not known[uri].is_now(obj.etag, obj.size))
    vanished = tuple(sorted(uri for uri, obj in known.items() if uri not in landed and not obj.has_ended))
    return new, changed, vanished


def _job(stream: OpenStream, plan: Plan) -> Job | None:
    if not plan.adds_rows:
        return None
    if plan.decision.action == "register":
        return "register"
    if stream.config.transform is not None:
        return "transform"
    if not plan.files_copied:
        return "encode"
    return "copy" if plan.files_copied == len(plan.reads.read) else "copy and encode"


@dataclass
class _Columns:
    """The columns of a table, and what the landed objects would change."""

    stream: OpenStream
    footers: Footers
    table: pa.Schema | None = None
    refused: Mapping[str, LakeAssetsError] = field(default_factory=dict)  # in mode index, by the object's URI

    @classmethod
    def of(cls, lake: LakeSession | None, stream: OpenStream, footers: Footers, plans: Iterable[Plan]) -> "_Columns":
        if lake is None or stream.config.transform is not None or not lake.exists(stream.table):
            return cls(stream, footers)
        if stream.config.mode == "index":
            new = [(obj, plan.partition) for plan in plans if plan.adds_rows for obj in plan.reads.objects]
            return cls(stream, footers, refused=Registrar(stream, {}, {}).inspect(lake, new).errors if new else {})
        return cls(stream, footers, data_schema(lake, stream.table, stream.config.columns))

    def refusals(self, plan: Plan) -> tuple[str, ...]:
        """Why the ingest would refuse objects that the partition reads, in its words; quarantine leaves these out."""
        config = self.stream.config
        if config.mode == "index":
            return tuple(_clause(self.refused[obj.uri]) for obj in plan.reads.objects if obj.uri in self.refused)
        is_unread = config.transform is not None or len(plan.reads.read) > MOST
        if is_unread or not plan.adds_rows or config.on_bad_object == "quarantine":
            return ()
        try:
            landed = self.footers.schemas(plan.reads)
            if self.table is not None and config.schema_policy == "evolve":
                evolved(self.table, landed, config.columns)
        except LakeAssetsError as error:
            return (_clause(error),)
        return tuple(text for origin, schema in landed if (text := self._misfit(plan.partition, origin, schema)))

    def _misfit(self, partition: Partition, origin: str, schema: pa.Schema) -> str:
        """Why an object does not fit the table; empty if it does, or the table would change."""
        config = self.stream.config
        if self.table is None:
            return ""
        try:
            Fitter(
                schema,
                self.table,
                partition,
                origin,
                policy=config.schema_policy,
                narrows=self.stream.letters is not None,
                selects=config.selects_rows,
                derived=config.derived,
            )
        except SchemaDriftError:
            return ""
        except LakeAssetsError as error:
            return _clause(error)
        return ""

    def changes(self, plan: Plan) -> tuple[str, ...]:
        """What the objects that the partition reads would change."""
        is_fixed = self.stream.config.schema_policy != "evolve"
        if self.table is None or is_fixed or len(plan.reads.read) > MOST or not plan.adds_rows:
            return ()
        try:
            after = evolved(self.table, self.footers.schemas(plan.reads), self.stream.config.columns)
        except LakeAssetsError as error:  # of an object that is left out
            return (_clause(error),)
        return tuple(map(str, column_changes(self.table, after)))


def _judged(plan: Plan, refusals: Sequence[str]) -> Plan:
    """The plan, which fails if the ingest would refuse objects."""
    if not refusals:
        return plan
    if plan.decision.action == "register":  # the others are registered first
        texts = (plan.decision.failure, f"the lake refuses {count(len(refusals), 'new object')}")
        return replace(plan, decision=replace(plan.decision, failure="; ".join(filter(None, texts))))
    decision = Decision("fail", refusals[0])
    return replace(plan, decision=decision, files_written=0, files_copied=0, statements=(), rows_after=None)


def _clause(error: LakeAssetsError) -> str:
    return str(error).rstrip(".")
