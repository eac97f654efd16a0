"""Queries of the manifest of dead letters: the files of rows that commits left out."""

from collections.abc import Sequence

from lake_assets.lake.catalog.table_files import named_since
from lake_assets.lake.ledger.relation import Wanted, query, relation
from lake_assets.lake.ledger.tables import LEDGER_COLUMNS, LETTERS, ledger_table
from lake_assets.lake.session import LakeSession, TableName
from lake_assets.parquet.job import LetterFile

_COLUMNS = ("load_partition", "object", "uri", "rows", "size", "reason")


def dead_letters(
    session: LakeSession,
    stream: str,
    table: TableName,
    load_partitions: Sequence[str] | None = None,
    *,
    at: int | None = None,
) -> dict[str, list[LetterFile]]:
    """The files of rows that the lake does not have now, by partition, sorted by their URIs.

    They are those of each partition's newest replacement, and of all additions since. A partition without any is not in
    the result.

    Args:
        session: an open lake.
        stream: the stream's name.
        table: its table; commits of a dropped one of the same name are ignored.
        load_partitions: in the path's form; all when None.
        at: the state of this snapshot; the present when None.

    Raises:
        CatalogError: the lake cannot be read.
    """
    ledger, letters = ledger_table(session.config), LETTERS.name(session.config)
    if not (session.exists(ledger) and session.exists(letters)):
        return {}
    among: dict[str, Sequence[str]] = {"stream": [stream]}
    if load_partitions is not None:
        among["load_partition"] = load_partitions
    commits = relation(
        session,
        ledger,
        {name: LEDGER_COLUMNS[name] for name in ("load_partition", "mode", "snapshot_id")},
        Wanted({"status": ["committed"], **among}),
    )
    noted = relation(session, letters, LETTERS.columns, Wanted(among))
    listed = ", ".join(_COLUMNS)
    rows = query(
        session,
        "WITH latest AS (SELECT load_partition, max(snapshot_id) AS replaced "  # noqa: S608 - quoted names
        f"FROM {commits} WHERE mode IN ('replace', 'restore') AND snapshot_id <= ? GROUP BY ALL) "
        f"SELECT {listed} FROM {noted} LEFT JOIN latest USING (load_partition) "
        "WHERE snapshot_id <= ? AND snapshot_id >= greatest(replaced, ?) ORDER BY load_partition, uri",
        [
            *commits.parameters,
            at if at is not None else _NEWEST,
            *noted.parameters,
            at if at is not None else _NEWEST,
            named_since(session, table),
        ],
        [commits, noted],
    )
    result: dict[str, list[LetterFile]] = {}
    for path, *letter in rows:
        result.setdefault(path, []).append(LetterFile(*letter))
    return result


_NEWEST = 2**62  # a snapshot after all others
