"""Registration in place: landed objects become lake files as they are, once each, many partitions in one transaction.

`plan_index` says which objects the manifest does not know yet, and `index_all` registers just these. The command line
and Dagster both call them.
"""

import datetime as dt
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from lake_assets.errors import EmptySourceError, LakeAssetsError, NoLakeError, SourceError, StorageUnreachableError
from lake_assets.index_plan import IndexPlan, PartitionPlan, plan_index
from lake_assets.lake.history import partitions_in_ledger
from lake_assets.lake.ledger import create_ledger, record
from lake_assets.manifest import Manifest
from lake_assets.partition import Partition
from lake_assets.passage import IngestResult, Passage, record_failures
from lake_assets.registrar import Registrar
from lake_assets.stream import OpenStream
from lake_assets.streams.calendar import refuse_outside
from lake_assets.unknown import UnknownPartitions

FILES = 5_000  # of one transaction, about: a partition's new files stay together
NAMED = 20  # errors of one partition, in the ledger


@dataclass(frozen=True, slots=True)
class Indexed:
    """What became of one partition: its result, its error, or neither if it was passed over.

    Of one that failed some objects may be registered.
    """

    partition: Partition
    result: IngestResult | None = None
    error: Exception | None = None


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
) -> Iterator[Indexed]:
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
    run = _Run(stream, run_id or str(uuid.uuid4()), run_at or dt.datetime.now(dt.UTC))
    start = time.perf_counter()
    try:
        plan = plan or plan_index(stream, named, outside=outside)
    except LakeAssetsError as error:
        if named is None:
            raise
        yield from run.fail([run.share(PartitionPlan(partition, (), ())) for partition in named], error)
        return
    shares = [run.share(part, (time.perf_counter() - start) / len(plan.partitions)) for part in plan.partitions]
    if named is not None:
        yield from (Indexed(share.plan.partition) for share in shares if landed_only and not share.plan.objects)
        idle = [share for share in shares if not share.plan.new and not share.plan.changed]
        yield from run.pass_over([share for share in idle if share.plan.objects or not landed_only])
    yield from run.refuse([share for share in shares if share.plan.changed and not share.plan.new])
    for some in _chunks([share for share in shares if share.plan.new]):
        try:
            checkpoint()
            indexed = run.register(some)
        except BaseException as error:
            list(run.fail([share for share in some if share.passage.is_open], error))  # others may be committed
            raise
        yield from indexed


@dataclass
class _Share:
    """One partition of a run."""

    plan: PartitionPlan
    passage: Passage


