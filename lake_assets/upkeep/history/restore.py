"""The restore of a partition: its rows of an earlier snapshot come back as a new snapshot, held or not.

The files of the old snapshot are copied to new names by the storage, because a path that is registered twice would be
deleted while it is live. The catalog's entries of the copies are those of the originals. DuckLake reads and writes the
rows instead where whole files do not have them: rows that other clients deleted, inlined rows, encrypted lakes, lakes
that MotherDuck manages.
"""

import dataclasses
import posixpath
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated

from lake_assets.base.errors import CatalogError, LakeAssetsError, PartitionError, SourceChangedError, StorageError
from lake_assets.base.events import counted, step
from lake_assets.base.json_dataclasses import AsText, Documented
from lake_assets.config.layout.partition import Partition
from lake_assets.ingest.compare_objects import Comparison, compare, read_noted
from lake_assets.ingest.outcome import IngestOptions, about_partition, blank_row
from lake_assets.ingest.plan import PartitionPlan, Planner
from lake_assets.lake.catalog.past_partitions import CatalogFile, PastPartition, counted_rows
from lake_assets.lake.commit.change import Change, Copy, EarlierRows, Requirements
from lake_assets.lake.commit.deltas import DeltaFile
from lake_assets.lake.commit.strategy import commit, commit_release
from lake_assets.lake.ledger.object_history import objects_at
from lake_assets.lake.ledger.read import commit_of, commits, recorded_commits
from lake_assets.lake.ledger.tables import (
    HELD,
    LETTERS,
    MANIFEST,
    RELEASE,
    RELEASED,
    RESTORE,
    LedgerRow,
    create_ledger,
    letter_values,
    manifest_values,
    release_command,
    source_of_restore,
)
from lake_assets.lake.session import LakeSession
from lake_assets.lake.table_setup import prepare_table
from lake_assets.spark.task.job import MARK, LetterFile, discard, named_fingerprint, new_name
from lake_assets.storage.manifest import LandedObject, Manifest
from lake_assets.storage.store import Store
from lake_assets.streams.stream import OpenStream
from lake_assets.upkeep.history.past_snapshot import PastState, past_state, require_columns, require_snapshot


def _differs(landed: LandedObject, then: LandedObject | None, known: Comparison) -> bool:
    """Return whether a landed object had other content when the restored rows were made of it."""
    if then is None or (then.version, then.size) == (landed.version, landed.size):
        return False
    now = known.known_as(landed)
    return not (landed in known.same and now is not None and now.is_now(then))


_COPIES = 8  # at a time: most of the time is network latency


@dataclass(frozen=True, slots=True)
class Restored(Documented):
    """The result of a restore, or of its dry run."""

    partition: Annotated[Partition, AsText]
    """As a path, such as `region=NW/date=2026-02-11`."""
    snapshot: int
    """The number of the snapshot whose rows are restored."""
    rows: int
    """That snapshot's rows of the partition."""
    rows_before: int
    """The number of rows that they replace."""
    files: int | None
    """Copied data files; null if DuckLake reads and writes the rows instead."""
    differences: Sequence[str]
    """How the table's columns differ from those of the snapshot, each in one clause."""
    row: LedgerRow | None
    """The row of the ledger; null after a dry run, or if the partition has these rows already."""
    is_unchanged: bool
    """Whether the partition has these rows already and is not held, so that nothing was done."""
    is_held: bool
    """Whether refreshes skip the partition from now on."""
    next: str
    """What the next refresh does with the partition."""
    deltas: Sequence[DeltaFile] | None = None
    """The exported changes of the commit; null if the stream exports none, or nothing was committed."""


@dataclass(frozen=True, slots=True)
class _Plan:
    state: PastState
    rows_before: int
    files: Sequence[CatalogFile] | None  # to copy; None: the rows are copied instead
    fingerprint: str | None  # that of the landed objects that the rows were made of
    manifest: Manifest
    is_unchanged: bool
    letters: Sequence[LetterFile]  # of rows of the landed objects that the partition had not


