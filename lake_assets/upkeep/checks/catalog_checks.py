"""Checks of the catalog against the ledger and against the files in the storage."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor

from lake_assets.base.texts import count
from lake_assets.lake.catalog.corrected_bounds import wrong_bounds
from lake_assets.lake.catalog.past_partitions import LIVE, key_of
from lake_assets.lake.catalog.table import (
    Key,
    columns_since,
    last_addition,
    named_since,
    read_folder,
    snapshot_span,
    snapshots,
)
from lake_assets.lake.ledger.ledger_relation import WantedRows, wanted_rows
from lake_assets.lake.ledger.read import commits
from lake_assets.lake.ledger.tables import LEDGER, LedgerRow
from lake_assets.storage.store import Store
from lake_assets.streams.stream import OpenStream
from lake_assets.upkeep.checks.facts import NAMED, CheckResult, Facts, PreparedCheck
from lake_assets.upkeep.history.past_snapshot import types_at

REQUESTED_SINGLY = 8  # files of one folder that take a request each; more are found by a listing of the folder
_COLUMNS = ("run_id", "load_partition", "mode", "row_count", "rows_before", "snapshot_id")
REQUESTS = 16  # in parallel: most of the time is network latency


def ledger_check(facts: Facts) -> PreparedCheck:
    """Every commit in the ledger has its snapshot, with as many rows of the partition.

    The rows are counted by the catalog's figures, so that years of commits take two queries. Snapshots before the
    oldest existing one have expired, and are only counted. An addition, or a registration in place, adds rows to the
    rows before it. A repair changes the figures of all snapshots, so earlier registrations of its partition are not
    compared.

    After a run, the run's own rows are compared; with partitions and no run, the rows of these.
    """
    committed = _commits(facts)
    exist, newest = _snapshots(facts, committed)
    existing = [row for row in committed if row.snapshot in exist]
    lost = [row for row in committed if row.snapshot > newest]
    wrong = [(row, f"{row.load_partition}: there is no snapshot {row.snapshot}") for row in lost]
    for row, rows in zip(existing, _rows_at_commits(facts, existing), strict=True):
        if rows != (expected := row.rows_after or 0):
            text = f"{count(rows, 'row')} in snapshot {row.snapshot}, {expected:,} in the ledger"
            wrong.append((row, f"{row.load_partition}: {text}"))
    failing = [facts.stream.config.partition_at(row.load_partition) for row, _ in wrong]
    result = CheckResult.of_findings(
        "ledger",
        [text for _, text in wrong],
        failure="Ledger and snapshots do not agree. Ingest these partitions with --force, and let `lake-assets "
        "maintain` expire these snapshots.",
        success=f"Ledger and snapshots agree about {count(len(existing), 'commit')}.",
        numbers={"commits": len(committed), "expired": len(committed) - len(existing) - len(lost), "wrong": len(wrong)},
        failing=None if None in failing else frozenset(key_of(p) for p in failing if p is not None),
    )
    return PreparedCheck(lambda: result)


def _commits(facts: Facts) -> list[LedgerRow]:
    """Return the committed ledger rows of the scope, of the present table, the oldest first."""
    stream, scope = facts.stream, facts.scope
    if scope.results:
        return [result.row for result in scope.results.values() if result.row.snapshot_id is not None]
    rows = commits(facts.lake, stream.ledger_scope(scope.tried), columns=_COLUMNS)
    repaired: dict[str, int] = {}  # the newest repair of each partition
    for row in rows:
        if row.mode == "repair":
            repaired.setdefault(row.load_partition, row.snapshot)
    return [
        row
        for row in reversed(rows)
        if scope.run_id in (None, row.run_id)
        and row.mode != "repair"
        and (not row.registers or row.snapshot > repaired.get(row.load_partition, 0))
    ]


def _snapshots(facts: Facts, rows: Sequence[LedgerRow]) -> tuple[set[int], int]:
    """Return those of the commits' snapshots that exist, and the newest snapshot of the lake."""
    with facts.lake.read() as database:
        return set(snapshots(database, [row.snapshot for row in rows])), snapshot_span(database)[1]


def _rows_at_commits(facts: Facts, rows: Sequence[LedgerRow]) -> list[int]:
    """Return the rows that each commit's partition has in the commit's snapshot."""
    if not rows:
        return []
    past = facts.past(min(row.snapshot for row in rows))
    partitions = [facts.stream.config.partition_at(row.load_partition) for row in rows]
    return [
        # The ledger still has the rows of earlier partition columns.
        past.of(partition).rows(row.snapshot) if partition is not None else row.rows_after or 0
        for row, partition in zip(rows, partitions, strict=True)
    ]


