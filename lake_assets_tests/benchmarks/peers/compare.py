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


def difference(landed: Landed, glob: str, extra: Sequence[Landed] = ()) -> str | None:
    """What is different between the landing zone and the files of a peer; None if they have the same rows.

    Args:
        landed: the landing zone.
        glob: the Parquet files that the peer's `read_back` has returned. Columns that are not landed are ignored.
        extra: other landing zones whose rows the table has too.
    """
    with duckdb.connect() as client:
        client.execute("SET TimeZone = 'UTC'")
        types = {name: kind for name, kind, *_ in client.execute(f"DESCRIBE SELECT * FROM {landed.sql}").fetchall()}
        read = f"read_parquet('{glob}', hive_partitioning = {'*/*/*' in glob}, hive_types_autocast = false)"
        found = {name: kind for name, kind, *_ in client.execute(f"DESCRIBE SELECT * FROM {read}").fetchall()}
        if missing := [name for name in types if name not in found]:
            return f"columns are missing: {', '.join(missing)}"
        casts = ", ".join(f'CAST("{name}" AS {kind}) AS "{name}"' for name, kind in types.items())
        theirs = f"(SELECT {casts} FROM {read})"
        ours = " UNION ALL BY NAME ".join(f"SELECT * FROM {one.sql}" for one in (landed, *extra))
        ours = f"(SELECT {casts} FROM ({ours}))"
        expected, actual = _digest(client, ours, types), _digest(client, theirs, types)
        if expected == actual:
            return None
        text = f"{expected.rows:,} rows landed, {actual.rows:,} in the table"
        differing = [
            name for name, one, other in zip(types, expected.columns, actual.columns, strict=True) if one != other
        ]
        if expected.rows == actual.rows:
            text += f"; values differ in {', '.join(differing)}" if differing else "; values are in other rows"
        if max(expected.rows, actual.rows) <= EXAMPLES:
            for title, one, other in (("landed only", ours, theirs), ("in the table only", theirs, ours)):
                rows = client.execute(f"FROM {one} EXCEPT ALL FROM {other} LIMIT 1").fetchall()
                text += "".join(f"; {title}: {row}" for row in rows)
        return text


def _digest(client: duckdb.DuckDBPyConnection, relation: str, columns: Mapping[str, str]) -> Digest:
    sums = ", ".join(f'sum(hash("{name}")::HUGEINT)' for name in columns)
    every = ", ".join(f'"{name}"' for name in columns)
    found = client.execute(f"SELECT count(*), sum(hash({every})::HUGEINT), {sums} FROM {relation}").fetchone()
    assert found is not None
    rows, total, *each = (int(value or 0) for value in found)
    return Digest(rows, total, each)
