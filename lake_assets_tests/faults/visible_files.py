"""The files that commits make visible by rows of a table, for `lake_invariants.py`: exported changes, dead letters."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from lake_assets_tests.faults.independent import Files, Row
from lake_assets_tests.world import World

Commit = tuple[str, int, str]
"""Run, snapshot and partition."""


def exported(world: World, ledger: Sequence[Row], deltas: Sequence[Row], found: Sequence[Row]) -> Iterator[str]:
    """What is wrong with the exported files of a stream that has exported all its commits.

    They are of committed runs, in the storage, with their size and rows, and together they give the rows of the table.
    """
    if "deltas" not in world.options:
        return
    files = _storage(world, "deltas")
    wrong: list[str] = []
    for row in deltas:
        count = row["rows_inserted"] + row["rows_deleted"]
        wrong += _stored(files, row, count, "exported file", "ingest_deltas")
    yield from wrong
    yield from _of_commits(ledger, deltas, "exported file")
    left = Counter(tuple(row.values()) for row in found)
    for row in deltas if found and not wrong else ():
        for change in files.read(row["uri"]).to_pylist():
            left[tuple(change[name] for name in found[0])] -= 1 if change["_change"] == "insert" else -1
    if any(left.values()):
        yield f"the table has {left.total()} rows more than the exported changes give"


def lettered(world: World, ledger: Sequence[Row], letters: Sequence[Row]) -> Iterator[str]:
    """The same of the dead letters: each commit has as many as the ledger says, and each row of an object once."""
    files = _storage(world, "dead_letters") if letters else None
    counts: Counter[Commit] = Counter()
    rows: dict[Commit, list[tuple[str, int]]] = defaultdict(list)
    for row in letters:
        assert files is not None
        counts[_commit(row)] += row["rows"]
        wrong = list(_stored(files, row, row["rows"], "file of dead letters", "ingest_dead_letters"))
        yield from wrong
        for letter in files.read(row["uri"]).to_pylist() if not wrong else ():
            rows[_commit(row)].append((letter["_object"], letter["_row"]))
            if letter["_object"] != row["object"] or not letter["_reason"]:
                yield f"the dead letter {letter} is in {row['uri']}, which is of {row['object']}"
    yield from _of_commits(ledger, letters, "file of dead letters")
    for row in ledger:
        said, counted = row.get("rows_dead_lettered"), counts[_commit(row)]
        if row["status"] == "committed" and (said or 0) != counted:
            yield f"the ledger says {said} dead letters of the commit {_commit(row)}, which has {counted}"
    for commit, numbers in rows.items():
        if len(set(numbers)) != len(numbers):
            yield f"a row is a dead letter of the commit {commit} twice"


def _storage(world: World, option: str) -> Files:
    """The storage of these files; by default they are beside the landing zone."""
    to = world.options.get(option, {}).get("to", world.source)
    return Files.of(to if isinstance(to, Mapping) else {"type": "local", "path": to})


def _stored(files: Files, row: Row, count: int, kind: str, table: str) -> Iterator[str]:
    if (size := files.size(row["uri"])) != row["size"]:
        yield f"the {kind} {row['uri']} has {size} bytes, and {table} says {row['size']}"
    elif (rows := files.rows(row["uri"])) != count:
        yield f"the {kind} {row['uri']} has {rows} rows, and {table} says {count}"


def _of_commits(ledger: Sequence[Row], noted: Sequence[Row], kind: str) -> Iterator[str]:
    committed = {_commit(row) for row in ledger if row["status"] == "committed"}
    for row in noted:
        if _commit(row) not in committed:
            yield f"the {kind} {row['uri']} is of no committed run"
    for (_, uri), times in Counter((_commit(row), row["uri"]) for row in noted).items():
        if times > 1:
            yield f"the {kind} {uri} is noted {times} times of one commit"


def _commit(row: Row) -> Commit:
    return row["run_id"], row["snapshot_id"], row["load_partition"]
