"""Registration in place: landed objects become lake files as they are, once each, many partitions in one transaction.

`plan_index` finds the objects that the manifest does not know yet, and `index_all` registers them. The command line and
Dagster both call these functions.
"""

import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from lake_assets.base.errors import LakeAssetsError
from lake_assets.base.events import checkpoint
from lake_assets.config.layout.partition import Partition
from lake_assets.ingest.compare_objects import Comparison, compare_partition
from lake_assets.ingest.index.register import Registrar
from lake_assets.ingest.outcome import IngestOptions, Outcome, reported_run
from lake_assets.ingest.partition_run import PartitionRun
from lake_assets.ingest.plan import Plan, Planner
from lake_assets.ingest.run import Run, chunks, end_by_plans, fail_all, reported_step, skip, still_open
from lake_assets.lake.commit.extension import list_files_statement
from lake_assets.lake.ledger.object_history import KnownObject, known_objects
from lake_assets.lake.ledger.tables import MANIFEST, create_ledger
from lake_assets.lake.session import LakeSession
from lake_assets.storage.manifest import Manifest
from lake_assets.streams.calendar import Calendar
from lake_assets.streams.left_out import LeftOut, NotRegistered
from lake_assets.streams.select import refuse_outside
from lake_assets.streams.stream import OpenStream, list_scope


def plan_index(
    stream: OpenStream, partitions: Iterable[Partition] | None = None, options: IngestOptions | None = None
) -> Plan:
    """Return what `index_all` would register now, of all partitions that have landed when None. Nothing is written.

    With `outside`, of all that have landed those are taken too that the config does not have.
    """
    wanted, options = None if partitions is None else list(partitions), options or IngestOptions()
    takes_all = wanted is not None or options.outside
    landed, left_out = list_scope(stream, wanted)
    calendar = Calendar(stream.config)
    outside = []
    with stream.lake.open_if_exists() as lake:
        comparisons = compare_registered(stream, objects_of_lake(lake, stream, wanted), landed)
        for partition, comparison in list(comparisons.items()):
            new = len(comparison.new.objects)
            if new and not takes_all and (why := calendar.outside(partition)) is not None:
                outside.append(NotRegistered(partition, new, why))
                comparisons[partition] = replace(comparison, new=Manifest(()))
        ignored = {left.partition for left in outside}
        taken = {p: manifest for p, manifest in landed.items() if p not in ignored or comparisons[p].changed}
        # The table's files may be many.
        live = registered_uris(lake, stream) if any(comparisons[p].changed for p in taken) else set()
        plans = Planner(stream, options).plan(lake, taken, comparisons, live)
    left_out = (left_out or LeftOut()).taking(outside=options.outside)
    return Plan.of(stream, options, plans, not_registered=tuple(outside), left_out=left_out)


def compare_registered(
    stream: OpenStream, known: Mapping[str, KnownObject], landed: Mapping[Partition, Manifest]
) -> dict[Partition, Comparison]:
    """Compare the landed objects of some partitions with the objects that the lake registered or read, by key."""
    by_path: dict[str, dict[str, KnownObject]] = {partition.path: {} for partition in landed}
    names = {**{obj.uri: obj for obj in known.values()}, **known}
    for key, obj in known.items():
        by_path.setdefault(obj.load_partition, {})[key] = obj
    for partition, manifest in landed.items():  # an object may have been of another partition
        others = [names.get(obj.key) or names.get(obj.uri) for obj in manifest.objects]
        by_path[partition.path] |= {other.key: other for other in others if other is not None}
    return {
        p: compare_partition(stream, by_path[p.path], manifest, quarantines=False) for p, manifest in landed.items()
    }


def objects_of_lake(
    lake: LakeSession | None, stream: OpenStream, partitions: Sequence[Partition] | None
) -> dict[str, KnownObject]:
    """Return the objects that the lake registered or read, by key; none without a lake or if the table was dropped."""
    if lake is None or not (lake.exists(stream.table) and lake.exists(MANIFEST.name(lake.config))):
        return {}
    return known_objects(lake, stream.ledger_scope(partitions))


def registered_uris(lake: LakeSession | None, stream: OpenStream) -> set[str]:
    """Return the URIs of the table's files."""
    return set() if lake is None else {uri for (uri,) in lake.rows(*list_files_statement(stream.table))}


FILES_AT_ONCE = 5_000  # of one transaction, about: a partition's new files stay together


def index_all(
    stream: OpenStream,
    partitions: Iterable[Partition] | None = None,
    plan: Plan | None = None,
    options: IngestOptions | None = None,
) -> Iterator[Outcome]:
    """Register the landed objects that the lake does not have yet, each once.

    Up to some thousands of files are one transaction, and a reader sees all new files of a partition or none. A file
    that cannot be registered fails alone: its partition has the error, and the partition's other files are registered.
    An object that replaced a registered one is such an error too, because its rows are not in the lake.

    Without `partitions`, all are registered that have landed and that the config has. `plan` is the result of
    `plan_index` for the same partitions. Yields the outcome of each partition that was named, or has new or changed
    objects. Without `outside`, a named partition that the config does not have is an OutsidePartitionError; nothing was
    done.
    """
    options = options or IngestOptions()
    named = None if partitions is None else list(dict.fromkeys(partitions))
    if not options.outside:
        refuse_outside(stream, named or ())
    with reported_run(options.run_id, stream.name, "index", None if named is None else len(named)):
        index_run = IndexRun(stream, options, plan)
        if named is None:
            named = [part.partition for part in index_run.listed(None).partitions if part.new or part.changed]
        yield from index_run.outcomes([PartitionRun(stream, partition, options) for partition in named])


