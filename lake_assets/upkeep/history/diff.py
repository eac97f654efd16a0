"""What differs between a partition's rows in two snapshots."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

from lake_assets.base.duckdb_engine import counting_percent, identifier
from lake_assets.base.errors import CatalogError, PartitionError
from lake_assets.base.json_dataclasses import AsText, Documented
from lake_assets.config.layout.partition import Partition
from lake_assets.lake.catalog.past_partitions import partition_condition
from lake_assets.lake.commit.deltas import spill_outside
from lake_assets.lake.failures import translated
from lake_assets.lake.session import LakeSession
from lake_assets.streams.stream import OpenStream
from lake_assets.upkeep.history.past_snapshot import earlier_names, require_snapshot, types_at

SAMPLE = 10  # rows of each kind

RowChange = Literal["insert", "delete", "update"]

# Texts, because a value of any type has one. Cut, so that a long value is not fetched.
_TEXT = "left({}::VARCHAR, 1000)"


@dataclass(frozen=True, slots=True)
class ChangedColumn(Documented):
    """A column whose values differ."""

    name: str
    """Its name."""
    rows: int | None
    """The number of rows of equal keys with other values; null without `--key`."""


@dataclass(frozen=True, slots=True)
class SampledRow(Documented):
    """A row that differs. Values are texts of 1,000 characters at most; NULL is null."""

    kind: RowChange
    """Whether the row is in the later snapshot only, in the earlier only, or in both with other values."""
    values: Mapping[str, str | None]
    """By column. Of an update, the keys, and the columns that differ, as they are in the later snapshot."""
    before: Mapping[str, str | None] | None = None
    """Of an update, the columns that differ, as they are in the earlier snapshot."""


@dataclass(frozen=True, slots=True)
class Difference(Documented):
    """What differs between a partition's rows in two snapshots."""

    partition: Annotated[Partition, AsText]
    """As a path, such as `region=NW/date=2026-02-11`."""
    first: int
    """The number of the earlier snapshot."""
    second: int
    """The number of the later snapshot."""
    rows_before: int
    """The partition's rows in the earlier one."""
    rows: int
    """Its rows in the later one."""
    inserted: int
    """Rows of the later one that the earlier one does not have; with `--key`, whose key it does not have."""
    deleted: int
    """The reverse."""
    updated: int | None
    """Rows of equal keys with other values; null without `--key`."""
    table: Sequence[str]
    """Differences of the table's columns, each in one clause."""
    columns: Sequence[ChangedColumn]
    """Those of both snapshots whose values differ."""
    sample: Sequence[SampledRow]
    """Some rows of each kind, as many as `--sample` says."""

    @property
    def is_equal(self) -> bool:
        """Whether both snapshots have the same rows and columns."""
        return not (self.inserted or self.deleted or self.updated or self.table)


@dataclass(frozen=True, slots=True)
class DiffOptions:
    """Which snapshots are compared, and how; see `StreamPartition.diff` of the package's API."""

    first: int
    second: int | None = None
    keys: Sequence[str] = ()
    sample: int = SAMPLE


def diff(stream: OpenStream, partition: Partition, options: DiffOptions) -> Difference:
    """Compare a partition's rows in two snapshots. The order of rows does not matter, and NULL equals NULL."""
    with stream.lake.open(read_only=True) as session:
        comparison = _Comparison(session, stream, partition, options)
        with translated(session.config):
            spill_outside(session)
        return comparison.difference()


