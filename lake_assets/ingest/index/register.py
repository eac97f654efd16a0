"""Registers new objects of a stream: inspects each, and commits all that can be registered at once."""

import dataclasses
import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import pyarrow as pa

from lake_assets.errors import LakeAssetsError, ObjectRefusedError, SourceError
from lake_assets.lake.catalog.registered import PathState
from lake_assets.lake.catalog.table import Table
from lake_assets.lake.commit.candidates import Candidate, Inspection, inspect_candidates
from lake_assets.lake.commit.registration import (
    LandedFile,
    RefusedFilesError,
    RegisteredBeforeError,
    Registration,
)
from lake_assets.lake.commit.strategy import commit_registration
from lake_assets.lake.ledger.tables import LedgerRow
from lake_assets.lake.schema.fitting import Keys
from lake_assets.lake.schema.tables import create_table, is_never_filled, prepare_table
from lake_assets.lake.session import LakeSession
from lake_assets.layout.partition import Partition
from lake_assets.parquet.empty_columns import filled
from lake_assets.parquet.read import read_schema
from lake_assets.storage.arrow import ArrowStore
from lake_assets.storage.manifest import Manifest
from lake_assets.storage.store import LandedObject
from lake_assets.streams.stream import OpenStream

_BEFORE: Mapping[PathState, str] = {
    "ended": "was registered before and has ended, so DuckLake will delete it",
    "elsewhere": "is a file of another table of this lake, which would delete it",
}

MOST_SCHEMAS = 100  # objects at most, for the types of columns that are NULL in all rows of the first


@dataclass
class Registrar:
    """Registers objects, and keeps what became of them.

    Attributes:
        stream: whose objects.
        rows: a ledger row for each partition, to be filled in.
        present: the objects of each partition that the lake has already; those that are registered are added.
        committed: the ledger rows as they stand in the ledger, by partition.
        errors: of the objects that were not registered, by URI.
    """

    stream: OpenStream
    rows: Mapping[Partition, LedgerRow]
    present: dict[Partition, list[LandedObject]]
    committed: dict[Partition, LedgerRow] = field(default_factory=dict)
    errors: dict[str, LakeAssetsError] = field(default_factory=dict)

    def register(self, session: LakeSession, candidates: Sequence[Candidate]) -> None:
        """Register all that can be, making the table if there is none.

        Raises:
            SchemaError: the table is none that files can be registered for.
            StorageError: the landing zone cannot be reached.
            CommitConflictError: other writers were faster too often.
            CatalogError: the lake is encrypted, or its catalog refuses.
        """
        candidates = self._make_table(session, candidates)
        if not candidates:
            return
        prepare_table(session, self.stream.table)
        inspection = self.inspect(session, candidates)
        self.errors |= inspection.errors
        # Those that only the extension can register are a commit of their own.
        by_strategy: tuple[list[LandedFile], list[LandedFile]] = ([], [])
        for file in inspection.files:
            by_strategy[inspection.described is None or (file.facts is None and file.rows > 0)].append(file)
        direct, others = by_strategy
        self._commit(session, inspection.described, direct)
        self._commit(session, None, others)

    def inspect(self, session: LakeSession, candidates: Sequence[Candidate]) -> Inspection:
        """Inspect objects that are to be registered; see `inspect_candidates`."""
        stream = self.stream
        return inspect_candidates(
            session,
            stream.table,
            Keys(stream.config.columns, stream.layout, stream.config.derived),
            candidates,
            self._schema_of,
            probe=stream.source.probe,
        )

    def _schema_of(self, o: LandedObject) -> pa.Schema:
        return read_schema(ArrowStore(self.stream.config.source), o.key, as_it_is=True)

    def _schemas(self, objects: Iterable[LandedObject]) -> Iterator[pa.Schema]:
        """Those of these objects that can be read; what is wrong with the others is reported when their turn comes."""
        for o in objects:
            with suppress(SourceError, ObjectRefusedError):
                yield self._schema_of(o)

    def _make_table(self, session: LakeSession, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Make the table as the first object is that can be read; returns the objects from that one on."""
        left = list(candidates)
        if session.exists(self.stream.table) and not is_never_filled(session, self.stream.table):
            return left
        while left:
            try:
                (first, _), *others = left
                schema = filled(self._schema_of(first), self._schemas(o for o, _ in others[:MOST_SCHEMAS]))
                create_table(session, self.stream.table, schema, self.stream.config.columns, f"the object {first.uri}")
            except (SourceError, ObjectRefusedError) as error:
                self.errors[left.pop(0)[0].uri] = error
            else:
                break
        return left

    def _commit(self, session: LakeSession, described: Table | None, files: Sequence[LandedFile]) -> None:
        if not files:
            return
        try:
            rows = commit_registration(session, self._registration(described, files))
        except RegisteredBeforeError as error:
            self._commit(session, described, [file for file in files if not self._registered_before(file, error)])
        except RefusedFilesError as error:
            if len(files) == 1:
                self.errors[files[0].uri] = error
                return
            half = len(files) // 2
            self._commit(session, described, files[:half])
            self._commit(session, described, files[half:])
        else:
            for file in files:
                self.present[file.partition].append(file.object)
            for partition, row in zip(dict.fromkeys(file.partition for file in files), rows, strict=True):
                self.committed[partition] = _together(self.committed.get(partition), row)

    def _registered_before(self, file: LandedFile, error: RegisteredBeforeError) -> bool:
        state = error.states.get(file.uri)
        if state == "live":  # by another process meanwhile, or by hand
            self.present[file.partition].append(file.object)
        elif state is not None:
            self.errors[file.uri] = SourceError(
                f"the object {file.uri} {_BEFORE[state]} when no snapshot needs it:", "land it under another name."
            )
        return state is not None

    def _registration(self, described: Table | None, files: Sequence[LandedFile]) -> Registration:
        by_partition: dict[Partition, list[LandedFile]] = {}
        for file in files:
            by_partition.setdefault(file.partition, []).append(file)
        now = dt.datetime.now(dt.UTC)
        rows = {partition: self._row(partition, some, now) for partition, some in by_partition.items()}
        return Registration(self.stream.table, described, files, rows)

    def _row(self, partition: Partition, files: Sequence[LandedFile], now: dt.datetime) -> LedgerRow:
        objects = sorted([*self.present[partition], *(file.object for file in files)], key=lambda o: o.key)
        manifest = Manifest(tuple(objects))
        return dataclasses.replace(
            self.rows[partition],
            status="committed",
            row_count=sum(file.rows for file in files),
            source_files=len(objects),
            source_bytes=manifest.size,
            files_written=sum(1 for file in files if file.rows),
            bytes_written=sum(file.object.size for file in files if file.rows),
            source_fingerprint=self.stream.fingerprint(manifest),
            started_at=now,
        )


def _together(first: LedgerRow | None, second: LedgerRow) -> LedgerRow:
    """What two commits of one partition did."""
    if first is None:
        return second
    return dataclasses.replace(
        second,
        row_count=(first.row_count or 0) + (second.row_count or 0),
        rows_before=first.rows_before,
        files_written=(first.files_written or 0) + (second.files_written or 0),
        bytes_written=(first.bytes_written or 0) + (second.bytes_written or 0),
    )
