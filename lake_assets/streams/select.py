"""The partitions of a stream that a person selected, found in its config, its landing zone and its ledger."""

import datetime as dt
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import islice

import duckdb

from lake_assets.base.errors import (
    KeyOrderError,
    LakeAssetsError,
    NotDataError,
    OutsidePartitionError,
    PartitionError,
    StorageError,
)
from lake_assets.base.texts import count, first_lines, nearest
from lake_assets.config.layout.partition import Partition, PartitionColumn, PartitionValue
from lake_assets.config.streams import StreamConfig
from lake_assets.lake.catalog.past_partitions import partition_condition
from lake_assets.lake.ledger.read import last_runs
from lake_assets.storage.manifest import Manifest
from lake_assets.streams.calendar import VALUES_NAMED, Calendar, sort_key
from lake_assets.streams.left_out import LeftOut
from lake_assets.streams.locator import PartitionLocator
from lake_assets.streams.pending import LandingScan
from lake_assets.streams.selection_grammar import Selector, parse_selector, values_text
from lake_assets.streams.stream import OpenStream, list_scope

MOST_OBJECTS = 5_000  # that are listed of the landing zone to find existing values
NAMED = 5  # values, if none is similar


def refuse_outside(stream: OpenStream, partitions: Iterable[Partition]) -> None:
    """Refuse partitions that the config does not have by now, in one error."""
    calendar = Calendar(stream.config)

    @cache
    def has_rows(column: PartitionColumn, value: PartitionValue) -> bool:
        condition, parameters = partition_condition(Partition((column,), (value,)))
        with suppress(LakeAssetsError, duckdb.Error), stream.lake.open_if_exists() as lake:  # only a hint is lost
            if lake is not None and lake.exists(stream.table):
                sql = f"SELECT 1 FROM {stream.table.sql} WHERE {condition} LIMIT 1"  # noqa: S608 - quoted names
                return bool(lake.rows(sql, parameters))
        return False

    errors = [error for partition in partitions if (error := calendar.outside(partition, has_rows)) is not None]
    if not errors:
        return
    unlike = list({str(error): error for error in errors}.values())
    if len(unlike) == 1:
        raise unlike[0]
    lines = first_lines([f"- {error}" for error in unlike], VALUES_NAMED)
    raise OutsidePartitionError("\n".join([f"{len(errors):,} partitions are outside the config:", *lines]))


class UnknownPartitions:
    """Suggests existing values for unknown partitions of a run; `known` are the paths of those in the ledger."""

    def __init__(self, stream: OpenStream, known: Iterable[str]) -> None:
        self.known = frozenset(known)
        self._stream = stream

    def suggest(self, partition: Partition) -> str:
        """Return a sentence with the existing values for the partition's first unknown one; empty if all are known.

        If its folder has objects that no refresh reads, the sentence has the first of them and the reason.
        """
        with suppress(StorageError):
            if (first := next(iter(self._stream.left_out_of(partition)), None)) is not None:
                return f"no refresh reads what has landed there, such as {first[0].shown}: {first[1]}"
        for index, column in enumerate(partition.columns):
            text = column.shown(partition.values[index])
            if column.in_rows or column.type not in ("string", "integer"):
                continue
            texts = {column.shown(other.values[index]) for other in self._others}
            if text not in texts:
                texts |= {column.shown(other.values[other.columns.index(column)]) for other in self._landed}
            if text in texts:
                continue
            near, shown = nearest(text, texts), sorted(texts)[:NAMED]
            listed = f": did you mean {near[0]}?" if near else f"; there is {', '.join(shown)}." if shown else "."
            return f"nothing of {column.name}={text} has landed or is in the lake{listed}"
        return ""

    @cached_property
    def _others(self) -> Sequence[Partition]:
        return [other for path in self.known if (other := self._stream.config.partition_at(path)) is not None]

    @cached_property
    def _landed(self) -> frozenset[Partition]:
        return frozenset(_first_landed(self._stream))