@dataclass(frozen=True, slots=True)
class Restoration:
    """Puts a partition's rows of an earlier snapshot back, as a new snapshot. Readers see the old rows or the new ones.

    Rows that other clients had deleted in that snapshot stay deleted. The rows get today's columns. With `hold`
    refreshes skip the partition until `release`, and only a forced ingest replaces it.
    """

    stream: OpenStream
    partition: Partition
    snapshot: int
    hold: bool = False

    def dry_run(self) -> Restored:
        """Check everything, and return what `run` would do. Raises what it raises."""
        return self._result(self._plan())

    def run(self, options: IngestOptions | None = None) -> Restored:
        """Restore the rows, unless the partition has them. After an error nothing has changed.

        Raises PartitionError if the partition was not there in that snapshot, or the stream registers files in place.
        """
        stream, partition, options, plan = self.stream, self.partition, options or IngestOptions(), self._plan()
        result = self._result(plan)
        if result.is_unchanged:
            return result
        row = blank_row(stream, partition, options)
        with about_partition(row), step("restore", mode=RESTORE) as figures:
            copies = self._copy(plan.files or (), options.run_id)
            row = dataclasses.replace(
                row,
                source_glob=source_of_restore(stream.table, self.snapshot),
                mode=RESTORE,
                status="committed",
                row_count=plan.state.rows,
                source_files=len(plan.manifest.objects),
                source_bytes=plan.manifest.size,
                files_written=len(copies),
                bytes_written=sum(copy.size for copy in copies),
                files_copied=len(copies),
                source_fingerprint=plan.fingerprint,
                files_quarantined=len(plan.manifest.left_out) or None,
                rows_dead_lettered=None if stream.letters is None else sum(letter.rows for letter in plan.letters),
                started_at=options.run_at,
                hold=HELD if self.hold else None,
            )
            keys = {column.name.lower() for column in partition.columns}
            change = Change(
                stream.table,
                partition,
                row,
                EarlierRows(
                    self.snapshot,
                    copies,
                    {now: then for now, then in plan.state.columns.names.items() if now.lower() not in keys},
                    stream.config.target_file_size,
                ),
                appends={MANIFEST: manifest_values(plan.manifest), LETTERS: letter_values(plan.letters)},
                requires=Requirements(may_be_held=True),
                export=stream.export,
            )
            with stream.lake.open() as session:
                create_ledger(session)
                prepare_table(session, stream.table, stream.config.compression)
                (committed,) = commit(session, [change])
            row = committed.row
            figures.update(rows=row.row_count, files=row.files_copied, snapshot=row.snapshot_id, status=row.status)
        if copies and row.files_copied is None:  # DuckLake wrote the rows
            discard(stream.lake_config.own_storage, [copy.uri for copy in copies])
        return dataclasses.replace(
            result,
            row=row,
            rows=row.row_count or 0,
            rows_before=row.rows_before or 0,
            files=row.files_copied,
            deltas=None if committed.delta is None else committed.delta.files,
        )

    def _result(self, plan: _Plan) -> Restored:
        """Return the result of a restore before anything is done."""
        return Restored(
            self.partition,
            self.snapshot,
            plan.state.rows,
            plan.rows_before,
            None if plan.files is None else len(plan.files),
            plan.state.columns.differences,
            None,
            plan.is_unchanged and not self.hold,
            self.hold,
            self._next_refresh(plan),
        )

    def _plan(self) -> _Plan:
        _refuse_index(self.stream)
        with self.stream.lake.open(read_only=True) as session:
            return self._plan_in(session)

    def _plan_in(self, session: LakeSession) -> _Plan:
        stream, partition, snapshot = self.stream, self.partition, self.snapshot
        require_snapshot(session, stream, snapshot)
        state = past_state(session, stream, partition, snapshot)
        scope = stream.ledger_scope([partition])
        rows = commits(session, scope)
        commit = commit_of(rows, snapshot)
        if not state.rows and not state.was_there and commit is None:
            raise PartitionError(
                f"partition {partition} of {stream.table} was not there in snapshot {snapshot}:",
                f"`lake-assets history {stream.name} --partition {','.join(partition.path.split('/'))}` lists its "
                "snapshots.",
            )
        require_columns(stream, partition, state, snapshot)
        files = self._files(state.past)
        last = recorded_commits(session, stream.table, [partition]).get(partition.path)
        is_held = last is not None and last.is_held  # a restore without a hold ends that
        is_unchanged = not is_held and state.past.has_rows_of(state.rows, snapshot)
        manifest = objects_at(session, scope, rows, snapshot).below(stream.source.root)
        named = {named_fingerprint(file.uri) for file in files or ()}
        fingerprint = named.pop() if len(named) == 1 else None
        if fingerprint is None and commit is not None:
            fingerprint = commit.source_fingerprint
        if stream.config.mode.reads_new and last is not None:
            # Objects whose rows it takes away stay known, and those that it takes back in another version have changed.
            known = read_noted(session, stream, [partition]).get(partition.path, {})
            if all(o.key in known and known[o.key].is_now(o) for o in manifest.objects):
                fingerprint = last.source_fingerprint
        before = state.past.rows()
        letters = stream.dead_letters(session, [partition], at=snapshot).get(partition, ())
        return _Plan(state, before, files, fingerprint, manifest, is_unchanged, letters)

    def _next_refresh(self, restored: _Plan) -> str:
        """Return what the next refresh does with the restored partition, in a sentence or two."""
        stream, partition = self.stream, self.partition
        appends = stream.config.mode.reads_new
        if self.hold:
            return (
                f"Held: refreshes skip it until you run {release_command(stream.name, partition.option)}. "
                "`ingest --force` replaces it at any time."
            )
        try:
            manifest = stream.manifest(partition)
            with stream.lake.open_if_exists() as session:
                # A restore leaves the objects known whose rows it takes away.
                known = compare(session, stream, {partition: manifest})[partition] if appends else Comparison()
                then = {obj.key: obj for obj in restored.manifest.read}
                changed = [obj for obj in known.changed if obj.key not in then]
                changed += [obj for obj in manifest.objects if _differs(obj, then.get(obj.key), known)]
                plan = PartitionPlan(
                    partition,
                    manifest,
                    last=LedgerRow.of(["source_fingerprint"], [restored.fingerprint]),
                    compared=dataclasses.replace(known, changed=tuple(changed)),
                    table_exists=True,
                    is_unchanged=stream.has_read(manifest, restored.fingerprint),
                )
                decision = Planner(stream, IngestOptions()).decide(plan, session)
        except LakeAssetsError as error:
            return f"What the next refresh does is unknown: {error}"
        match decision.action:
            case "skip" if appends:
                return "The next refresh leaves it as it is. Only `ingest --force` reads known objects again."
            case "append":
                return f"The next refresh adds the rows of {decision.why}. Use --hold to make refreshes skip it."
            case "skip":
                return "The next refresh leaves it as it is, because the landing zone has the objects of that snapshot."
            case "replace":
                others = "because the landing zone has other objects than that snapshot"
                return f"The next refresh replaces it again, {others}. Use --hold to make refreshes skip it."
            case "fail":
                return f"The next refresh fails and leaves it as it is: {decision.why}."
            case "clear":
                return f"The next refresh empties it again: {decision.why}. Use --hold to make refreshes skip it."
            case _:
                return f"The next refresh leaves it as it is: {decision.why}."

    def _files(self, past: PastPartition) -> Sequence[CatalogFile] | None:
        """Return the files to copy; None if the rows must be copied."""
        lake, snapshot = self.stream.lake_config, self.snapshot
        files = past.at(snapshot)
        if lake.inserts_only or not past.is_whole(snapshot) or not all(file.is_plain for file in files):
            return None
        root = f"{lake.own_storage.root}/"
        for file in files:
            if not file.uri.startswith(root):
                raise CatalogError(
                    f"the file {file.uri} of snapshot {snapshot} is a landed object that was registered in place:",
                    "its rows may have changed. Ingest the partition again instead.",
                )
        return files

    def _copy(self, files: Sequence[CatalogFile], run_id: str) -> list[Copy]:
        """Copy data files beside the originals, where no reader sees them yet.

        The names of a held partition's files say it, so that a run looks its last commit up in the ledger. On an error
        no copy is left, as far as the store allows.
        """
        if not files:
            return []
        storage = self.stream.lake_config.own_storage
        store = Store(storage)

        def unusable(file: CatalogFile, state: str) -> StorageError:
            return StorageError(f"the data file {file.uri} of the snapshot {state}:", "choose another snapshot.")

        def copy(file: CatalogFile) -> Copy:
            key = file.uri.removeprefix(f"{store.root}/")
            stored = store.find(key)
            if stored is None or stored.size != file.size:
                is_other = stored and f"has {stored.size:,} bytes, and the catalog says {file.size:,}"
                raise unusable(file, is_other or "is gone")
            # The original's own: compaction, an append or an older version may have given the files different ones.
            name = new_name(f"{run_id}-", MARK if self.hold else named_fingerprint(file.uri))
            new_key = posixpath.join(posixpath.dirname(key), name)
            uris.append(store.uri(new_key))
            try:
                store.copy(storage, stored, new_key, may_link=True)
            except SourceChangedError as error:  # maintenance removed it meanwhile
                raise unusable(file, "is gone") from error
            return Copy(file.file_id, store.uri(new_key), file.size)

        uris: list[str] = []
        try:
            with ThreadPoolExecutor(_COPIES) as pool:
                return list(counted(pool.map(copy, files), "copy", "files", len(files)))
        except BaseException:
            discard(storage, uris)
            raise