class IndexRun(Run):
    """A run that registers new objects of partitions, by a plan if it was made before."""

    def __init__(self, stream: OpenStream, options: IngestOptions, made: Plan | None = None) -> None:
        super().__init__(stream, options)
        self._made = made
        self._plan: Plan | None = None
        self._listing = 0.0  # seconds, of one partition

    def listed(self, partitions: Iterable[Partition] | None) -> Plan:
        """List the objects of some partitions, or of all, and plan their registration, once."""
        if self._plan is None:
            start = time.perf_counter()
            with reported_step(self.stream, self.options, "list") as figures:
                self._plan = self._made or plan_index(self.stream, partitions, self.options)
                objects = [obj for part in self._plan.partitions for obj in part.landed.objects]
                figures.update(partitions=len(self._plan.partitions), objects=len(objects))
                figures["bytes"] = sum(obj.size for obj in objects)
            self._listing = (time.perf_counter() - start) / max(len(self._plan.partitions), 1)
        return self._plan

    def plan(self, runs: Sequence[PartitionRun]) -> None:
        """Set the plans; an error of the listing fails all partitions."""
        start = time.perf_counter()
        try:
            made = self.listed([run.partition for run in runs])
        except LakeAssetsError as error:
            fail_all(runs, error)
            for run in runs:
                run.add_seconds("list", (time.perf_counter() - start) / len(runs))
            return
        plans = {part.partition: part for part in made.partitions}
        for run in runs:
            plan = plans[run.partition]
            run.outcome.manifest = plan.landed
            run.update(source_files=len(plan.landed.objects), source_bytes=plan.landed.size)
            if plan.is_registered:
                run.update(source_fingerprint=self.stream.fingerprint(plan.landed))
            run.set_plan(plan)
        skipped = end_by_plans(runs)
        for run in (run for run in runs if run.plan.decision.action != "register"):
            run.add_seconds("list", self._listing)
        self._skip(skipped)

    def _skip(self, runs: Sequence[PartitionRun]) -> None:
        """Skip partitions; if the ledger cannot be written, that is the error of those that have a row."""
        if unknown := [run for run in runs if not run.is_recorded]:
            skip(None, self.stream, unknown)
        if not (recorded := [run for run in runs if run.is_recorded]):
            return
        try:
            with self.stream.lake.open(create=True) as lake:
                create_ledger(lake)
                skip(lake, self.stream, recorded)
        except LakeAssetsError as error:
            fail_all(recorded, error)

    def execute(self, runs: Sequence[PartitionRun]) -> Generator[Sequence[PartitionRun], None, None]:
        """Register the new objects of the partitions, about `FILES_AT_ONCE` in a transaction."""
        yield runs  # those that have ended by their plans
        for chunk in chunks(still_open(runs), FILES_AT_ONCE, lambda run: len(run.plan.new)):
            for run in chunk:
                run.add_seconds("list", self._listing)
                run.update()
            checkpoint()
            self.register(chunk)
            yield chunk

    def _ended(self, runs: Sequence[PartitionRun]) -> Iterator[Outcome]:
        """Report all partitions of a transaction before the first outcome is handed on: an interrupt hides none."""
        yield from list(super()._ended(runs))

    def register(self, runs: Sequence[PartitionRun]) -> None:
        """Register the new objects of these partitions, in one transaction if possible; see `Registrar`."""
        new = {obj.uri for run in runs for obj in run.plan.new}
        registrar = Registrar(
            self.stream,
            {run.partition: run.row for run in runs},
            {run.partition: list(run.plan.compared.same) for run in runs},
        )
        try:
            with (
                reported_step(self.stream, self.options, "register") as figures,
                self.stream.lake.open(create=True) as lake,
            ):
                create_ledger(lake)
                figures["partitions"] = len(runs)
                registrar.register(lake, [(obj, run.partition) for run in runs for obj in run.plan.new])
                rows = registrar.committed.values()
                figures.update(files=sum(row.files_written or 0 for row in rows))
                figures.update(rows=sum(row.row_count or 0 for row in rows))
                figures.update(bytes=sum(row.bytes_written or 0 for row in rows))
        except LakeAssetsError as error:
            in_lake = {obj.uri for objects in registrar.present.values() for obj in objects}
            registrar.errors = dict.fromkeys(new - in_lake, error) | registrar.errors
        runs[0].outcome.changes += tuple(registrar.changes)
        unregistered = []
        for run in runs:
            run.add_seconds("register", (time.perf_counter() - registrar.began) / len(runs))
            unfilled, row = run.row, registrar.committed.get(run.partition)
            if row is not None:
                run.finish(row)
            errors = [registrar.errors[obj.uri] for obj in run.plan.new if obj.uri in registrar.errors]
            if errors or run.plan.decision.errors:
                run.fail_with(errors)
                run.outcome.row = unfilled  # the commit has a ledger row of its own
            elif row is None:  # another process has registered the objects meanwhile
                unregistered.append(run)
        self._skip(unregistered)