def _first_landed(stream: OpenStream) -> Iterator[Partition]:
    """Return the partitions of the landing zone's first objects; none if it cannot be listed, as this is a hint."""
    if not stream.source.is_listable:
        return
    locator = PartitionLocator(stream.config)
    for tree in (False, True):
        try:
            pages = stream.source.pages(tree=tree)
            for landed in islice((obj for page in pages for obj in page), MOST_OBJECTS):
                location = locator.find(landed.key)
                if isinstance(location, NotDataError):  # its folder has landed
                    location = locator.find_of_folder(landed.key.rpartition("/")[0])
                if isinstance(location, Partition):
                    yield location
        except KeyOrderError:
            continue
        except StorageError:
            return
        return


PREFIXES = 1_000  # partitions that are listed one by one; of more, the whole landing zone is listed

Known = tuple[Collection[Partition], Collection[Partition], LeftOut | None]
"""Partitions that have landed or were committed, those in a wanted state, and what a whole listing left out."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a person selects: texts of the selection grammar, and states."""

    texts: tuple[str, ...] = ()  # each selects partitions; together they select all of these
    waiting: bool = False  # of these, those whose landed objects are not in the lake
    failed: bool = False  # of these, those whose newest run failed; with `waiting`, those of both kinds
    every: bool = False  # every partition that has landed or is in the lake
    most: int | None = None  # the first partitions of the selection, this many

    def __post_init__(self) -> None:
        """Refuse a selection of everything that selects something else too."""
        if self.every and (self.texts or self.waiting or self.failed):
            raise PartitionError("--all is every partition:", "give it without --partition, --waiting and --failed.")

    @property
    def is_empty(self) -> bool:
        """Whether nothing is selected, so that a command takes what it takes by default."""
        return self == Wanted()

    @property
    def nothing(self) -> str:
        """What an empty selection means."""
        states = [text for is_wanted, text in ((self.waiting, "has new objects"), (self.failed, "failed")) if is_wanted]
        return f"nothing {' or '.join(states) or 'has landed'}"

    @property
    def is_open(self) -> bool:
        """Whether nothing is selected except the number of partitions, which limits what a command takes by default."""
        return replace(self, most=None).is_empty


@dataclass(frozen=True, slots=True)
class Selection:
    """The partitions that a person selected."""

    partitions: tuple[Partition, ...]
    total: int  # their number before `most` was applied
    # The number of partitions of the config that were described, and left out because nothing of them has landed or is
    # in the lake
    nothing_landed: int = 0
    outside: int = 0  # the number of others that were described, and left out because the config does not have them
    is_named: bool = False  # whether each partition was named by its values
    nothing: str = "nothing has landed"  # why there is nothing to do, if there are no partitions
    left_out: LeftOut | None = None  # the objects that no refresh reads; None if the whole landing zone was not listed

    def __str__(self) -> str:
        """Return such as `56 partitions: region NE, NW; date 2026-02-01 to 2026-02-28 (28)`."""
        number = len(self.partitions)
        first = f"the first {number:,} of {count(self.total, 'partition')}"
        text = count(number, "partition") if number == self.total else first
        text = f"{text}: {values_text(self.partitions)}" if self.partitions else f"{self.nothing}; nothing to do"
        if self.nothing_landed:
            text += f"; of {self.nothing_landed:,} more nothing has landed"
        if self.outside:
            text += f"; {self.outside:,} more outside the config, which --outside accepts"
        return text