class _Comparison:
    def __init__(self, session: LakeSession, stream: OpenStream, partition: Partition, options: DiffOptions) -> None:
        self.session = session
        self.stream = stream
        self.partition = partition
        self.options, self.first = options, options.first
        self.second = session.current_snapshot() if options.second is None else options.second
        for number in (self.first, self.second):
            require_snapshot(session, stream, number)
        before, after = (types_at(session, stream.table, number) for number in (self.first, self.second))
        earlier = earlier_names(session, stream.table, self.first, self.second)
        if earlier is None:
            by_name = {name.lower(): name for name in before}
            earlier = {name.lower(): by_name[name.lower()] for name in after if name.lower() in by_name}
        of_partition = {column.name.lower() for column in partition.columns}
        names_before = {name: earlier[name.lower()] for name in after if name.lower() in earlier}
        self.common = {  # the name in the second snapshot, and that in the first
            name: old for name, old in names_before.items() if name.lower() not in of_partition
        }
        self.table = [
            *(f"column {name} was added" for name in after if name not in names_before),
            *(f"column {name} was dropped" for name in before if name not in names_before.values()),
            *(
                f"column {old} was renamed to {name}"
                for name, old in names_before.items()
                if name.lower() != old.lower()
            ),
            *(
                f"column {name} was {before[old]} and became {after[name]}"
                for name, old in self.common.items()
                if before[old] != after[name]
            ),
        ]
        condition, parameters = partition_condition(partition)
        old_columns = ", ".join(f"{identifier(old)} AS {identifier(name)}" for name, old in self.common.items())
        news = ", ".join(map(identifier, self.common))
        table = stream.table.sql
        # A name of the table is quoted, and the rest are bound parameters.
        self._with = (
            f"WITH old AS (SELECT {old_columns} FROM {table} AT (VERSION => ?) WHERE {condition}), "  # noqa: S608
            f"new AS (SELECT {news} FROM {table} AT (VERSION => ?) WHERE {condition}) "
        )
        self._parameters = [self.first, *parameters, self.second, *parameters]

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        with counting_percent(self.session.connection, f"diff {self.stream.name}"):
            return self.session.rows(self._with + sql, self._parameters)

    def difference(self) -> Difference:
        ((rows_before, rows),) = self._rows("SELECT (SELECT count(*) FROM old), (SELECT count(*) FROM new)")
        if not rows_before and not rows:
            raise PartitionError(
                f"partition {self.partition} of {self.stream.table} has no rows in snapshots {self.first} and "
                f"{self.second}:",
                f"`lake-assets history {self.stream.name}` lists its snapshots.",
            )
        keys = self.options.keys
        compare = partial(self._difference_by_keys, self._checked(keys)) if keys else self._difference_by_rows
        inserted, deleted, updated, columns, sampled = compare(rows_before, rows)
        figures = (rows_before, rows, inserted, deleted, updated)
        return Difference(self.partition, self.first, self.second, *figures, self.table, columns, sampled)

    def _sample(self, query: Callable[[str, str], str]) -> list[SampledRow]:
        """Return rows that only one snapshot has, by the SQL of `query` for what one relation has and another lacks."""
        texts = ", ".join(_TEXT.format(identifier(name)) for name in self.common)
        sides: tuple[tuple[RowChange, str, str], ...] = (("delete", "old", "new"), ("insert", "new", "old"))
        return [
            SampledRow(kind, dict(zip(self.common, row, strict=True)))
            for kind, having, lacking in sides
            for row in self._rows(f"SELECT {texts} {query(having, lacking)}")
        ]

    def _difference_by_rows(
        self, rows_before: int, rows: int
    ) -> tuple[int, int, None, list[ChangedColumn], list[SampledRow]]:
        ((inserted,),) = self._rows("SELECT count(*) FROM (FROM new EXCEPT ALL FROM old)")
        # The others are in both.
        deleted = rows_before - (rows - inserted)
        columns = []
        if inserted and deleted:  # otherwise rows were only added or only removed, which says nothing of columns
            sums = ", ".join(f"sum(hash({identifier(name)})::HUGEINT)" for name in self.common)
            before, after = (self._rows(f"SELECT {sums} FROM {name}")[0] for name in ("old", "new"))  # noqa: S608
            differs = [left != right for left, right in zip(before, after, strict=True)]
            columns = [
                ChangedColumn(name, None) for name, is_other in zip(self.common, differs, strict=True) if is_other
            ]
        sampled = self._sample(
            lambda one, other: f"FROM (FROM {one} EXCEPT ALL FROM {other}) ORDER BY ALL LIMIT {self.options.sample:d}"
        )
        return inserted, deleted, None, columns, sampled

    def _checked(self, keys: Sequence[str]) -> list[str]:
        """Return the keys as the columns are called.

        Raises CatalogError if one is not a column of both snapshots, or two rows have the same values in all of them.
        """
        known = {name.lower(): name for name in self.common}
        for key in keys:
            if key.lower() not in known:
                raise CatalogError(
                    f"key {key} is not a column of {self.stream.table} in snapshots {self.first} and {self.second}:",
                    f"name one or more of {', '.join(self.common)}.",
                )
        names = [known[key.lower()] for key in dict.fromkeys(keys)]
        listed = ", ".join(map(identifier, names))
        for relation, number in (("old", self.first), ("new", self.second)):
            twice = self._rows(
                f"SELECT {', '.join(f'{identifier(n)}::VARCHAR' for n in names)} FROM {relation} "  # noqa: S608
                f"GROUP BY {listed} HAVING count(*) > 1 LIMIT 1"
            )
            if twice:
                values = ", ".join(f"{name} = {value}" for name, value in zip(names, twice[0], strict=True))
                raise CatalogError(
                    f"several rows of {self.partition} in snapshot {number} have {values}:",
                    "name more columns with --key, so that they name one row, or none.",
                )
        return names

    def _difference_by_keys(
        self, keys: Sequence[str], rows_before: int, rows: int
    ) -> tuple[int, int, int, list[ChangedColumn], list[SampledRow]]:
        others = [name for name in self.common if name not in keys]
        on = " AND ".join(f"o.{identifier(key)} IS NOT DISTINCT FROM n.{identifier(key)}" for key in keys)
        both = f"old o JOIN new n ON {on}"
        differs = {name: f"o.{identifier(name)} IS DISTINCT FROM n.{identifier(name)}" for name in others}
        is_other = " OR ".join(differs.values()) or "FALSE"
        figures = ", ".join(
            ["count(*)", f"count(*) FILTER ({is_other})", *(f"count(*) FILTER ({d})" for d in differs.values())]
        )
        ((matched, updated, *changed),) = self._rows(f"SELECT {figures} FROM {both}")  # noqa: S608 - quoted names
        columns = [ChangedColumn(name, count) for name, count in zip(others, changed, strict=True) if count]
        listed = ", ".join(map(identifier, keys))
        sampled = self._sample(
            lambda one, other: (
                f"FROM {one} o WHERE NOT EXISTS (SELECT 1 FROM {other} n WHERE {on}) "  # noqa: S608
                f"ORDER BY {listed} LIMIT {self.options.sample:d}"
            )
        )
        sampled += self._updates(keys, differs, both)
        return rows - matched, rows_before - matched, updated, columns, sampled

    def _updates(self, keys: Sequence[str], differs: Mapping[str, str], both: str) -> list[SampledRow]:
        if not differs:
            return []
        fields = [_TEXT.format(f"n.{identifier(key)}") for key in keys]
        for name, condition in differs.items():
            fields += [condition, *(_TEXT.format(f"{side}.{identifier(name)}") for side in "on")]
        rows = self._rows(
            f"SELECT {', '.join(fields)} FROM {both} WHERE {' OR '.join(differs.values())} "  # noqa: S608 - quoted
            f"ORDER BY {', '.join(f'n.{identifier(key)}' for key in keys)} LIMIT {self.options.sample:d}"
        )
        sampled = []
        for row in rows:
            values = dict(zip(keys, row, strict=False))
            before: dict[str, str | None] = {}
            old_and_new = row[len(keys) :]
            for index, name in enumerate(differs):
                is_other, old, new = old_and_new[3 * index : 3 * index + 3]
                if is_other:
                    before[name], values[name] = old, new
            sampled.append(SampledRow("update", values, before))
        return sampled
