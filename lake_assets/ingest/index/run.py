"""Registration in place: landed objects become lake files as they are, once each, many partitions in one transaction.

`plan_index` finds the objects that the manifest does not know yet, and `index_all` registers them. The command line and
Dagster both call these functions.
"""

import datetime as dt
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from lake_assets.errors import LakeAssetsError, SourceError, StorageUnreachableError
from lake_assets.events import about, step
from lake_assets.ingest.compare_objects import moved_since
from lake_assets.ingest.index.diff import IndexPlan, changed_objects, plan_index, present
from lake_assets.ingest.index.register import Registrar
from lake_assets.ingest.options import IngestOptions
from lake_assets.ingest.outcome import Outcome, reported_run
from lake_assets.ingest.partition_run import PartitionRun, State, chunks, record_failures, record_skipped
from lake_assets.ingest.plan import Action, PartitionPlan, empty_source
from lake_assets.lake.ledger.tables import create_ledger
from lake_assets.layout.partition import Partition
from lake_assets.layout.texts import first_lines
from lake_assets.storage.manifest import LandedObject
from lake_assets.streams.calendar import refuse_outside
from lake_assets.streams.stream import OpenStream

FILES = 5_000  # of one transaction, about: a partition's new files stay together
NAMED = 20  # errors of one partition, in the ledger


def index_all(
    stream: OpenStream,
    partitions: Iterable[Partition] | None = None,
    plan: IndexPlan | None = None,
    options: IngestOptions | None = None,
    checkpoint: Callable[[], None] = lambda: None,
) -> Iterator[Outcome]:
    """Register the landed objects that the lake does not have yet, each once.

    Up to some thousands of files are one transaction, and a reader sees all new files of a partition or none. A file
    that cannot be registered fails alone: its partition has the error, and the partition's other files are registered.
    An object that replaced a registered one is such an error too, because its rows are not in the lake.

    Args:
        stream: the stream of the objects.
        partitions: the partitions to register; when None, all that have landed and that the config has.
        plan: the result of `plan_index` for the same partitions; computed when None.
        options: as of `ingest_all`.
        checkpoint: as of `ingest_all`.

    Yields:
        The outcome of each partition that was named, or has new or changed objects.

    Raises:
        OutsidePartitionError: the config does not have a named partition, and `outside` is False; nothing was done.
        LakeAssetsError: no partition was named, and the landing zone cannot be listed or the lake cannot be read.
    """
    options = options or IngestOptions()
    named = None if partitions is None else list(dict.fromkeys(partitions))
    if not options.outside:
        refuse_outside(stream.config, named or ())
    with reported_run(options.run_id, stream.name, "index", None if named is None else len(named)):
        yield from _index_all(IndexRun(stream, options), named, plan, checkpoint)


def _index_all(
    index_run: "IndexRun",
    named: Sequence[Partition] | None,
    plan: IndexPlan | None,
    checkpoint: Callable[[], None],
) -> Iterator[Outcome]:
    """Register the new objects of partitions, each once; see `index_all`."""
    start = time.perf_counter()
    try:
        with index_run.step("list") as figures:
            plan = plan or plan_index(index_run.stream, named, index_run.options)
            objects = [obj for part in plan.partitions for obj in part.landed.objects]
            figures.update(partitions=len(plan.partitions), objects=len(objects))
            figures["bytes"] = sum(obj.size for obj in objects)
    except LakeAssetsError as error:
        if named is None:
            raise
        yield from index_run.fail([index_run.open(PartitionPlan(partition)) for partition in named], error)
        return
    runs = [index_run.open(part, (time.perf_counter() - start) / len(plan.partitions)) for part in plan.partitions]
    if named is None:
        runs = [run for run in runs if run.plan.new or run.plan.changed]
    moved = moved_since(index_run.stream, index_run.options.planned, {run.partition: run.manifest for run in runs})
    actions: dict[Action, list[IndexedPartition]] = defaultdict(list)
    for run in runs:
        if run.partition in moved:
            run.is_recorded = False
            yield from index_run.fail([run], moved[run.partition])
            continue
        run.decide()
        actions[run.plan.decision.action].append(run)
    for run in actions["leave_out"]:
        run.leave_out()
        yield run.report()
    yield from index_run.skip([*actions["skip"], *actions["keep"]])
    yield from index_run.failed(actions["fail"])
    for chunk in chunks(actions["register"], FILES, lambda run: len(run.plan.new)):
        try:
            checkpoint()
            outcomes = index_run.register(chunk)
        except BaseException as error:
            list(index_run.fail([run for run in chunk if run.state is State.OPEN], error))  # others may be committed
            raise
        yield from outcomes


