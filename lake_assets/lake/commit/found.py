"""The ledger rows of a commit that an earlier try has made, although it failed: its answer was lost."""

import dataclasses

from lake_assets.lake.commit.change import Change
from lake_assets.lake.ledger.relation import Wanted, query, relation
from lake_assets.lake.ledger.tables import LEDGER_COLUMNS, LedgerRow, ledger_table
from lake_assets.lake.session import LakeSession


def committed_rows(session: LakeSession, change: Change) -> list[LedgerRow] | None:
    """The rows of a change as written, in the order of the change's; None if it was not committed.

    Raises:
        CatalogError: the ledger cannot be read.
    """
    first, *others = change.ledger_rows().values()
    if (committed := committed_row(session, first)) is None:
        return None
    return [committed, *(committed_row(session, row) or row for row in others)]


def committed_row(session: LakeSession, row: LedgerRow) -> LedgerRow | None:
    """The row as written; None if it was not committed.

    Raises:
        CatalogError: the ledger cannot be read.
    """
    of_commit = ("snapshot_id", "row_count", "rows_before", "finished_at")
    among = {
        "run_id": [row.run_id],
        "stream": [row.stream],
        "load_partition": [row.load_partition],
        "status": ["committed"],
    }
    of_run = relation(
        session,
        ledger_table(session.config),
        {name: LEDGER_COLUMNS[name] for name in ("started_at", *of_commit)},
        Wanted(among),
    )
    rows = query(
        session,
        f"SELECT {', '.join(of_commit)} FROM {of_run} WHERE started_at = ?",  # noqa: S608
        [*of_run.parameters, row.started_at],
        [of_run],
    )
    if not rows:
        return None
    return dataclasses.replace(row, **dict(zip(of_commit, rows[0], strict=True)))