def data_files(facts: Facts) -> PreparedCheck:
    """Every data file in the catalog exists, and the least and greatest values of its columns are right.

    After a run, these are the live files of its partitions, by a request each or a listing of their folder. Of the
    whole table, they are the files of all snapshots, by a listing of the table's folder. A renamed table also has files
    in the folder of its old name.
    """
    _ = facts.lake.metadata  # refuses an unknown version
    is_run = facts.scope.tried is not None
    files = facts.past(LIVE if is_run else 0).files
    keys = {file.uri: key for key, of_key in files.items() for file in of_key}
    ended = {file.uri for of_key in files.values() for file in of_key if file.end_snapshot is not None}
    wrong = {} if is_run else wrong_bounds(facts.lake, facts.stream.table)

    def result() -> CheckResult:
        existing = _existing_files(facts, keys) if is_run else _listed_files(facts.stream, keys)
        of_files = _result_of_files(facts.stream, keys, ended, existing)
        if not wrong or not of_files.passed:
            return of_files
        return CheckResult.of_findings(
            "data_files",
            sorted(wrong.values()),
            failure="The catalog's least and greatest values of columns are not those of the files, so queries answer "
            "wrong. Run `lake-assets maintain`.",
            success="",
            numbers={**of_files.numbers, "columns": len(wrong)},
        )

    return PreparedCheck(result)


def _result_of_files(
    stream: OpenStream, uris: Mapping[str, Key | None], ended: AbstractSet[str], existing: AbstractSet[str]
) -> CheckResult:
    known = (f"{stream.lake_config.own_storage.root}/", f"{stream.source.root}/")
    absent = [uri for uri in uris if uri not in existing]
    missing = sorted((uri for uri in absent if uri.startswith(known)), key=lambda uri: (uri in ended, uri))
    elsewhere = len(absent) - len(missing)  # registered by another client, from a storage that is not in the config
    mend = f"run `lake-assets index {stream.name} --repair`" if stream.config.mode.registers else "ingest with --force"
    return CheckResult.of_findings(
        "data_files",
        missing,
        failure=f"Files that the catalog names are gone, and queries of their partitions fail: {mend}."
        if set(missing) - ended
        else "Files of earlier snapshots are gone, and queries of these snapshots fail. Let `lake-assets maintain` "
        "expire them.",
        success=f"The catalog names {count(len(uris) - elsewhere, 'file')}, and none is missing.",
        numbers={"files": len(uris), "missing": len(missing), "elsewhere": elsewhere},
        failing=frozenset(key for uri in missing if (key := uris[uri]) is not None),
    )


def _listed_files(stream: OpenStream, uris: Iterable[str]) -> set[str]:
    """Return the existing files of the table's folders."""
    existing: set[str] = set()
    storage = Store(stream.lake_config.own_storage)
    keys = [uri.removeprefix(f"{storage.root}/") for uri in uris if uri.startswith(f"{storage.root}/")]
    for folder in {"".join(f"{name}/" for name in key.split("/")[:-1][:2]) for key in keys}:
        existing |= {stored.uri for stored in storage.list(folder)}
    if any(uri.startswith(f"{stream.source.root}/") for uri in uris):
        existing |= {landed.uri for landed in stream.source.all(hides=stream.layout.hides)}
    return existing


def _existing_files(facts: Facts, uris: Iterable[str]) -> set[str]:
    """Return those of the files that exist; nothing outside their folders is listed."""
    storage, source = Store(facts.stream.lake_config.own_storage), facts.stream.source
    # Of files that are landed objects, the ingest's listing has most.
    listed = facts.landed.of(facts.scope.results)
    existing = {obj.uri for manifest in listed.values() for obj in manifest.objects}.intersection(uris)
    folders: dict[tuple[Store, str], list[str]] = {}
    for uri in uris:
        store = next((s for s in (storage, source) if uri.startswith(f"{s.root}/")), None)
        if uri not in existing and store is not None:
            key = uri.removeprefix(f"{store.root}/")
            folders.setdefault((store, f"{key.rpartition('/')[0]}/"), []).append(key)

    def find(item: tuple[tuple[Store, str], list[str]]) -> Iterator[str]:
        (store, folder), keys = item
        if len(keys) > REQUESTED_SINGLY and folder != "/":
            return (obj.uri for obj in store.list(folder))
        return (obj.uri for key in keys if (obj := store.find(key)) is not None)

    with ThreadPoolExecutor(REQUESTS) as pool:
        return existing.union(*pool.map(lambda item: list(find(item)), folders.items()))


def schema_check(facts: Facts) -> PreparedCheck:
    """The table has the columns that it had after the previous run."""
    is_of_run = facts.scope.run_id is not None and facts.lake.unknown_specification is None
    result = _schema_after_run(facts) if is_of_run else _compared(facts, _previous_by_ledger(facts))
    return PreparedCheck(lambda: result)


def _schema_after_run(facts: Facts) -> CheckResult:
    """Return the check after a run, by the catalog's own tables; the ledger of all runs is not read."""
    with facts.lake.read() as database:
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
        WantedRows(LEDGER, ("run_id", "snapshot_id"), among),
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