class IndexedPartition(PartitionRun):
    """One partition of a run in mode index, with the objects to register."""

    def __init__(self, stream: OpenStream, plan: PartitionPlan, options: IngestOptions) -> None:
        super().__init__(stream, plan.partition, options)
        self.plan = plan
        self.manifest = plan.landed
        self.update(source_files=len(plan.landed.objects), source_bytes=self.manifest.size)

    def decide(self) -> None:
        """Note the decision, and set the error of a partition of which nothing is registered."""
        decision = self.plan.decision
        self.set_plan(self.plan)
        if not decision.is_hold and not (self.plan.new or self.plan.changed):
            if self.manifest.objects:
                self.update(source_fingerprint=self.stream.fingerprint(self.manifest))
            self.set_decision(decision)
        if decision.action == "fail" and not self.set_error([]):
            self.fail(empty_source(self.stream, self.partition, decision))

    def set_error(self, of_new: Sequence[LakeAssetsError]) -> bool:
        """Set the one error of the partition, whose new objects have these; returns whether there is one."""
        found = changed_objects(self.partition, self.plan.compared, self.plan.live)
        changed = [obj.error(self.stream.name) for obj in found]
        if changed:
            objects = f"{len(of_new) + len(changed)} of {len(self.manifest.objects)} objects"
            problem = f"the rows of {objects} of {self.partition} are not in the lake:"
            self.fail(_joined([*of_new, *changed], problem))
        elif of_new:
            problem = f"{len(of_new)} of {len(self.plan.new)} new objects of {self.partition} were not registered:"
            self.fail(_joined(of_new, problem))
        return bool(changed or of_new)

    @property
    def present(self) -> list[LandedObject]:
        """The objects that the lake has."""
        return list(present(self.manifest, self.plan.compared))


@dataclass
class IndexRun:
    """One registration of a stream's new objects."""

    stream: OpenStream
    options: IngestOptions

    @contextmanager
    def step(self, name: str) -> Iterator[dict[str, Any]]:
        """Report a step of the run, with the figures that the block fills in."""
        with about(run=self.options.run_id, stream=self.stream.name), step(name) as figures:
            yield figures

    def open(self, plan: PartitionPlan, seconds: float = 0) -> IndexedPartition:
        """Return the run of one partition; `seconds` is its share of the time of the listing."""
        run = IndexedPartition(self.stream, plan, self.options)
        run.add_seconds("list", seconds)
        return run

    def fail(self, runs: Sequence[IndexedPartition], error: BaseException) -> Iterator[Outcome]:
        """Fail these partitions with the same error."""
        for run in runs:
            run.fail(error)
        yield from self.failed(runs)

    def failed(self, runs: Sequence[IndexedPartition]) -> Iterator[Outcome]:
        """Record and report partitions that have an error."""
        record_failures(self.stream, runs)
        outcomes = [run.report() for run in runs]
        # An interrupt ends the run, and its caller gets no outcome.
        yield from (outcome for outcome in outcomes if isinstance(outcome.error, Exception))

    def skip(self, runs: Sequence[IndexedPartition]) -> Iterator[Outcome]:
        """Skip partitions."""
        for run in runs:
            run.update(status="skipped", finished_at=dt.datetime.now(dt.UTC))
        self._skip(runs)
        yield from (run.report() for run in runs if run.state is State.DONE)
        yield from self.failed([run for run in runs if run.state is State.FAILED])

    def _skip(self, runs: Sequence[IndexedPartition]) -> None:
        """Record skipped partitions; if the ledger cannot be written, that is their error."""
        recorded = [run for run in runs if run.is_recorded]
        if recorded:
            try:
                with self.stream.lake.open(create=True) as lake:
                    create_ledger(lake)
                    record_skipped(lake, self.stream, recorded)
            except LakeAssetsError as error:
                for run in recorded:
                    run.fail(error)
        for run in runs:
            if run.state is State.OPEN:
                run.finish(run.row)

    def register(self, runs: Sequence[IndexedPartition]) -> list[Outcome]:
        """Register the new objects of these partitions, in one transaction if possible; see `Registrar`."""
        new = {obj.uri for run in runs for obj in run.plan.new}
        registrar = Registrar(
            self.stream,
            {run.partition: run.row for run in runs},
            {run.partition: run.present for run in runs},
        )
        start = time.perf_counter()
        try:
            with self.step("register") as figures, self.stream.lake.open(create=True) as lake:
                create_ledger(lake)
                figures["partitions"] = len(runs)
                registrar.register(lake, [(obj, run.partition) for run in runs for obj in run.plan.new])
                rows = registrar.committed.values()
                figures.update(files=sum(row.files_written or 0 for row in rows))
                figures.update(rows=sum(row.row_count or 0 for row in rows))
                figures.update(bytes=sum(row.bytes_written or 0 for row in rows))
        except LakeAssetsError as error:
            present = {obj.uri for objects in registrar.present.values() for obj in objects}
            registrar.errors = dict.fromkeys(new - present, error) | registrar.errors
        for run in runs:
            run.add_seconds("register", (time.perf_counter() - start) / len(runs))
            self._conclude(run, registrar)
        self._skip([run for run in runs if run.state is State.OPEN])
        failed = list(self.failed([run for run in runs if run.error is not None]))
        return [run.report() for run in runs if run.state is State.DONE] + failed

    def _conclude(self, run: IndexedPartition, registrar: Registrar) -> None:
        unfilled = run.row
        if row := registrar.committed.get(run.partition):
            run.finish(row)
        if run.set_error([registrar.errors[obj.uri] for obj in run.plan.new if obj.uri in registrar.errors]):
            run.row = unfilled  # the commit has a ledger row of its own
        elif row is None:  # another process has registered the objects meanwhile
            run.update(status="skipped", finished_at=dt.datetime.now(dt.UTC))


def _joined(errors: Sequence[LakeAssetsError], problem: str) -> LakeAssetsError:
    """Several errors as one, listed below the problem; a single error as it is."""
    unlike = list({id(error): error for error in errors}.values())
    if len(unlike) == 1:
        return unlike[0]
    texts = first_lines([f"- {error}" for error in unlike], NAMED)
    is_temporary = all(isinstance(error, StorageUnreachableError) for error in unlike)
    return (StorageUnreachableError if is_temporary else SourceError)("\n".join([problem, *texts]))