def select(stream: OpenStream, wanted: Wanted, *, outside: bool = False, now: dt.datetime | None = None) -> Selection:
    """Return the partitions that a person selected.

    A partition that is named by its values is selected in any case. Of those that are described (by a wildcard, a
    range, a period, or a column without a condition) and of `every`, the ones that have landed or that the lake has a
    commit of are selected. Nothing is read if each is named and no state is wanted. Up to 1,000 partitions that the
    config expects are listed one by one; otherwise the whole landing zone is listed. With `outside` partitions that the
    config does not have are selected too. It expects times up to `now`, with a time zone.
    """
    calendar = Calendar(stream.config, now)
    selectors = [parse_selector(stream.config, text, calendar) for text in dict.fromkeys(wanted.texts)]
    named = list(dict.fromkeys(p for selector in selectors for p in selector.named or ()))
    unnamed = [selector for selector in selectors if selector.named is None]
    if not outside:
        refuse_outside(stream, [*named, *(value for selector in unnamed for value in selector.values)])
    if selectors and not unnamed and not (wanted.waiting or wanted.failed):
        return _first(Selection(tuple(named), len(named), is_named=True), wanted.most)
    # Partitions outside the config are in the landing zone and the ledger only.
    expected = _expected(unnamed, named, calendar) if selectors and not outside else None
    known, in_state, left_out = _read(stream, wanted, expected)
    is_wanted = matcher(selectors)
    meant = {p for p in known if is_wanted(p)}
    kept = meant if outside else {p for p in meant if calendar.outside(p) is None}
    others = meant - kept
    absent = 0 if expected is None else len({p for p in expected if calendar.outside(p) is None} - kept - set(named))
    chosen = [*named, *sorted(kept.difference(named), key=sort_key)]
    if wanted.waiting or wanted.failed:
        chosen, absent = [partition for partition in chosen if partition in in_state], 0
        others = others.intersection(in_state)
    left_out = left_out and left_out.taking(outside=outside)
    selection = Selection(tuple(chosen), len(chosen), absent, len(others), nothing=wanted.nothing, left_out=left_out)
    return _first(selection, wanted.most)


def narrowed(stream: OpenStream, partitions: Sequence[Partition], wanted: Wanted) -> list[Partition]:
    """Return those of some partitions that a person selected, in their order."""
    is_wanted = matching(stream, wanted.texts)
    kept = [partition for partition in partitions if is_wanted(partition)]
    if (wanted.waiting or wanted.failed) and kept:
        in_state = _read(stream, wanted, kept)[1]
        kept = [partition for partition in kept if partition in in_state]
    return kept[: wanted.most]


def only_partition(config: StreamConfig) -> Partition | None:
    """Return the partition of a stream whose config has exactly one by now."""
    calendar = Calendar(config)
    values = [calendar.values(column) for column in config.partition_columns]
    if any(len(of_column) != 1 for of_column in values):
        return None
    return Partition(config.partition_columns, tuple(value for (value,) in values))


def matcher(selectors: Sequence[Selector]) -> Callable[[Partition], bool]:
    """Return whether one of the selectors selects a partition; without selectors, every one is selected."""
    return lambda partition: not selectors or any(selector.matches(partition) for selector in selectors)


def matching(stream: OpenStream, texts: Iterable[str], now: dt.datetime | None = None) -> Callable[[Partition], bool]:
    """Return whether texts of the selection grammar select a partition; without texts, every one is selected."""
    calendar = Calendar(stream.config, now)
    return matcher([parse_selector(stream.config, text, calendar) for text in texts])


def _first(selection: Selection, most: int | None) -> Selection:
    return selection if most is None else replace(selection, partitions=selection.partitions[:most])


def _expected(unnamed: Sequence[Selector], named: Sequence[Partition], calendar: Calendar) -> list[Partition] | None:
    """Return all partitions that can be meant; None if the landing zone decides it, or if they are many."""
    partitions = dict.fromkeys(named)
    for selector in unnamed:
        expected = selector.expected(calendar, PREFIXES)
        if expected is None:
            return None
        partitions |= dict.fromkeys(expected)
    return list(partitions) if len(partitions) <= PREFIXES else None


def _read(stream: OpenStream, wanted: Wanted, scope: Sequence[Partition] | None) -> Known:
    """Read those of some partitions, or of all, that have landed, were committed, and so on; see `Known`."""
    listed: Mapping[Partition, Manifest] = {}
    left_out: LeftOut | None = None
    if wanted.waiting or not wanted.failed:  # a run that failed has a row in the ledger
        listed, left_out = list_scope(stream, scope)
    with stream.lake.open_if_exists() as lake:
        runs = {} if lake is None else last_runs(lake, stream.table, scope)
    ledger = stream.config.by_partition(runs, listed)
    scan = LandingScan(stream, listed, runs, left_out)
    in_state = set(scan.pending) if wanted.waiting else set()
    if wanted.failed:
        in_state |= {partition for partition, last in ledger.items() if last.status == "failed"}
    committed = {p for p, last in ledger.items() if last.committed_at is not None or last.fingerprint is not None}
    return scan.landed.keys() | committed | in_state, in_state, left_out
