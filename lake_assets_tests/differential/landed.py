"""The landed files whose rows a lake should have."""

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import duckdb

from lake_assets.base.duckdb_engine import identifier, literal
from lake_assets_tests.world import World


@dataclass(frozen=True)
class File:
    """A landed file as it was when it was read.

    Attributes:
        path: of a copy that nobody changes, as plain Parquet.
        name: in the folder of the partition.
        ids: of its rows, in their order.
        types: of the table's columns when a plain client inserted the rows: the INSERT casts to them, and so drops a
            struct's field that the table gets later. Empty for landed files.
        annotator: what has given the landed file annotations, or another format.
    """

    path: Path
    name: str
    ids: Sequence[int]
    types: Mapping[str, str] = field(default_factory=dict)
    annotator: str = ""


@dataclass
class Landed:
    """A table by its landed files.

    Attributes:
        world: has the lake.
        folder: for another lake, which is compared with it.
        chosen: the source of all chance.
        partitions: names of the partition columns.
        lake: the files of each partition whose rows the lake has.
        deleted: ids of rows that it does not have.
        singles: columns whose floating-point values are those of single precision.
        log: what happened.
    """

    world: World
    folder: Path
    chosen: random.Random
    partitions: Collection[str]
    lake: dict[str, list[File]] = field(default_factory=dict)
    deleted: set[int] = field(default_factory=set)
    singles: set[str] = field(default_factory=set)
    log: list[str] = field(default_factory=list)

    def values(self, text: str) -> dict[str, str | None]:
        """The values of a partition, as texts."""
        partition = self.world.partition(text)
        return {name: None if v is None else str(v) for name, v in zip(self.partitions, partition.values, strict=True)}

    def select(self, client: duckdb.DuckDBPyConnection, text: str, file: File, names: Collection[str]) -> str:
        """A query for a file's rows with the partition's values, by those of its columns that the table has."""
        values = self.values(text).items()
        keys = [f"{'NULL' if value is None else literal(value)} AS {identifier(name)}" for name, value in values]
        source = f"read_parquet({literal(str(file.path))}, hive_partitioning = false)"
        there = [name for name, *_ in client.execute(f"DESCRIBE FROM {source}").fetchall()]
        columns = [
            f"CAST({identifier(name)} AS {file.types[name]}) AS {identifier(name)}" if file.types else identifier(name)
            for name in there
            if name in names and name not in self.partitions
        ]
        return f"SELECT {', '.join([*columns, *keys])} FROM {source}"
