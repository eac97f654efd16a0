"""Reads the files of partitions, live and ended, from the catalog; see `past.py` for what they say."""

from collections.abc import Collection, Iterator, Sequence

from lake_assets.duckdb_engine import identifier
from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.database import CatalogDatabase, NotDirectError, Row, catalog_reading
from lake_assets.lake.catalog.inlined import inlined_tables
from lake_assets.lake.catalog.partition_files import of_partition, values_of_files
from lake_assets.lake.catalog.past import LIVE, NEVER, SINGLY, CatalogFile, Deletes, Key, PastTable, Span, key_of
from lake_assets.lake.catalog.snapshots import Snapshot, snapshots_with_rows
from lake_assets.lake.catalog.table import read_folder
from lake_assets.lake.session import LakeSession, TableName
from lake_assets.layout.partition import Partition, PartitionColumn


def past_table(
    session: LakeSession,
    name: TableName,
    columns: Sequence[PartitionColumn],
    partitions: Collection[Partition] | None = None,
    since: int = 0,
) -> PastTable:
    """Read the files of partitions, up to `SINGLY` of them without those of others.

    Args:
        session: an open lake.
        name: of the table.
        columns: the partition columns.
        partitions: those to read; all when None.
        since: files that ended up to this snapshot are left out; with `LIVE`, all that have ended.

    Raises:
        CatalogError: the catalog cannot be read.
    """
    if session.unknown_specification is not None:
        return PastTable(session, name)
    try:
        with catalog_reading(session) as database:
            return _Reader(session, database, name, columns).read(partitions, since)
    except NotDirectError:
        return PastTable(session, name)


def changed_partitions(
    session: LakeSession, name: TableName, columns: Sequence[PartitionColumn], numbers: Sequence[Snapshot], most: int
) -> dict[int, set[Key]]:
    """Return the partitions in which each of these snapshots added or ended files, or changed rows.

    Args:
        session: an open lake.
        name: of the table.
        columns: the partition columns.
        numbers: the snapshots.
        most: partitions of each kind of change, those of the newest snapshots.

    Raises:
        NotDirectError: there is no such table, or the catalog's tables cannot be used.
        CatalogError: the catalog cannot be read.
    """
    if not numbers:
        return {}
    with catalog_reading(session) as database:
        reader = _Reader(session, database, name, columns)
        found = reader.changed([snapshot.number for snapshot in numbers], most)
        hidden = reader.hidden()
    for snapshot in numbers:
        if snapshot.changes_rows(reader.table_id) and any(snapshot.number in span for span in hidden):
            found.setdefault(snapshot.number, set()).update(reader.changed_by_duckdb(snapshot.number, most))
    return found


