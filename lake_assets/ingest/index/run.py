"""Registration in place: landed objects become lake files as they are, once each, many partitions in one transaction.

`plan_index` says which objects the manifest does not know yet, and `index_all` registers just these. The command line
and Dagster both call them.
"""

import datetime as dt
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from lake_assets.errors import LakeAssetsError, NoLakeError, SourceError, StorageUnreachableError
from lake_assets.ingest.decide import Decider, Decision, Facts, empty_source
from lake_assets.ingest.index.diff import IndexPlan, PartitionPlan, plan_index
from lake_assets.ingest.index.register import Registrar
from lake_assets.ingest.partition_run import Outcome, PartitionRun, State, record_failures
from lake_assets.lake.ledger.tables import create_ledger, record
from lake_assets.lake.session import LakeSession
from lake_assets.layout.partition import Partition
from lake_assets.layout.texts import first_lines
from lake_assets.storage.manifest import Manifest
from lake_assets.streams.calendar import refuse_outside
from lake_assets.streams.stream import OpenStream

FILES = 5_000  # of one transaction, about: a partition's new files stay together
NAMED = 20  # errors of one partition, in the ledger


def index_all(
    stream: OpenStream,
    partitions: Iterable[Partition] | None = None,
    *,
    plan: IndexPlan | None = None,
    landed_only: bool = False,
    outside: bool = False,
    run_id: str | None = None,
    run_at: dt.datetime | None = None,
    checkpoint: Callable[[], None] = lambda: None,
) -> Iterator[Outcome]:
    """Register the landed objects that the lake does not have yet, each once.

    Some thousands of files are one transaction, and a reader sees all of a partition's new files or none. A file
    that cannot be registered fails alone: the partition has its error, and its other files are registered. So has one
    that lies where another was registered before, for its rows are not in the lake.

    Args:
        stream: whose objects.
        partitions: of these alone; all that lie in the landing zone and that the config has when None.
        plan: what `plan_index` gave for the same partitions; made anew when None.
        landed_only: pass over partitions without objects, whatever `on_empty` says.
        outside: take partitions that the config does not have too.
        run_id: names the run in ledger and commit messages; a new one when None.
        run_at: when the run began, with time zone; now when None.
        checkpoint: called between transactions; what it raises ends the run.

    Yields:
        What became of each partition that was named, or has new or changed objects.

    Raises:
        OutsidePartitionError: a named partition is none of the config's, and `outside` was not said; nothing is done.
        LakeAssetsError: no partition was named, and the landing zone cannot be listed or the lake not be read.
    """
    named = None if partitions is None else list(dict.fromkeys(partitions))
    if not outside:
        refuse_outside(stream.config, named or ())
    index_run = IndexRun(stream, run_id or str(uuid.uuid4()), run_at or dt.datetime.now(dt.UTC))
    start = time.perf_counter()
    try:
        plan = plan or plan_index(stream, named, outside=outside)
    except LakeAssetsError as error:
        if named is None:
            raise
        yield from index_run.fail([index_run.share(PartitionPlan(partition, (), ())) for partition in named], error)
        return
    shares = [index_run.share(part, (time.perf_counter() - start) / len(plan.partitions)) for part in plan.partitions]
    if named is not None:
        yield from index_run.leave_out([share for share in shares if landed_only and not share.plan.objects])
        idle = [share for share in shares if not share.plan.new and not share.plan.changed]
        yield from index_run.pass_over([share for share in idle if share.plan.objects or not landed_only])
    yield from index_run.refuse([share for share in shares if share.plan.changed and not share.plan.new])
    for some in _chunks([share for share in shares if share.plan.new]):
        try:
            checkpoint()
            indexed = index_run.register(some)
        except BaseException as error:
            list(
                index_run.fail([share for share in some if share.run.state is State.OPEN], error)
            )  # others may be committed
            raise
        yield from indexed


@dataclass
class _Share:
    """One partition of a run."""

    plan: PartitionPlan
    run: PartitionRun


