"""Whether a peer's table has exactly the landed rows: number of rows, and a hash of all of them in any order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

EXAMPLES = 1_000_000  # rows; of larger tables no differing rows are shown, as finding them takes much memory


@dataclass(frozen=True, slots=True)
class Digest:
    """Of a table's rows; equal for equal rows in any order."""

    rows: int
    total: int  # sum of the rows' hashes: a row that is there twice counts twice
    columns: Sequence[int]  # the sum of each column's hashes


@dataclass(frozen=True, slots=True)
class Landed:
    """A landing zone as a relation."""

    folder: Path
    columns: Mapping[str, str]  # partition columns and their types, `string` or `date`

    @property
    def sql(self) -> str:
        types = ", ".join(f"{name}: {'DATE' if kind == 'date' else 'VARCHAR'}" for name, kind in self.columns.items())
        glob = "/".join([str(self.folder), *("*" for _ in self.columns), "*.parquet"])
        return f"read_parquet('{glob}', hive_partitioning = true, hive_types = {{{types}}})"


def digest(landed: Landed, extra: Sequence[Landed] = ()) -> Digest:
    """Of the rows of the landing zones."""
    with _client() as client:
        types = _types(client, landed.sql)
        return _digest(client, _together(landed, extra, types), types)


def difference(landed: Landed, glob: str, extra: Sequence[Landed] = (), expected: Digest | None = None) -> str | None:
    """What is different between the landing zone and the files of a peer; None if they have the same rows.

    Args:
        landed: the landing zone.
        glob: the Parquet files that the peer's `read_back` has returned. Columns that are not landed are ignored.
        extra: other landing zones whose rows the table has too.
        expected: the digest of the landing zones; computed when None.
    """
    expected = expected or digest(landed, extra)
    with _client() as client:
        types = _types(client, landed.sql)
        read = f"read_parquet('{glob}', hive_partitioning = {'*/*/*' in glob}, hive_types_autocast = false)"
        found = _types(client, read)
        if missing := [name for name in types if name not in found]:
            return f"columns are missing: {', '.join(missing)}"
        theirs = f"(SELECT {_casts(types)} FROM {read})"
        actual = _digest(client, theirs, types)
        if expected == actual:
            return None
        text = f"{expected.rows:,} rows landed, {actual.rows:,} in the table"
        if expected.rows == actual.rows:
            sums = zip(types, expected.columns, actual.columns, strict=True)
            differing = [name for name, one, other in sums if one != other]
            text += f"; values differ in {', '.join(differing)}" if differing else "; values are in other rows"
        if max(expected.rows, actual.rows) <= EXAMPLES:
            ours = _together(landed, extra, types)
            for title, one, other in (("landed only", ours, theirs), ("in the table only", theirs, ours)):
                rows = client.execute(f"FROM {one} EXCEPT ALL FROM {other} LIMIT 1").fetchall()
                text += "".join(f"; {title}: {row}" for row in rows)
        return text


def _client() -> duckdb.DuckDBPyConnection:
    client = duckdb.connect()
    client.execute("SET TimeZone = 'UTC'")
    return client


def _types(client: duckdb.DuckDBPyConnection, relation: str) -> dict[str, str]:
    return {name: kind for name, kind, *_ in client.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()}


def _casts(types: Mapping[str, str]) -> str:
    return ", ".join(f'CAST("{name}" AS {kind}) AS "{name}"' for name, kind in types.items())


def _together(landed: Landed, extra: Sequence[Landed], types: Mapping[str, str]) -> str:
    union = " UNION ALL BY NAME ".join(f"SELECT * FROM {one.sql}" for one in (landed, *extra))
    return f"(SELECT {_casts(types)} FROM ({union}))"


def _digest(client: duckdb.DuckDBPyConnection, relation: str, columns: Mapping[str, str]) -> Digest:
    sums = ", ".join(f'sum(hash("{name}")::HUGEINT)' for name in columns)
    every = ", ".join(f'"{name}"' for name in columns)
    found = client.execute(f"SELECT count(*), sum(hash({every})::HUGEINT), {sums} FROM {relation}").fetchone()
    assert found is not None
    rows, total, *each = (int(value or 0) for value in found)
    return Digest(rows, total, each)
