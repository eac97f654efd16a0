"""The export of a commit's changes: written before the commit, made visible by it.

The files have the number of the snapshot that the commit becomes, which is certain only under the lake's lock. They are
written before the lock with the number that is next. The commit is refused if it would become another snapshot than its
files say, and tried again under the lock with other files.
"""

import dataclasses
import datetime as dt
import json
import logging
import os
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lake_assets.base.duckdb_engine import glob_literal, identifier
from lake_assets.base.errors import CatalogError, LakeAssetsError
from lake_assets.base.events import step
from lake_assets.config.secrets import masking
from lake_assets.lake.catalog.past_partitions import NEVER, partition_condition
from lake_assets.lake.catalog.table import named_since
from lake_assets.lake.commit.change import Change, EarlierRows, Staged, Written
from lake_assets.lake.commit.deltas import (
    LATEST,
    META_COLUMNS,
    Delta,
    DeltaFile,
    Export,
    RowQuery,
    columns_at,
    difference,
    file_prefix,
    meta_fields,
    query_batches,
    table_tag,
    taken_name,
    with_meta,
)
from lake_assets.lake.failures import translated
from lake_assets.lake.ledger.ledger_relation import WantedRows, wanted_rows
from lake_assets.lake.ledger.tables import DELTAS
from lake_assets.lake.session import LakeSession, TableName
from lake_assets.spark.task.job import discard, discard_unfinished
from lake_assets.spark.task.write import row_groups
from lake_assets.storage.storage_errors import write_errors
from lake_assets.storage.store import Store

_LOG = logging.getLogger(__name__)

LISTED = 1000  # files in `_latest.json`
TRIES = 3  # of `_latest.json` outside of the lock


class Exports:
    """The exported changes of a commit, all for the same snapshot and with the same time."""

    def __init__(self, session: LakeSession, changes: Sequence[Change]) -> None:
        self._session = session
        self._changes = changes
        self._base: int | None = None  # the snapshot before that of the deltas
        # What each change of the commit exports, as it is written now; None if it exports nothing
        self.deltas: list[Delta | None] = [None for _ in changes]

    def prepare(self) -> list[Change]:
        """Return the changes of the commit with what they export now, written as files.

        Files of an earlier call are removed if another commit has been made since. After an error no file of that
        change is left. Raises CatalogError if the table has a column with a name of the changes' own columns, or is
        another one than that of earlier changes.
        """
        if all(change.export is None for change in self._changes):
            return list(self._changes)
        base, moment = self._session.current_snapshot(), dt.datetime.now(dt.UTC)
        if self._base != base:
            self.discard()
            for number, change in enumerate(self._changes):
                if change.export is not None:
                    exporter = Exporter(self._session, change, change.export)
                    self.deltas[number] = exporter.write(Delta(base + 1, moment))
            self._base = base
        return [dataclasses.replace(c, delta=delta) for c, delta in zip(self._changes, self.deltas, strict=True)]

    def announce(self) -> None:
        """List the newest files in `_latest.json`, if it is configured; the commit has been made.

        An error is a warning, because the commit has been made. The next commit or maintenance writes it.
        """
        for change, delta in zip(self._changes, self.deltas, strict=True):
            if change.export is not None and change.export.deltas.latest and delta is not None and delta.files:
                try:
                    write_latest(self._session, change.export)
                except LakeAssetsError as error:
                    _LOG.warning("%s of the deltas of %s was not written: %s", LATEST, change.row.stream, error)
                return

    def discard(self) -> None:
        """Remove the files. No commit must have been made with them."""
        for change, delta in zip(self._changes, self.deltas, strict=True):
            if change.export is not None and delta is not None:
                discard(change.export.deltas.to, [file.uri for file in delta.files])
        self._base, self.deltas = None, [None for _ in self._changes]


