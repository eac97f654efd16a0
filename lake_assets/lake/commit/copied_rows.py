"""A restore by INSERT from time travel: for rows that are not whole files, and lakes that accept no written files."""

import dataclasses
import tempfile
from pathlib import Path

from lake_assets.duckdb_engine import identifier
from lake_assets.lake.catalog.past import where
from lake_assets.lake.commit.extension import replace_in_transaction
from lake_assets.lake.commit.insert import insert_staged, with_rows
from lake_assets.lake.commit.replacement import Replacement
from lake_assets.lake.commit.restoration import Restoration
from lake_assets.lake.ledger.tables import LedgerRow
from lake_assets.lake.session import LakeSession


def restore_by_insert(session: LakeSession, restoration: Restoration, target: int) -> LedgerRow:
    """Try once to replace a partition by its rows of an earlier snapshot, which DuckLake reads and writes.

    Args:
        session: an open lake.
        restoration: with the columns to read.
        target: bytes of a file.

    Returns:
        The ledger row as written, with the rows, and the files and bytes that DuckLake wrote.

    Raises:
        CatalogError: the snapshot has expired, the catalog refuses, or another writer was faster; nothing has changed.
    """
    with tempfile.TemporaryDirectory(prefix="lake-assets-") as temporary:
        return replace_in_transaction(
            session, restoration, insert_staged, first=lambda: _staged(session, restoration, Path(temporary), target)
        )


def _staged(session: LakeSession, restoration: Restoration, folder: Path, target: int) -> Replacement:
    """The replacement with the rows of the snapshot staged.

    They are read before the present rows are deleted, because DuckLake then leaves the files of these out of time
    travel too.
    """
    condition, parameters = where(restoration.partition)
    selected = restoration.selected or {}
    columns = ", ".join(f"{identifier(then)} AS {identifier(now)}" for now, then in selected.items())
    query = f"SELECT {columns} FROM {restoration.table.sql} AT (VERSION => ?) WHERE {condition}"  # noqa: S608 - quoted
    row = dataclasses.replace(restoration.row, files_written=None, bytes_written=None, files_copied=None)
    # The columns that were added since are not inserted, so that the table may have others than the rows.
    plain = dataclasses.replace(restoration, row=row, columns=list(selected), copies=())
    replacement = with_rows(session, plain, (query, [restoration.snapshot, *parameters]), folder, target)
    if replacement.row.row_count:
        return replacement
    row = dataclasses.replace(replacement.row, files_written=0, bytes_written=0)
    return dataclasses.replace(replacement, row=row, staged=None)