class _Reader:
    """Reads the catalog's tables about one table."""

    def __init__(
        self, session: LakeSession, database: CatalogDatabase, name: TableName, columns: Sequence[PartitionColumn]
    ) -> None:
        self.session, self.database, self.name, self.columns = session, database, name, columns
        self.table_id, self.folder = read_folder(database, name)
        self.names = self._names()
        now = {
            name.lower(): number for number, names in self.names.items() for name, span in names if span.last == NEVER
        }
        self.groups = self._groups([now.get(column.name.lower()) for column in columns])

    def _names(self) -> dict[int, list[tuple[str, Span]]]:
        names: dict[int, list[tuple[str, Span]]] = {}
        for number, name, begin, end in self.database.rows(
            "SELECT column_id, column_name, begin_snapshot, end_snapshot "
            f"FROM {spec.COLUMN} WHERE table_id = ? AND parent_column IS NULL",
            [self.table_id],
        ):
            names.setdefault(number, []).append((name, Span(begin, NEVER if end is None else end)))
        return names

    def _groups(self, column_ids: Sequence[int | None]) -> dict[tuple[int, ...], list[int]]:
        """Return the partitionings that have the partition's columns as they are, by the places of their keys."""
        keys: dict[int, dict[int, int]] = {}
        for partitioning, index, column_id, transform in self.database.rows(
            f"SELECT partition_id, partition_key_index, column_id, transform FROM {spec.PARTITION_COLUMN} "
            "WHERE table_id = ?",
            [self.table_id],
        ):
            if transform == "identity":
                keys.setdefault(partitioning, {})[column_id] = index
        groups: dict[tuple[int, ...], list[int]] = {}
        for partitioning, places in keys.items():
            found = [places[number] for number in column_ids if number is not None and number in places]
            if len(found) == len(column_ids):
                groups.setdefault(tuple(found), []).append(partitioning)
        return groups

    def read(self, partitions: Collection[Partition] | None, since: int) -> PastTable:
        """Return the files of these partitions."""
        files: dict[Key | None, list[CatalogFile]] = {}
        moment, moments = _ended_after(since)
        wanted = None if partitions is None else {key_of(partition) for partition in partitions}
        singly = [] if wanted is None or len(wanted) > SINGLY else list(wanted)
        for places, ids in self.groups.items():
            values, joins = values_of_files(places)
            marks = ", ".join("?" for _ in ids)
            for condition, parameters in [of_partition(self.table_id, key, places) for key in singly] or [
                ("f.table_id = ?", [self.table_id])
            ]:
                for row in self.database.rows(
                    f"SELECT {values}, {_COLUMNS} FROM {spec.DATA_FILE} f {joins} "
                    f"WHERE {condition} AND f.partition_id IN ({marks}) AND {moment} ORDER BY f.data_file_id",
                    [*parameters, *ids, *moments],
                ):
                    key = tuple(row[: len(places)])
                    if wanted is None or key in wanted:
                        files.setdefault(key, []).append(self._file(row[len(places) :]))
        elsewhere = [*self._of_others(files if partitions is None else None, moment, moments), *self._inlined()]
        deletes = self._deletes([file.file_id for of_key in files.values() for file in of_key])
        groups: list[Sequence[CatalogFile | Deletes]] = [*files.values(), *deletes.values()]
        is_hidden = bool(elsewhere) or any(entry.until is not None for entries in groups for entry in entries)
        changed = snapshots_with_rows(self.database, self.table_id) if is_hidden and since != LIVE else ()
        return PastTable(self.session, self.name, True, files, deletes, elsewhere, changed, self.names)

    def changed(self, numbers: Sequence[int], most: int) -> dict[int, set[Key]]:
        """Return the partitions in which these snapshots added or ended files, or deleted rows of these."""
        found: dict[int, set[Key]] = {}
        deletes = [(spec.DELETE_FILE, "data_file_id")]
        if self.database.has_table(inlined := spec.inlined_deletes(self.table_id)):
            deletes.append((inlined, "file_id"))
        moments = [("f.begin_snapshot", ""), ("f.end_snapshot", "")]
        moments += [
            ("d.begin_snapshot", f"JOIN {identifier(table)} d ON d.{file_id} = f.data_file_id")
            for table, file_id in deletes
        ]
        for places, ids in self.groups.items():
            values, joins = values_of_files(places)
            listed, among = (", ".join("?" for _ in some) for some in (ids, numbers))
            order = ", ".join(str(2 + key) for key in range(len(places)))
            for moment, join in moments:
                for number, *texts in self.database.rows(
                    f"SELECT DISTINCT {moment}, {values} FROM {spec.DATA_FILE} f {join} {joins} WHERE f.table_id = ? "
                    f"AND f.partition_id IN ({listed}) AND {moment} IN ({among}) ORDER BY 1 DESC, {order} LIMIT ?",
                    [self.table_id, *ids, *numbers, most],
                ):
                    found.setdefault(number, set()).add(tuple(texts))
        return found

    def hidden(self) -> list[Span]:
        """Return the snapshots that may have changed rows of partitions without an entry that says which."""
        spans = [*self._of_others(None, "1 = 1", ()), *self._inlined()]
        for table in (spec.DATA_FILE, spec.DELETE_FILE):
            spans += [
                Span(first, last)
                for first, last in self.database.rows(
                    f"SELECT min(begin_snapshot), max(partial_max) FROM {table} "
                    "WHERE table_id = ? AND partial_max IS NOT NULL",
                    [self.table_id],
                )
                if first is not None
            ]
        return [span.closed for span in spans]

    def changed_by_duckdb(self, snapshot: int, most: int) -> set[Key]:
        """Return the partitions whose rows a snapshot changed; the catalog's transaction may have ended."""
        names = PastTable(self.session, self.name, names=self.names).present_names(snapshot)
        listed = ", ".join(identifier(names.get(column.name.lower(), column.name)) for column in self.columns)
        kinds = ("insertions", "deletions")
        changes = " UNION ".join(
            f"SELECT {listed} FROM ducklake_table_{kind}(?, ?, ?, ?::BIGINT, ?::BIGINT)" for kind in kinds
        )
        parameters = [self.session.alias, self.name.schema, self.name.table, snapshot, snapshot]
        rows = self.session.rows(f"{changes} ORDER BY ALL LIMIT {most:d}", parameters * len(kinds))
        return {tuple(None if value is None else str(value) for value in row) for row in rows}

    def _file(self, row: Row) -> CatalogFile:
        file_id, path, is_below, rows, size, begin, end, partitioning, until, row_id, key = row
        is_plain = until is None and row_id is not None and key is None
        uri = (self.folder if is_below else "") + path
        return CatalogFile(file_id, uri, rows, size, begin, end, partitioning, until, is_plain)

    def _of_others(
        self, files: dict[Key | None, list[CatalogFile]] | None, moment: str, moments: Sequence[object]
    ) -> Iterator[Span]:
        """Yield the snapshots with files of other partitionings; the files themselves too, if all are read."""
        ids = [number for group in self.groups.values() for number in group]
        other = f"f.partition_id IS NULL OR f.partition_id NOT IN ({', '.join('?' for _ in ids)})" if ids else "1 = 1"
        query = f"FROM {spec.DATA_FILE} f WHERE f.table_id = ? AND ({other}) AND {moment}"
        parameters = [self.table_id, *ids, *moments]
        ((first, last),) = self.database.rows(
            f"SELECT min(f.begin_snapshot), max(coalesce(f.end_snapshot, {NEVER})) {query}", parameters
        )
        if first is None:
            return
        if files is not None:
            files[None] = [self._file(row) for row in self.database.rows(f"SELECT {_COLUMNS} {query}", parameters)]
        yield Span(first, last)

    def _inlined(self) -> Iterator[Span]:
        """Yield the snapshots with inlined rows."""
        version = self.database.version
        begin, end = identifier(version.begin_snapshot), identifier(version.end_snapshot)
        for name in inlined_tables(self.database, self.table_id):
            ((first, last),) = self.database.rows(
                f"SELECT min({begin}), max(coalesce({end}, {NEVER})) FROM {identifier(name)}"
            )
            if first is not None:
                yield Span(first, last)

    def _deletes(self, file_ids: Sequence[int]) -> dict[int, list[Deletes]]:
        columns = "data_file_id, delete_count, begin_snapshot, end_snapshot, partial_max"
        rows = self.database.rows_among(f"SELECT {columns} FROM {spec.DELETE_FILE} WHERE data_file_id IN", file_ids)
        inlined = spec.inlined_deletes(self.table_id)
        if file_ids and self.database.has_table(inlined):
            rows += self.database.rows_among(
                "SELECT file_id, number, begin_snapshot, NULL, NULL FROM (SELECT file_id, count(*) AS number, "
                f"begin_snapshot FROM {identifier(inlined)} GROUP BY file_id, begin_snapshot) AS d WHERE file_id IN",
                file_ids,
            )
        result: dict[int, list[Deletes]] = {}
        for file_id, *values in rows:
            result.setdefault(file_id, []).append(Deletes(*values))
        return result


_COLUMNS = (
    "f.data_file_id, f.path, f.path_is_relative, f.record_count, f.file_size_bytes, f.begin_snapshot, f.end_snapshot, "
    "f.partition_id, f.partial_max, f.row_id_start, f.encryption_key"
)


def _ended_after(since: int) -> tuple[str, list[object]]:
    """Return the condition for files that are live, or ended after a snapshot."""
    if since == LIVE:
        return "f.end_snapshot IS NULL", []
    return "(f.end_snapshot IS NULL OR f.end_snapshot > ?)", [since]
