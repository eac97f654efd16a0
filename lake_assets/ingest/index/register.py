"""Registers new objects of a stream: inspects each, and commits all that can be registered at once."""

import datetime as dt
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa

from lake_assets.base.errors import LakeAssetsError, ObjectRefusedError, SchemaError, SourceError
from lake_assets.config.layout.partition import Partition
from lake_assets.lake.catalog.catalog_database import NotDirectError
from lake_assets.lake.catalog.file_entries import PathState, registered_before
from lake_assets.lake.catalog.table import Table, read_folder
from lake_assets.lake.commit.candidates import Candidate, Inspection, inspect_candidates
from lake_assets.lake.commit.change import Change, LandedFile, LandedFiles, RefusedFilesError, RegisteredBeforeError
from lake_assets.lake.commit.strategy import commit
from lake_assets.lake.file_checker import FileChecker, PartitionKeys
from lake_assets.lake.ledger.tables import MANIFEST, LedgerRow, Values, manifest_values
from lake_assets.lake.session import LakeSession, PartitionedTable
from lake_assets.lake.table_setup import (
    ColumnChange,
    Evolution,
    create_table,
    created_schema,
    data_schema,
    prepare_table,
    rules_of_table,
)
from lake_assets.schema.arrow_types import data_file_schema, untyped_columns, with_types_of
from lake_assets.schema.fitter import Target
from lake_assets.storage.formats.parquet_files import read_footer, read_schema
from lake_assets.storage.manifest import LandedObject, Manifest
from lake_assets.storage.store import Store
from lake_assets.streams.stream import OpenStream

_BEFORE: Mapping[PathState, str] = {
    "ended": "was registered before and has ended, so DuckLake will delete it",
    "elsewhere": "is a file of another table of this lake, which would delete it",
}

T = TypeVar("T")

MOST_SCHEMAS = 100  # read for the types of columns that are NULL in all rows of the first object