@dataclass
class _Run:
    stream: OpenStream
    run_id: str
    run_at: dt.datetime

    def share(self, plan: PartitionPlan, seconds: float = 0) -> _Share:
        passage = Passage(self.stream, plan.partition, self.run_id, self.run_at)
        passage.manifest = Manifest(plan.objects)
        passage.add_seconds("list", seconds)
        passage.update(source_files=len(plan.objects), source_bytes=passage.manifest.size)
        return _Share(plan, passage)

    def fail(self, shares: Sequence[_Share], error: BaseException) -> Iterator[Indexed]:
        """All of them have this error."""
        for share in shares:
            share.passage.error = error
        yield from self._failed([share.passage for share in shares])

    def _failed(self, passages: Sequence[Passage]) -> Iterator[Indexed]:
        record_failures(self.stream, passages)
        for passage in passages:
            if isinstance(passage.error, Exception):
                yield Indexed(passage.partition, passage.result, passage.error)

    def refuse(self, shares: Sequence[_Share]) -> Iterator[Indexed]:
        """Nothing new has landed here, but under the names of registered objects lie others."""
        for share in shares:
            share.passage.error = self._error(share, [])
        yield from self._failed([share.passage for share in shares])

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

    def pass_over(self, shares: Sequence[_Share]) -> Iterator[Indexed]:
        """Nothing new has landed here: that is noted, or, where nothing has landed at all, the policy holds."""
        policy = self.stream.config.on_empty
        skipped: list[Passage] = []
        empty: list[Passage] = []
        try:
            in_ledger = self._in_ledger() if any(not share.plan.objects for share in shares) else set()
        except LakeAssetsError as error:
            yield from self.fail(shares, error)
            return
        unknown = UnknownPartitions(self.stream, in_ledger)
        for share in shares:
            passage = share.passage
            if not share.plan.objects and passage.partition.path not in unknown.known:
                passage.is_recorded = False
                passage.note = unknown.meant(passage.partition)
            if share.plan.objects:
                passage.update(source_fingerprint=self.stream.fingerprint(passage.manifest))
            else:
                passage.update(on_empty=policy)
            if not share.plan.objects and policy == "fail":
                passage.error = EmptySourceError(
                    f"the source partition has no objects: {passage.row.source_glob}:",
                    (f"{passage.note} Check its name, " if passage.note else "check that it has landed, ")
                    + "or set on_empty to keep.",
                )
                empty.append(passage)
                continue
            passage.update(status="skipped", finished_at=dt.datetime.now(dt.UTC))
            skipped.append(passage)
        self._skip(skipped)
        yield from (Indexed(p.partition, p.result) for p in skipped if p.error is None)
        yield from self._failed([*empty, *(p for p in skipped if p.error is not None)])

    def _in_ledger(self) -> set[str]:
        try:
            with self.stream.lake.open(read_only=True) as lake:
                return partitions_in_ledger(lake, self.stream.table)
        except NoLakeError:
            return set()

    def _skip(self, passages: Sequence[Passage]) -> None:
        """Note that nothing was done; where the ledger does not take it, that is their error."""
        for passage in passages:
            if not passage.is_recorded:
                passage.done(passage.row)
        passages = [passage for passage in passages if passage.is_recorded]
        if not passages:
            return
        try:
            with self.stream.lake.open(create=True) as lake:
                create_ledger(lake)
                record(lake, [passage.row for passage in passages])
        except LakeAssetsError as error:
            for passage in passages:
                passage.error = error
            return
        for passage in passages:
            passage.done(passage.row)

    def register(self, shares: Sequence[_Share]) -> list[Indexed]:
        """One transaction, mostly; see `Registrar`."""
        new = {o.uri for share in shares for o in share.plan.new}
        registrar = Registrar(
            self.stream,
            {share.plan.partition: share.passage.row for share in shares},
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
            share.passage.add_seconds("register", (time.perf_counter() - start) / len(shares))
            self._conclude(share, registrar)
        done = [share.passage for share in shares]
        self._skip([passage for passage in done if passage.is_open])
        failed = list(self._failed([passage for passage in done if passage.error is not None]))
        return [Indexed(p.partition, p.result) for p in done if p.error is None] + failed

    def _conclude(self, share: _Share, registrar: Registrar) -> None:
        passage, partition = share.passage, share.plan.partition
        blank = passage.row
        if row := registrar.committed.get(partition):
            passage.done(row)
        error = self._error(share, [registrar.errors[o.uri] for o in share.plan.new if o.uri in registrar.errors])
        if error is not None:
            passage.row = blank  # the figures of what was committed stand in a ledger row of their own
            passage.error = error
        elif row is None:  # another process has registered them meanwhile
            passage.update(status="skipped", finished_at=dt.datetime.now(dt.UTC))


def _joined(errors: Sequence[LakeAssetsError], problem: str) -> LakeAssetsError:
    """Several errors as one, below a sentence; one alone as it is."""
    unlike = list({id(error): error for error in errors}.values())
    if len(unlike) == 1:
        return unlike[0]
    texts = [f"- {error}" for error in unlike[:NAMED]] + (
        [f"- and {len(unlike) - NAMED} more"] if len(unlike) > NAMED else []
    )
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