@dataclass
class IndexRun:
    """One registration of a stream's new objects."""

    stream: OpenStream
    run_id: str
    run_at: dt.datetime

    def share(self, plan: PartitionPlan, seconds: float = 0) -> _Share:
        """A partition of the run.

        Args:
            plan: what is to be registered.
            seconds: that its listing took.
        """
        run = PartitionRun(self.stream, plan.partition, self.run_id, self.run_at)
        run.manifest = Manifest(plan.objects)
        run.add_seconds("list", seconds)
        run.update(source_files=len(plan.objects), source_bytes=run.manifest.size)
        return _Share(plan, run)

    def fail(self, shares: Sequence[_Share], error: BaseException) -> Iterator[Outcome]:
        """All of them have this error."""
        for share in shares:
            share.run.fail(error)
        yield from self._failed([share.run for share in shares])

    def leave_out(self, shares: Sequence[_Share]) -> Iterator[Outcome]:
        """Nothing of them has landed."""
        for share in shares:
            share.run.leave_out()
            yield share.run.report()

    def _failed(self, runs: Sequence[PartitionRun]) -> Iterator[Outcome]:
        record_failures(self.stream, runs)
        yield from (run.report() for run in runs if isinstance(run.error, Exception))

    def refuse(self, shares: Sequence[_Share]) -> Iterator[Outcome]:
        """Nothing new has landed here, but under the names of registered objects lie others."""
        for share in shares:
            if (error := self._error(share, [])) is not None:
                share.run.fail(error)
        yield from self._failed([share.run for share in shares])

    def _error(self, share: _Share, of_new: Sequence[LakeAssetsError]) -> LakeAssetsError | None:
        """The one error of a partition, whose new objects have these; None if it has none."""
        changed = [o.error(self.stream.name) for o in share.plan.changed]
        if not of_new and not changed:
            return None
        if changed:
            objects = f"{len(of_new) + len(changed)} of {len(share.plan.objects)} objects"
            return _joined([*of_new, *changed], f"the rows of {objects} of {share.plan.partition} are not in the lake:")
        problem = f"{len(of_new)} of {len(share.plan.new)} new objects of {share.plan.partition} were not registered:"
        return _joined(of_new, problem)

    def pass_over(self, shares: Sequence[_Share]) -> Iterator[Outcome]:
        """Nothing new has landed here: that is noted, or, where nothing has landed at all, the policy holds."""
        try:
            decisions = self._decided(shares)
        except LakeAssetsError as error:
            yield from self.fail(shares, error)
            return
        skipped: list[PartitionRun] = []
        for share, decision in decisions:
            run = share.run
            if share.plan.objects:
                run.update(source_fingerprint=self.stream.fingerprint(run.manifest))
            run.decided(decision)
            if decision.action == "fail":
                run.fail(empty_source(self.stream, run.partition, decision))
                continue
            run.update(status="skipped", finished_at=dt.datetime.now(dt.UTC))
            skipped.append(run)
        self._skip(skipped)
        yield from (run.report() for run in skipped if run.state is State.DONE)
        yield from self._failed([share.run for share in shares if share.run.state is State.FAILED])

    def _decided(self, shares: Sequence[_Share]) -> list[tuple[_Share, Decision]]:
        decider = Decider(self.stream)

        def decide(lake: LakeSession | None) -> list[tuple[_Share, Decision]]:
            facts = [Facts(len(share.plan.objects), table_exists=lake is not None) for share in shares]
            return [(s, decider.decide(s.plan.partition, f, lake)) for s, f in zip(shares, facts, strict=True)]

        if all(share.plan.objects for share in shares):
            return decide(None)  # the ledger need not be read
        try:
            with self.stream.lake.open(read_only=True) as lake:
                return decide(lake)
        except NoLakeError:
            return decide(None)

    def _skip(self, runs: Sequence[PartitionRun]) -> None:
        """Note that nothing was done; where the ledger does not take it, that is their error."""
        for run in runs:
            if not run.is_recorded:
                run.done(run.row)
        runs = [run for run in runs if run.is_recorded]
        if not runs:
            return
        try:
            with self.stream.lake.open(create=True) as lake:
                create_ledger(lake)
                record(lake, [run.row for run in runs])
        except LakeAssetsError as error:
            for run in runs:
                run.fail(error)
            return
        for run in runs:
            run.done(run.row)

    def register(self, shares: Sequence[_Share]) -> list[Outcome]:
        """One transaction, mostly; see `Registrar`."""
        new = {o.uri for share in shares for o in share.plan.new}
        registrar = Registrar(
            self.stream,
            {share.plan.partition: share.run.row for share in shares},
            {share.plan.partition: [o for o in share.plan.objects if o.uri not in new] for share in shares},
        )
        start = time.perf_counter()
        try:
            with self.stream.lake.open(create=True) as lake:
                create_ledger(lake)
                registrar.register(lake, [(o, share.plan.partition) for share in shares for o in share.plan.new])
        except LakeAssetsError as error:
            present = {o.uri for objects in registrar.present.values() for o in objects}
            registrar.errors = dict.fromkeys(new - present, error) | registrar.errors
        for share in shares:
            share.run.add_seconds("register", (time.perf_counter() - start) / len(shares))
            self._conclude(share, registrar)
        done = [share.run for share in shares]
        self._skip([run for run in done if run.state is State.OPEN])
        failed = list(self._failed([run for run in done if run.error is not None]))
        return [run.report() for run in done if run.state is State.DONE] + failed

    def _conclude(self, share: _Share, registrar: Registrar) -> None:
        run, partition = share.run, share.plan.partition
        blank = run.row
        if row := registrar.committed.get(partition):
            run.done(row)
        error = self._error(share, [registrar.errors[o.uri] for o in share.plan.new if o.uri in registrar.errors])
        if error is not None:
            run.row = blank  # the figures of what was committed stand in a ledger row of their own
            run.fail(error)
        elif row is None:  # another process has registered them meanwhile
            run.update(status="skipped", finished_at=dt.datetime.now(dt.UTC))


def _joined(errors: Sequence[LakeAssetsError], problem: str) -> LakeAssetsError:
    """Several errors as one, below a sentence; one alone as it is."""
    unlike = list({id(error): error for error in errors}.values())
    if len(unlike) == 1:
        return unlike[0]
    texts = first_lines([f"- {error}" for error in unlike], NAMED)
    passes = all(isinstance(error, StorageUnreachableError) for error in unlike)
    return (StorageUnreachableError if passes else SourceError)("\n".join([problem, *texts]))


def _chunks(shares: Iterable[_Share]) -> Iterator[list[_Share]]:
    """As many partitions at a time as make one transaction."""
    chunk: list[_Share] = []
    files = 0
    for share in shares:
        chunk.append(share)
        files += len(share.plan.new)
        if files >= FILES:
            yield chunk
            chunk, files = [], 0
    if chunk:
        yield chunk