@dataclass
class Registrar:
    """Registers objects, and collects the results."""

    stream: OpenStream
    rows: Mapping[Partition, LedgerRow]  # a ledger row for each partition, to be filled in, with its seconds so far
    # The objects of each partition in the lake; those that are registered are added
    present: dict[Partition, list[LandedObject]]
    committed: dict[Partition, LedgerRow] = field(default_factory=dict)
    errors: dict[str, LakeAssetsError] = field(default_factory=dict)  # of the objects that were not registered, by URI
    changes: list[ColumnChange] = field(default_factory=list)
    # When the registration began, by `time.perf_counter`; its partitions share the seconds since then equally
    began: float = field(default_factory=time.perf_counter)

    def register(self, session: LakeSession, candidates: Sequence[Candidate]) -> None:
        """Register the objects that can be registered, and create the table if there is none.

        Raises SchemaError if files cannot be registered for this table, and CommitConflictError if other writers were
        faster too often.
        """
        known = self.stream.table_columns(session)
        if known is None:
            candidates, _ = self._from_first(candidates, partial(create_table, session))
        else:
            self._give_types(session, candidates, known)
        if not candidates:
            return
        prepare_table(session, self.stream.table)
        inspection = self.inspect(session, candidates)
        self.errors |= inspection.errors
        # The files that only the extension can register are committed separately.
        by_strategy: tuple[list[LandedFile], list[LandedFile]] = ([], [])
        for file in inspection.files:
            by_strategy[inspection.described is None or (file.facts is None and file.rows > 0)].append(file)
        direct, others = by_strategy
        self._commit(session, inspection.described, direct)
        self._commit(session, None, others)

    def refusals(self, lake: LakeSession | None, candidates: Sequence[Candidate]) -> dict[str, LakeAssetsError]:
        """Return the errors that a registration of these objects would have now, by URI. Nothing is written."""
        session, table = lake or self.stream.lake.unattached(), self.stream.table
        uris = [obj.uri for obj, _ in candidates]
        try:
            known = self.stream.table_columns(lake)
            if known is None:
                candidates, columns = self._from_first(candidates, created_schema)
            else:
                filled_in = with_types_of(known, self._schemas(candidates))
                columns = None if filled_in.equals(known) else data_file_schema(filled_in)
        except SchemaError as error:
            return dict.fromkeys(uris, error)
        errors = self.errors | (self.inspect(session, candidates, columns).errors if candidates else {})
        exists = lake is not None and lake.exists(table)
        with suppress(NotDirectError), session.read() as database:
            table_id, folder = read_folder(database, table) if exists else (0, "")  # no table has this id
            states = registered_before(database, table_id, folder, uris)
            errors = {uri: _refused(uri, state) for uri, state in states.items() if state != "live"} | errors
        return errors

    def inspect(
        self, session: LakeSession, candidates: Sequence[Candidate], columns: pa.Schema | None = None
    ) -> Inspection:
        """Inspect objects that are to be registered, each with its partition; see `inspect_candidates`.

        The session's engine has the secret of the landing zone. `columns` are those that the table will have by then;
        None: it has them.
        """
        stream = self.stream
        keys = PartitionKeys(stream.config.partition_columns, stream.layout)
        rules = rules_of_table(session, stream.table, stream.landed.rules)
        target = Target(data_schema(session, stream.partitioned_table) if columns is None else columns, rules)
        checker = FileChecker(session, keys, target, self._schema_of)
        table = stream.table if columns is None else None
        return inspect_candidates(table, checker, candidates, stream.source.probe)

    def _schema_of(self, obj: LandedObject) -> pa.Schema:
        return read_schema(Store(self.stream.config.source), obj.key, as_it_is=True)

    def _schemas(self, candidates: Sequence[Candidate]) -> Iterator[pa.Schema]:
        """Return the schemas of the first objects with rows that can be read. The inspection reports the others."""
        for obj, _ in candidates[:MOST_SCHEMAS]:
            with suppress(SourceError, ObjectRefusedError):
                rows, schema = read_footer(Store(self.stream.config.source), obj.key, as_it_is=True)
                if rows:
                    yield schema

    def _from_first(
        self, candidates: Sequence[Candidate], make: Callable[[PartitionedTable, pa.Schema, str], T]
    ) -> tuple[list[Candidate], T | None]:
        """Make a table, or its schema, of the columns of the first object with rows.

        Returns the objects without those before it, which cannot be read or have no columns for a table; and what is
        made.
        """
        remaining = list(candidates)
        while remaining:
            first, _ = remaining[0]
            try:
                own, schemas = self._schema_of(first), self._schemas(remaining)
                origin = f"the object {first.uri}"
                schema = self.stream.landed.rules.created(next(schemas, own), schemas, origin)
                return remaining, make(self.stream.partitioned_table, schema, origin)
            except (SourceError, ObjectRefusedError) as error:
                self.errors[remaining.pop(0)[0].uri] = error
        return [], None

    def _give_types(self, session: LakeSession, candidates: Sequence[Candidate], known: pa.Schema) -> None:
        """Give columns of the table that have never had a value the types that they have in the first objects."""
        after = with_types_of(known, self._schemas(candidates)) if untyped_columns(known) else known
        if not after.equals(known):
            run_id = next(iter(self.rows.values())).run_id
            evolution = Evolution(session, self.stream.partitioned_table, run_id)
            self.changes += evolution.take([("the new objects", after)], self.stream.landed.rules)

    def _commit(self, session: LakeSession, described: Table | None, files: Sequence[LandedFile]) -> None:
        if not files:
            return
        try:
            committed = commit(session, self._changes(described, files))
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
            for partition, done in zip(dict.fromkeys(file.partition for file in files), committed, strict=True):
                self.committed[partition] = _combined(self.committed.get(partition), done.row)

    def _registered_before(self, file: LandedFile, error: RegisteredBeforeError) -> bool:
        state = error.states.get(file.uri)
        if state == "live":  # by another process meanwhile, or by hand
            self.present[file.partition].append(file.object)
        elif state is not None:
            self.errors[file.uri] = _refused(file.uri, state)
        return state is not None

    def _changes(self, described: Table | None, files: Sequence[LandedFile]) -> list[Change]:
        by_partition: dict[Partition, list[LandedFile]] = {}
        for file in files:
            by_partition.setdefault(file.partition, []).append(file)
        now = dt.datetime.now(dt.UTC)
        return [
            Change(
                self.stream.table,
                partition,
                self._row(partition, own, now),
                LandedFiles(described, own),
                adds=True,
                appends={MANIFEST: noted(own)},
            )
            for partition, own in by_partition.items()
        ]

    def _row(self, partition: Partition, files: Sequence[LandedFile], now: dt.datetime) -> LedgerRow:
        present = [*self.present[partition], *(file.object for file in files)]
        row = self.rows[partition]
        seconds = round((row.seconds or 0) + (time.perf_counter() - self.began) / len(self.rows), 3)
        return replace(
            row, started_at=now, seconds=seconds, **read_from(self.stream, present), **committed_columns(files)
        )


def read_from(stream: OpenStream, objects: Iterable[LandedObject]) -> dict[str, Any]:
    """Return the columns of a ledger row for the landed objects that the lake has after the commit."""
    manifest = Manifest(tuple(sorted(objects, key=lambda obj: obj.key)))
    return {
        "source_files": len(manifest.objects),
        "source_bytes": manifest.size,
        "source_fingerprint": stream.fingerprint(manifest),
    }


def committed_columns(files: Iterable[LandedFile]) -> dict[str, Any]:
    """Return the columns of a ledger row for these files; those without rows are not files of the table."""
    filled_files = [file for file in files if file.rows]
    return {
        "status": "committed",
        "row_count": sum(file.rows for file in filled_files),
        "files_written": len(filled_files),
        "bytes_written": sum(file.object.size for file in filled_files),
    }


def noted(files: Sequence[LandedFile]) -> list[Values]:
    """Return the values of `MANIFEST` for landed files."""
    return manifest_values(Manifest(tuple(f.object for f in files)), {f.object.key: f.rows for f in files})


def _refused(uri: str, state: PathState) -> SourceError:
    """Return the error of an object whose path the catalog has had before."""
    return SourceError(f"the object {uri} {_BEFORE[state]} when no snapshot needs it:", "land it under another name.")


def _combined(first: LedgerRow | None, second: LedgerRow) -> LedgerRow:
    """Return the ledger row of two commits of one partition."""
    if first is None:
        return second
    return replace(
        second,
        row_count=(first.row_count or 0) + (second.row_count or 0),
        rows_before=first.rows_before,
        files_written=(first.files_written or 0) + (second.files_written or 0),
        bytes_written=(first.bytes_written or 0) + (second.bytes_written or 0),
    )
