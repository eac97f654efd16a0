"""The registration of landed files by the direct strategy: many partitions, one snapshot."""

from collections.abc import Sequence

from lake_assets.errors import CatalogError
from lake_assets.lake.catalog.database import NotDirectError
from lake_assets.lake.catalog.registered import registered_before
from lake_assets.lake.catalog.table import key_values
from lake_assets.lake.commit.direct.opened import OpenTable, open_table
from lake_assets.lake.commit.registration import LandedFile, RegisteredBeforeError, Registration
from lake_assets.lake.ledger.tables import LedgerRow
from lake_assets.lake.session import LakeSession


def register_directly(session: LakeSession, registration: Registration) -> list[LedgerRow]:
    """Try once to register files; returns the ledger rows as written, in the order of the registration's.

    Raises:
        NotDirectError: the table or a file is not supported; nothing has changed.
        RegisteredBeforeError: the catalog already has some of the files; nothing has changed.
        CatalogError: the catalog refuses, or another writer was faster; nothing has changed.
    """
    if registration.described is None or any(file.facts is None for file in registration.with_rows):
        raise NotDirectError("the direct strategy cannot register some of the files")
    with open_table(session, registration.table) as opened:
        if opened.table != registration.described:
            raise CatalogError(
                f"the columns of {registration.table} changed while files were being registered:", "run it again."
            )
        uris = [file.uri for file in registration.files]
        if states := registered_before(opened.database.rows, opened.table.table_id, opened.folder, uris):
            raise RegisteredBeforeError(states)
        before = opened.rows_of(registration.rows)
        _add(opened, registration.with_rows)
        return opened.finish(registration, before)


def _add(opened: OpenTable, files: Sequence[LandedFile]) -> None:
    """Add the files, together those with the same mapping."""
    partitioning = opened.partitioning
    values = {partition: key_values(partitioning, partition) for partition in {file.partition for file in files}}
    for shape in dict.fromkeys((file.inside, file.folders) for file in files):
        opened.transaction.add_files(
            opened.table,
            partitioning,
            opened.mapping(*shape),
            opened.folder,
            [(f.facts, values[f.partition]) for f in files if (f.inside, f.folders) == shape and f.facts is not None],
        )
