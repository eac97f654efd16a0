"""A table in one snapshot as tasks get it: its columns, its files and their deletes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

MappedColumn = tuple[int, str, int, int | None, bool]
"""A column of a mapping: its number, its name in the file, the table's column, its parent, and whether it is a key."""
Mappings = Mapping[int, Sequence[MappedColumn]]
"""The mappings by name of a table's files, by their ids."""


@dataclass(frozen=True, slots=True)
class ScanColumn:
    """A column of a table, or a part of a nested one."""

    column_id: int
    name: str
    sql: str  # its type in DuckDB
    type: pa.DataType
    default: pa.Scalar  # in rows of files that are older than the column
    parts: tuple["ScanColumn", ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """A file with the positions of rows that were deleted from a data file."""

    uri: str
    key: str | None  # by which it is encrypted, in base64
    until: int | None  # it has deletes of later snapshots, too: those up to this one count


@dataclass(slots=True)
class ScanFile:
    """A data file."""

    uri: str
    size: int  # bytes
    rows: int  # with deleted ones
    key: str | None  # by which it is encrypted, in base64
    mapping: int | None  # of its columns by name; None: by the ids in the file
    until: int | None  # it has rows of later snapshots, too: those up to this one count
    deletes: list[DeleteFile] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)  # of deleted rows, as the catalog has them


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A data file of which rows were added or deleted in a range of snapshots."""

    file: ScanFile  # without what was deleted
    begin: int  # the snapshot that added its rows; of rows of several snapshots the first
    end: int | None  # the snapshot that deleted all that were left
    first_row: int  # the id of its first row, unless it has a column of ids
    deletes: Sequence[tuple[int, DeleteFile]]  # in the order of the snapshots that added them
    positions: Sequence[tuple[int, int]]  # snapshots, and positions of rows that the catalog has as deleted

    def has_deletes(self, first: int, last: int) -> bool:
        """Return whether rows of it may have been deleted in a range of snapshots."""
        moments = [d.until or at for at, d in self.deletes] + [at for at, _ in self.positions]
        return any(at >= first for at in moments) or (self.end is not None and first <= self.end <= last)

    def span(self, first: int, last: int) -> tuple[int, int]:
        """Return the first and the last snapshot of a range that may have changed its rows."""
        ends = (
            self.end,
            self.file.until,
            *(d.until or at for at, d in self.deletes),
            *(at for at, _ in self.positions),
        )
        return max(self.begin, first), min(max(self.begin, *(end or 0 for end in ends)), last)


CHANGE = pa.schema([("snapshot_id", pa.int64()), ("rowid", pa.int64()), ("change_type", pa.string())])
"""What a changed row has before its columns, as in DuckLake's `table_changes`."""
