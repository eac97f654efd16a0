"""The check of a table's columns."""

from collections.abc import Mapping

from lake_assets.checks.facts import Facts, PreparedCheck
from lake_assets.checks.result import NAMED, CheckResult
from lake_assets.history.past_snapshot import types_at
from lake_assets.lake.catalog.database import catalog_tables
from lake_assets.lake.catalog.snapshots import columns_since, last_addition
from lake_assets.lake.catalog.table import named_since, read_folder
from lake_assets.lake.ledger.ledger_relation import Wanted, wanted_rows
from lake_assets.lake.ledger.tables import LEDGER


def schema(facts: Facts) -> PreparedCheck:
    """The table has the columns that it had after the previous run."""
    is_of_run = facts.scope.run_id is not None and facts.lake.unknown_specification is None
    result = _of_run(facts) if is_of_run else _compared(facts, _previous_by_ledger(facts))
    return PreparedCheck(lambda: result)


def _of_run(facts: Facts) -> CheckResult:
    """Return the check after a run, by the catalog's own tables; the ledger of all runs is not read."""
    with catalog_tables(facts.lake) as database:
        table_id, *_ = read_folder(database, facts.stream.table)
        previous = last_addition(database, table_id, facts.scope.first_commit)
        since = None if previous is None else columns_since(database, table_id, previous)
    return _compared(facts, previous) if since is None or since.changes else _unchanged(since.columns)


def _previous_by_ledger(facts: Facts) -> int | None:
    """Return the snapshot of the newest commit of another run; None if there is none."""
    lake, table = facts.lake, facts.stream.table
    among = {"destination_table": [str(table)], "status": ["committed"]}
    newest = "first_value(run_id) OVER (ORDER BY snapshot_id DESC)"
    rows = wanted_rows(
        lake,
        Wanted(LEDGER, ("run_id", "snapshot_id"), among),
        f"WHERE snapshot_id >= ? QUALIFY run_id <> coalesce(?, {newest}) ORDER BY snapshot_id DESC LIMIT 1",
        [named_since(lake, table), facts.scope.run_id],
    )
    return int(rows[0][1]) if rows else None


def _compared(facts: Facts, previous: int | None) -> CheckResult:
    old = None if previous is None else _types_at(facts, previous)
    if old is None:
        return CheckResult("schema", True, "There is no previous run to compare with.")
    new = types_at(facts.lake, facts.stream.table)
    changes = [f"{name} {kind} is new" for name, kind in new.items() if name not in old]
    changes += [f"{name} {kind} is gone" for name, kind in old.items() if name not in new]
    changes += [f"{name} was {old[name]} and is {new[name]}" for name in old if new.get(name, old[name]) != old[name]]
    if not changes:
        return _unchanged(len(new))
    return CheckResult(
        "schema",
        False,
        f"The columns have changed since the previous run: {'; '.join(changes[:NAMED])}.",
        {"columns": len(new), "changes": len(changes)},
        changes[:NAMED],
    )


def _unchanged(columns: int) -> CheckResult:
    text = f"The {columns:,} columns are unchanged since the previous run."
    return CheckResult("schema", True, text, {"columns": columns, "changes": 0})


def _types_at(facts: Facts, snapshot: int) -> Mapping[str, str] | None:
    """Return the types of the columns in a snapshot, by name; None if it has expired."""
    lake = facts.lake
    if not lake.rows("SELECT 1 FROM ducklake_snapshots(?) WHERE snapshot_id = ?", [lake.alias, snapshot]):
        return None
    return types_at(lake, facts.stream.table, snapshot)