class Exporter:
    """The export of one change."""

    def __init__(self, session: LakeSession, change: Change, export: Export) -> None:
        self._session = session
        self._change = change
        self._export = export

    def write(self, delta: Delta) -> Delta:
        """Return the rows that the commit changes now, written as files; `delta` is without them."""
        with step("export") as figures:
            delta = dataclasses.replace(delta, files=self._write(delta))
            rows = sum(file.rows_inserted + file.rows_deleted for file in delta.files)
            figures.update(files=len(delta.files), rows=rows, bytes=sum(file.size for file in delta.files))
        return delta

    def _write(self, delta: Delta) -> list[DeltaFile]:
        base = delta.snapshot_id - 1
        session, table = self._session, self._change.table
        types, fields = columns_at(session, table, base)
        if taken := taken_name(types):
            raise CatalogError(
                f"{table} has a column {taken}, which is a name of the deltas' own columns:",
                "rename it, or remove `deltas` from the stream.",
            )
        deleted = None if self._change.adds else self._before(base)
        if deleted is None:
            refuse_earlier_exports(session, self._export.streams, table)
        inserted = self._after(types)
        if deleted is None and inserted is None:
            return []
        rows = difference(list(types), deleted, inserted)
        schema = pa.schema([*fields, *meta_fields()])
        constants = (delta.snapshot_id, self._change.row.run_id, delta.committed_at)
        batches = (with_meta(batch, schema, constants) for batch in query_batches(session, rows))
        return self._write_files(batches, schema, delta)

    def _before(self, base: int) -> RowQuery | None:
        """Return the rows of the partition in a snapshot; None if there are none."""
        condition, parameters = partition_condition(self._change.partition)
        sql = f"SELECT * FROM {self._change.table.sql} AT (VERSION => {int(base)}) WHERE {condition}"  # noqa: S608
        return RowQuery(sql, parameters) if self._session.rows(f"{sql} LIMIT 1", parameters) else None

    def _after(self, types: dict[str, str]) -> RowQuery | None:
        """Return the rows that the partition gets, with the table's columns and types; None if there are none."""
        new, staged = self._change.new, self._change.new if isinstance(self._change.new, Staged) else None
        if isinstance(new, EarlierRows):
            return self._restored(new, types)
        files = [uri for group in staged.groups for uri in group] if staged else []
        if isinstance(new, Written):
            files = [file.uri for file in new.files]
        if not files:
            return None
        # With a key too, DuckDB 1.5.5 ends its engine. Staged files have the same columns, copied ones may not.
        by_name = "read_parquet(?, hive_partitioning = false, union_by_name = true)"
        source = Staged.source(self._session.config) if staged else by_name
        parameters: list[object] = [list(map(glob_literal, files)), *([staged.key] if staged else [])]
        with translated(self._session.config):
            result = self._session.connection.execute(f"SELECT * FROM {source} LIMIT 0", parameters)  # noqa: S608
            present = {name.lower() for name, *_ in result.description or ()}
        partition = self._change.partition
        values = {c.name.lower(): v for c, v in zip(partition.columns, partition.values, strict=True)}
        columns, constants = list[str](), list[object]()
        for name, kind in types.items():
            if name.lower() in values:
                columns.append(f"?::{kind} AS {identifier(name)}")
                constants.append(values[name.lower()])
            elif name.lower() in present:
                columns.append(f"CAST({identifier(name)} AS {kind}) AS {identifier(name)}")
            else:
                columns.append(f"NULL::{kind} AS {identifier(name)}")
        return RowQuery(f"SELECT {', '.join(columns)} FROM {source}", [*constants, *parameters])  # noqa: S608 - quoted

    def _restored(self, new: EarlierRows, types: dict[str, str]) -> RowQuery | None:
        """Return the rows of the partition in an earlier snapshot, with the table's columns and types; None if none."""
        keys = {column.name.lower() for column in self._change.partition.columns}
        columns = []
        for name, kind in types.items():
            then = name if name.lower() in keys else new.selected.get(name)
            value = "NULL" if then is None else identifier(then)
            columns.append(f"CAST({value} AS {kind}) AS {identifier(name)}")
        condition, parameters = partition_condition(self._change.partition)
        source = f"{self._change.table.sql} AT (VERSION => {int(new.snapshot)}) WHERE {condition}"
        if not self._session.rows(f"SELECT 1 FROM {source} LIMIT 1", parameters):  # noqa: S608 - quoted names
            return None
        return RowQuery(f"SELECT {', '.join(columns)} FROM {source}", parameters)  # noqa: S608

    def _write_files(self, batches: Iterator[pa.RecordBatch], schema: pa.Schema, delta: Delta) -> list[DeltaFile]:
        """Write the changes to files of about the target size; none if there are no changes."""
        storage = self._export.deltas.to
        tag = table_tag(self._session.config, self._change.table)
        prefix = file_prefix(tag, delta.snapshot_id, delta.committed_at)
        files: list[DeltaFile] = []
        groups = row_groups(batches)
        keys: list[str] = []
        try:
            with masking(storage):
                for first in groups:  # the further ones of a file are taken while it is written
                    keys.append(f"{prefix}-{len(files):03d}.parquet")
                    files.append(self._write_file(keys[-1], chain([first], groups), schema))
        except BaseException as error:
            discard_unfinished(storage, [f"{storage.root}/{key}" for key in keys], error)
            raise
        return files

    def _write_file(self, key: str, groups: Iterator[pa.Table], schema: pa.Schema) -> DeltaFile:
        """Write one file of the next row groups, up to the target size."""
        deltas = self._export.deltas
        store = Store(deltas.to)
        counts = {"insert": 0, "delete": 0}
        with write_errors(deltas.to, store.uri(key)), store.create(key) as sink:
            with pq.ParquetWriter(
                sink, schema, compression=deltas.compression, version="2.6", store_schema=False
            ) as writer:
                for group in groups:
                    _count(group, counts)
                    writer.write_table(group)
                    if sink.tell() >= self._export.target_file_size:
                        break
            size = sink.tell()
        return DeltaFile(store.uri(key), counts["insert"], counts["delete"], size)


