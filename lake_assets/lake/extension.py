"""The replacement of a partition by DuckLake's extension: any table, any catalog; reads the old partition to end it."""

from lake_assets.errors import CatalogError, SchemaChangedError
from lake_assets.lake.ducklake import LakeSession, translated
from lake_assets.lake.ledger import LedgerRow, insert_ledger_rows, insert_manifest
from lake_assets.lake.replacement import AUTHOR, Replacement, add_files_statement, delete_statement


def replace_by_extension(session: LakeSession, replacement: Replacement) -> LedgerRow:
    """One try. The order matters: deleting after adding would delete the new rows too.

    Returns:
        The ledger row as it stands in the ledger.

    Raises:
        SchemaChangedError: the files were written for other columns than the table has; nothing has changed.
        CatalogError: the catalog refuses, or another writer was faster; nothing has changed.
    """
    # Its own retries let two commits pass that overlap, if each of their deletes matched nothing: both would add
    # the partition. Without them any overlap is refused, by the snapshot's number, and the number is known before.
    session.rows("SET ducklake_max_retry_count = 0")
    with session.transaction():
        ((rows_before,),) = session.rows(*delete_statement(replacement.table, replacement.partition))
        if replacement.files:
            _refuse_other_columns(session, replacement)
            session.rows(*add_files_statement(replacement.table, replacement.files))
        ((current,),) = session.rows("SELECT id FROM ducklake_current_snapshot('lake')")
        row = replacement.done(rows_before=rows_before, snapshot_id=current + 1)
        insert_manifest(session, row, replacement.manifest)
        insert_ledger_rows(session, [row])
        session.rows(
            "CALL lake.set_commit_message(?, ?, extra_info => ?)",
            [AUTHOR, replacement.message, replacement.extra_info],
        )
    ((committed,),) = session.rows("SELECT id FROM ducklake_last_committed_snapshot('lake')")
    if committed != row.snapshot_id:
        raise CatalogError(
            f"the commit of partition {row.load_partition} is snapshot {committed}, and {row.snapshot_id} was due:",
            "see the lake's snapshots; run the partition again with --force.",
        )
    return row


def _refuse_other_columns(session: LakeSession, replacement: Replacement) -> None:
    """Another run may have changed the table since the files were begun; a missing column would be an error here.

    The direct lane has no need of this: it takes files only that have all columns.
    """
    if not replacement.columns:
        return
    with translated(session.config):
        relation = session.connection.sql(f"SELECT * FROM {replacement.table.sql} LIMIT 0")  # noqa: S608 - quoted
    written = {name.lower() for name in replacement.columns}
    by_path = {column.name.lower() for column in replacement.partition.columns}
    if {name.lower() for name in relation.columns} - by_path != written:
        raise SchemaChangedError(
            f"the columns of {replacement.table} changed while {replacement.partition} was being written:",
            "run it again.",
        )
