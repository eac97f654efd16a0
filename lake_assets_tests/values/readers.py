"""What readers that are not ours find in a landed file and in the lake, by values and by conditions.

Two read the landed file. DuckDB's values are compared as the texts that it makes of them, pyarrow's as Python has them.
So a difference is seen also where DuckDB reads a file wrongly, or where two values have one text.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from lake_assets.duckdb_engine import identifier
from lake_assets_tests.values.plain import plain
from lake_assets_tests.world import World

OTHERS = 1000
"""The number of the first row that is none of those to be compared."""
VALUES = 2 if os.environ.get("LAKE_ASSETS_EXAMPLES") else 1
"""How many values of a column are looked for; each takes four queries."""


@dataclass(frozen=True)
class Landed:
    """Landed files as a plain DuckDB client and pyarrow read them, each column by itself.

    Args:
        uris: the files.
        names: the columns to be compared.
    """

    uris: Sequence[str]
    names: Sequence[str]

    @cached_property
    def client(self) -> duckdb.DuckDBPyConnection:
        client = duckdb.connect(config={"threads": 1})
        client.execute("SET TimeZone = 'UTC'")
        return client

    @cached_property
    def texts(self) -> Mapping[str, list[str | None] | None]:
        """What DuckDB makes of each column, in the order of the rows' numbers; None where it cannot read it."""
        return {name: self._column(name) for name in self.names}

    @cached_property
    def values(self) -> Mapping[str, list[Any]]:
        """What pyarrow reads in each column, in the order of the rows' numbers."""
        tables = [pq.ParquetFile(uri, coerce_int96_timestamp_unit="us").read() for uri in self.uris]
        return numbered(tables, self.names)

    def _column(self, name: str) -> list[str | None] | None:
        source = f"read_parquet({list(self.uris)!r}, hive_partitioning = false)"
        column = identifier(name)
        try:
            # A table, so that no condition is answered by the file's statistics.
            ((kind,),) = self.client.execute(f"SELECT typeof({column}) FROM {source} LIMIT 1").fetchall()
            value = f"{column}::{kind.replace('JSON', 'VARCHAR')}"  # which is what a lake has of it
            self.client.execute(f"CREATE TABLE {column} AS SELECT id, {value} AS v FROM {source} WHERE id < {OTHERS}")
            return [text for (text,) in self.client.execute(f"SELECT v::VARCHAR FROM {column} ORDER BY id").fetchall()]
        except duckdb.Error:
            return None

    def constants(self, name: str, sql_type: str) -> list[str]:
        """The different values of a column, in the order of the rows' numbers, as constants of a type."""
        rows = self.client.execute(
            f"SELECT {constant('v', sql_type)} FROM {identifier(name)} WHERE v IS NOT NULL ORDER BY id"
        ).fetchall()
        return [text for text in dict.fromkeys(text for (text,) in rows) if "\0" not in text]

    def count(self, name: str, condition: str) -> int:
        """How many rows meet a condition on `v`."""
        ((count,),) = self.client.execute(f"SELECT count(*) FROM {identifier(name)} WHERE {condition}").fetchall()
        return int(count)


def constant(value: str, sql_type: str) -> str:
    """The expression in SQL of the text of a constant that is equal to a value of this type."""
    text = f"'CAST(''' || replace({value}::VARCHAR, '''', '''''') || ''' AS {sql_type})'"
    if sql_type == "TIMESTAMP WITH TIME ZONE":  # DuckDB cannot read its own text of the last one
        return f"CASE WHEN isfinite({value}) THEN 'make_timestamptz(' || epoch_us({value}) || ')' ELSE {text} END"
    return text


def numbered(tables: Sequence[pa.Table], names: Sequence[str]) -> dict[str, list[Any]]:
    """The values of columns in the order of the rows' numbers."""
    ids = [number for table in tables for number in table["id"].to_pylist()]
    rows = sorted((number, place) for place, number in enumerate(ids) if number < OTHERS)
    result = {}
    for name in names:
        values = [value for table in tables for value in plain(table[name])]
        result[name] = [values[place] for _, place in rows]
    return result


def conditions(constants: Sequence[str]) -> Iterator[str]:
    """Conditions on `v` that rows meet and others do not, such as statistics answer."""
    yield "v IS NULL"
    yield "v IS NOT NULL"
    for value in constants[:VALUES]:
        yield from (f"v {operator} {value}" for operator in ("=", "<=", ">", "<>"))


def differences(landed: Landed, world: World, first: int = 0) -> list[str]:
    """Where the lake does not have what was landed.

    Args:
        landed: the files.
        world: whose lake has the table `lake.sales`.
        first: the number of the first row.
    """
    types = {name: kind for name, kind, *_ in world.query("DESCRIBE lake.sales")}
    rows = f"lake.sales WHERE id BETWEEN {first} AND {first + OTHERS - 1}"
    texts = world.arrow(f"SELECT id - {first} AS id, {', '.join(map(_text, landed.names))} FROM {rows}")
    columns = ", ".join(map(identifier, landed.names))
    values = world.arrow(f"SELECT id - {first} AS id, {columns} FROM {rows}")
    with world.reader() as lake:
        lake.execute("BEGIN")  # in which DuckLake reads its catalog once
        uncounted = [item for name in landed.names for item in _uncounted(landed, lake, name, types[name], rows)]
        lake.execute("COMMIT")
    return [
        *_differences("DuckDB", landed.texts, numbered([texts], landed.names), types),
        *_differences("pyarrow", landed.values, numbered([values], landed.names), types),
        *uncounted,
    ]


def _text(name: str) -> str:
    return f"{identifier(name)}::VARCHAR AS {identifier(name)}"


def _differences(
    reader: str, landed: Mapping[str, list[Any] | None], lake: Mapping[str, list[Any]], types: Mapping[str, str]
) -> list[str]:
    return [
        f"{name} {types[name]} by {reader}: {found} became {lake[name]}"
        for name, found in landed.items()
        if found != lake[name]
    ]


def _uncounted(landed: Landed, lake: duckdb.DuckDBPyConnection, name: str, sql_type: str, rows: str) -> Iterator[str]:
    """The conditions by which the lake finds other rows than the landed file has."""
    if landed.texts[name] is None:
        return
    objects = list(conditions(landed.constants(name, sql_type)))
    source = f"(SELECT {identifier(name)} AS v FROM {rows})"
    queries = [f"SELECT {n}, count(*) FROM {source} WHERE {c}" for n, c in enumerate(objects)]
    for number, count in sorted(lake.execute(" UNION ALL ".join(queries)).fetchall()):
        expected = landed.count(name, objects[number].replace("v ", f"v::{sql_type} ", 1))
        if count != expected:
            yield f"{name} {sql_type}: {objects[number]} finds {count} rows and not {expected}"
