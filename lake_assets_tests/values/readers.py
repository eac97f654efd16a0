"""What readers that are not ours find in a landed file and in the lake, by values and by conditions."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import duckdb

from lake_assets.engine import identifier, literal

Query = Callable[[str], list[tuple[Any, ...]]]


@dataclass(frozen=True)
class Landed:
    """Landed files as a plain DuckDB client reads them, each column by itself.

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
        """The values of each column as text, in the order of the rows' numbers; None where they cannot be read."""
        return {name: self._column(name) for name in self.names}

    def _column(self, name: str) -> list[str | None] | None:
        source = f"read_parquet({list(self.uris)!r}, hive_partitioning = false)"
        column = identifier(name)
        try:
            # A table, so that no condition is answered by the file's statistics.
            self.client.execute(f"CREATE TABLE {column} AS SELECT id, {column} AS v FROM {source}")
            return [text for (text,) in self.client.execute(f"SELECT v::VARCHAR FROM {column} ORDER BY id").fetchall()]
        except duckdb.Error:
            return None

    def count(self, name: str, condition: str) -> int:
        """How many rows meet a condition on `v`."""
        ((count,),) = self.client.execute(f"SELECT count(*) FROM {identifier(name)} WHERE {condition}").fetchall()
        return int(count)


def conditions(texts: Sequence[str | None], sql_type: str) -> Iterator[str]:
    """Conditions on `v` that rows meet and others do not, such as statistics answer."""
    yield "v IS NULL"
    yield "v IS NOT NULL"
    for text in list(dict.fromkeys(text for text in texts if text is not None and "\0" not in text))[:3]:
        value = f"CAST({literal(text)} AS {sql_type})"
        yield from (f"v {operator} {value}" for operator in ("=", "<=", ">", "<>"))


def differences(landed: Landed, query: Query, first: int = 0) -> list[str]:
    """Where the lake does not have what was landed.

    Args:
        landed: the files.
        query: asks the lake, whose table is `lake.sales`.
        first: the number of the first row.
    """
    types = {name: kind for name, kind, *_ in query("DESCRIBE lake.sales")}
    numbered = f"id BETWEEN {first} AND {first + 999}"
    found = []
    for name in landed.names:
        column, texts = identifier(name), landed.texts[name]
        rows = f"(SELECT {column} AS v FROM lake.sales WHERE {numbered})"
        ordered = f"SELECT {column}::VARCHAR FROM lake.sales WHERE {numbered} ORDER BY id"
        lake = [text for (text,) in query(ordered)]
        if texts is None or lake != texts:
            found.append(f"{name} {types[name]}: {texts} became {lake}")
            continue
        some = list(conditions(texts, types[name]))
        counts = query(" UNION ALL ".join(f"SELECT {n}, count(*) FROM {rows} WHERE {c}" for n, c in enumerate(some)))
        expected = [(n, landed.count(name, c.replace("v ", f"v::{types[name]} ", 1))) for n, c in enumerate(some)]
        found += [
            f"{name} {types[name]}: {some[n]} finds {count} rows and not {wanted}"
            for (n, count), (_, wanted) in zip(sorted(counts), expected, strict=True)
            if count != wanted
        ]
    return found