def _refuse_index(stream: OpenStream) -> None:
    if stream.config.mode.registers:
        raise PartitionError(
            f"stream {stream.name} registers landed files in place, so it has no rows of its own to restore:",
            f"`lake-assets index {stream.name} --check` names the objects that have changed or vanished since; restore "
            "these with their times.",
        )


def release(stream: OpenStream, partition: Partition, options: IngestOptions | None = None) -> LedgerRow:
    """End the hold of a partition: refreshes read it again. Its rows stay as they are.

    Raises PartitionError if it is not held.
    """
    options = options or IngestOptions()
    with stream.lake.open() as session:
        create_ledger(session)

        def make() -> Change:
            last = recorded_commits(session, stream.table, [partition]).get(partition.path)
            if last is None or not last.is_held:
                raise PartitionError(f"partition {partition} of {stream.table} is not held:", "nothing was changed.")
            rows = counted_rows(session, stream.table, [partition])[partition]
            row = dataclasses.replace(
                blank_row(stream, partition, options),
                mode=RELEASE,
                status="committed",
                source_fingerprint=last.source_fingerprint,
                row_count=rows,
                rows_before=rows,
                started_at=options.run_at,
                hold=RELEASED,
            )
            return Change(stream.table, partition, row, None, adds=True, requires=Requirements(may_be_held=True))

        return commit_release(session, make)
