"""The repair of registered files that changed or vanished, so that the catalog has their present facts.

A path must not be registered a second time: DuckLake would delete the file when the last snapshot of its first entry
expires. So a changed file keeps its entry, and the entry gets new facts.
"""

import dataclasses

from lake_assets.errors import CatalogError
from lake_assets.lake.catalog.database import NotDirectError
from lake_assets.lake.catalog.registered import live_file_ids
from lake_assets.lake.catalog.table import key_values
from lake_assets.lake.catalog.whole_files import refuse_deletes
from lake_assets.lake.commit.direct.opened import open_table
from lake_assets.lake.commit.registration import Repair
from lake_assets.lake.ledger.tables import LedgerRow
from lake_assets.lake.session import LakeSession


def repair_directly(session: LakeSession, repair: Repair) -> list[LedgerRow]:
    """Try once to repair files; returns the ledger rows as written, in the order of the repair's.

    Raises:
        NotDirectError: rows were deleted from the files, or the table is not supported; nothing has changed.
        CatalogError: the catalog refuses, or another writer was faster; nothing has changed.
    """
    if repair.files and (repair.described is None or any(file.facts is None for file in repair.with_rows)):
        raise NotDirectError("some of the files have no statistics")
    with open_table(session, repair.table) as opened:
        table, partitioning = opened.table, opened.partitioning
        uris = [*repair.vanished, *(file.uri for file in repair.files)]
        ids = live_file_ids(opened.database.rows, table.table_id, opened.folder, uris)
        if set(ids) != set(uris) or (repair.files and table != repair.described):
            raise CatalogError(f"{repair.table} changed while its files were being inspected:", "run it again.")
        refuse_deletes(opened.database, table, set(ids.values()))
        before = opened.rows_of(repair.rows)
        opened.transaction.end_files(table, [ids[uri] for uri in repair.ended])
        opened.transaction.renew_files(
            table,
            partitioning,
            [
                (ids[f.uri], opened.mapping(f.inside, f.folders), f.facts, key_values(partitioning, f.partition))
                for f in repair.with_rows
                if f.facts is not None
            ],
        )
        after = opened.rows_of(repair.rows)
        rows = {p: dataclasses.replace(row, row_count=after[p]) for p, row in repair.rows.items()}
        return opened.finish(dataclasses.replace(repair, rows=rows), before)