def _count(group: pa.Table, counts: dict[str, int]) -> None:
    for entry in group.column(META_COLUMNS[0]).value_counts().to_pylist():
        counts[entry["values"]] += entry["counts"]


def refuse_earlier_exports(session: LakeSession, streams: tuple[str, ...], table: TableName) -> None:
    """Refuse to export to consumers that have rows of an earlier table, because no change has the end of these.

    The table was dropped or renamed after the stream exported changes.
    """
    created = named_since(session, table) if session.exists(table) else NEVER
    wanted, of_streams = WantedRows(DELTAS, ["snapshot_id"], {"stream": streams}), ", ".join(map(repr, streams))
    for (last,) in wanted_rows(session, wanted, "WHERE snapshot_id < ? ORDER BY snapshot_id DESC LIMIT 1", [created]):
        manifest = DELTAS.name(session.config)
        raise CatalogError(
            f"the table {table} of snapshot {last} was dropped or renamed, so consumers of the deltas of {streams[0]} "
            "would keep its rows:",
            f"run `DELETE FROM {manifest} WHERE stream IN ({of_streams}) AND snapshot_id <= {last}` in a client "  # noqa: S608
            f"of the lake, and let each consumer begin at snapshot {last + 1} with an empty copy.",
        )


def write_latest(session: LakeSession, export: Export) -> None:
    """Write `_latest.json`: the newest files of the manifest, the oldest of them first.

    A reader sees the old list or the new one. It is written again if another commit has been made meanwhile, whose list
    this one may have replaced; at last under the lake's lock.
    """
    written: bytes | None = None
    for _ in range(TRIES):
        if (body := _latest(session, export.streams)) == written:
            return
        _put(export, body)
        written = body
    with session.commit_lock():
        _put(export, _latest(session, export.streams))


def _latest(session: LakeSession, streams: tuple[str, ...]) -> bytes:
    names = [name for name in DELTAS.columns if name != "stream"]
    wanted = WantedRows(DELTAS, names, {"stream": streams})
    rows = wanted_rows(session, wanted, "ORDER BY snapshot_id DESC, uri DESC LIMIT ?", [LISTED])
    body: dict[str, Any] = {
        "stream": streams[0],
        "snapshot_id": rows[0][names.index("snapshot_id")] if rows else None,
        "files": [dict(zip(names, row, strict=True)) for row in reversed(rows)],
    }
    return json.dumps(body, default=lambda moment: moment.isoformat(), indent=1).encode()


def _put(export: Export, body: bytes) -> None:
    storage = export.deltas.to
    store = Store(storage)
    name = f".{LATEST}.{os.getpid()}" if storage.is_local else LATEST
    with write_errors(storage, store.uri(LATEST)):
        with masking(storage), store.create(name) as sink:
            sink.write(body)
        if storage.is_local:
            Path(storage.root, name).replace(Path(storage.root, LATEST))
