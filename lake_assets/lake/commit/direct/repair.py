"""The repair of registered files that changed or vanished: what the catalog says of them becomes true again.

A path must not be registered a second time, for DuckLake would delete the file when its first entry's last snapshot
expires. So a changed file keeps its entry, and the entry's facts are replaced.
"""

from collections.abc import Sequence

from lake_assets.errors import CatalogError
from lake_assets.lake.catalog.database import NotDirectError
from lake_assets.lake.catalog.footers import Addition
from lake_assets.lake.catalog.mapping import ensure_mapping
from lake_assets.lake.catalog.registered import live_file_ids
from lake_assets.lake.catalog.table import key_values
from lake_assets.lake.catalog.transaction import path_columns
from lake_assets.lake.catalog.whole_files import refuse_deletes
from lake_assets.lake.commit.direct.opened import OpenTable, open_table
from lake_assets.lake.commit.direct.register import by_id, finish
from lake_assets.lake.commit.registration import LandedFile, Repair
from lake_assets.lake.ledger.tables import LedgerRow
from lake_assets.lake.session import LakeSession


def repair_directly(session: LakeSession, repair: Repair) -> list[LedgerRow]:
    """One try.

    Returns:
        The ledger rows as they stand in the ledger, in the order of the repair's.

    Raises:
        NotDirectError: rows were deleted from the files, or the table is none that this strategy knows; nothing has
            changed.
        CatalogError: the catalog refuses, or another writer was faster; nothing has changed.
    """
    if repair.files and (repair.described is None or any(file.facts is None for file in repair.with_rows)):
        raise NotDirectError("some of the files have no statistics")
    with open_table(session, repair.table) as opened:
        table = opened.table
        uris = [*repair.vanished, *(file.uri for file in repair.files)]
        ids = live_file_ids(opened.database.rows, table.table_id, opened.folder, uris)
        if set(ids) != set(uris) or (repair.files and table != repair.described):
            raise CatalogError(f"{repair.table} changed while its files were being looked at:", "run it again.")
        refuse_deletes(opened.database, table, set(ids.values()))
        before = opened.rows_of(repair.rows)
        opened.transaction.end_files(table, [ids[uri] for uri in repair.ended])
        _renew(opened, [(ids[file.uri], file) for file in repair.with_rows])
        return finish(opened, repair, before)


def _renew(opened: OpenTable, files: Sequence[tuple[int, LandedFile]]) -> None:
    """Replace what the catalog says of these data files. Their rows are new ones, with new row ids."""
    database, transaction = opened.database, opened.transaction
    table, partitioning = opened.table, opened.partitioning
    additions: dict[int, list[Addition]] = {}
    for file_id, file in files:
        facts = file.facts
        assert facts is not None  # noqa: S101 - the caller looked
        columns = path_columns(partitioning, key_values(partitioning, file.partition), facts.rows) | dict(facts.columns)
        mapping_id = ensure_mapping(
            database, transaction, table, partitioning, *by_id(partitioning, file.inside, file.folders)
        )
        row_id = transaction.grow(table, facts.rows, facts.size)
        transaction.renew_file(table, file_id, facts, row_id, mapping_id, columns)
        for column_id, column in columns.items():
            additions.setdefault(column_id, []).append(column.addition)
    if files:
        transaction.widen(table, additions, is_first=False)
        transaction.note_change(f"deleted_from_table:{table.table_id}")
        transaction.note_change(f"inserted_into_table:{table.table_id}")
