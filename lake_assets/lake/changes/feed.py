"""The changes of a table's rows from history: what each snapshot inserted and deleted."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from lake_assets.duckdb_engine import identifier
from lake_assets.errors import CatalogError
from lake_assets.lake.catalog.changed import ChangedSnapshot, changed_snapshots
from lake_assets.lake.catalog.past import where
from lake_assets.lake.catalog.past_columns import earlier_names
from lake_assets.lake.commit.difference import Rows, columns_at, difference, meta_fields, stream, taken_name, with_meta
from lake_assets.lake.failures import translated
from lake_assets.lake.session import LakeSession, TableName
from lake_assets.layout.partition import Partition


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of a table, which are read while the batches are taken."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]

    @property
    def reader(self) -> pa.RecordBatchReader:
        """The changes as Arrow's reader."""
        return pa.RecordBatchReader.from_batches(self.schema, self.batches)


def read_changes(
    session: LakeSession, table: TableName, since: int, until: int | None = None, partition: Partition | None = None
) -> Changes:
    """Return the rows that snapshots inserted into a table and deleted from it, in the order of the snapshots.

    The columns are those of the table in the last snapshot, then `_change` (`insert` or `delete`), `_snapshot`,
    `_run_id` and `_committed_at`. Of each snapshot the deletes come first. A row that a snapshot deleted and inserted
    again, with all values the same, is not a change. Only files that began or ended in these snapshots are read.

    Args:
        session: an open lake, which must remain open while the batches are taken.
        table: the table.
        since: the first snapshot.
        until: the last snapshot; the newest when None.
        partition: only this partition's rows.

    Raises:
        ExpiredSnapshotError: what some of the snapshots changed is no longer known.
        CatalogError: there is no such table or snapshot, or the table has a column with one of these names.
    """
    if not session.exists(table):
        raise CatalogError(f"the lake has no table {table} yet:", "ingest a partition first.")
    current = session.current_snapshot()
    until = current if until is None else until
    if since > until:
        raise CatalogError(
            f"the first snapshot, {since}, is after the last, {until}:",
            f"the newest snapshot is {current}. Begin at {until} or earlier.",
        )
    snapshots = changed_snapshots(session, table, since, until)
    source = _Source(session, table, until)
    return Changes(source.schema, source.changes(snapshots, partition))


class _Source:
    """The changes of a table, with the columns that it has in one snapshot."""

    def __init__(self, session: LakeSession, table: TableName, until: int) -> None:
        self._session = session
        self._table = table
        self.types, fields = columns_at(session, table, until)
        if taken := taken_name(self.types):
            raise CatalogError(
                f"{table} has a column {taken}, which is a name of the changes' own columns:", "rename it."
            )
        self.schema = pa.schema([*fields, *meta_fields()])
        self._until = until

    def changes(self, snapshots: list[ChangedSnapshot], partition: Partition | None) -> Iterator[pa.RecordBatch]:
        """Yield the changes of these snapshots, one snapshot after the other."""
        for snapshot in snapshots:
            inserted, deleted = (
                self._rows(kind, snapshot.snapshot_id, partition) if is_there else None
                for kind, is_there in (("insertions", snapshot.inserted), ("deletions", snapshot.deleted))
            )
            constants = (snapshot.snapshot_id, snapshot.run_id, snapshot.committed_at)
            query = difference(list(self.types), deleted, inserted)
            for batch in stream(self._session, query):
                yield with_meta(batch, self.schema, constants)

    def _rows(self, kind: str, snapshot: int, partition: Partition | None) -> Rows:
        """Return the rows that a snapshot inserted or deleted, with the columns of the last snapshot."""
        before = earlier_names(self._session, self._table, snapshot, self._until)
        function = f"ducklake_table_{kind}(?, ?, ?, ?::BIGINT, ?::BIGINT)"
        parameters: list[object] = [self._session.alias, self._table.schema, self._table.table, snapshot, snapshot]
        with translated(self._session.config):
            present = self._columns(function, parameters)
        columns = ", ".join(self._column(name, before, present) for name in self.types)
        sql = f"SELECT {columns} FROM {function}"  # noqa: S608 - quoted names
        if partition is not None:
            condition, more = where(partition)
            sql, parameters = f"SELECT * FROM ({sql}) WHERE {condition}", [*parameters, *more]  # noqa: S608
        return Rows(sql, parameters)

    def _columns(self, function: str, parameters: list[object]) -> Mapping[str, str]:
        """Return the types of the columns in a snapshot, by their names in lower case."""
        result = self._session.connection.execute(f"SELECT * FROM {function} LIMIT 0", parameters)  # noqa: S608
        return {name.lower(): str(kind) for name, kind, *_ in result.description or ()}

    def _column(self, name: str, before: Mapping[str, str] | None, present: Mapping[str, str]) -> str:
        """Return a column of the last snapshot from the rows of another one, where it may have another name or type."""
        earlier = name if before is None else before.get(name.lower())
        kind = self.types[name]
        if earlier is None or earlier.lower() not in present:
            return f"NULL::{kind} AS {identifier(name)}"
        if earlier == name and present[earlier.lower()] == kind:
            return identifier(name)  # DuckLake skips files by conditions on it
        return f"CAST({identifier(earlier)} AS {kind}) AS {identifier(name)}"
