"""Partitions that a person named and the config does not have, or of which nothing has landed: what was meant."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache, cached_property
from itertools import islice

import duckdb

from lake_assets.errors import KeyOrderError, LakeAssetsError, NotDataError, OutsidePartitionError, StorageError
from lake_assets.lake.catalog.past import where
from lake_assets.layout.partition import Partition, PartitionColumn, PartitionValue
from lake_assets.layout.texts import first_lines, nearest
from lake_assets.streams.calendar import VALUES_NAMED, Calendar
from lake_assets.streams.locator import PartitionLocator
from lake_assets.streams.stream import OpenStream

MOST_OBJECTS = 5_000  # that are listed of the landing zone to find existing values
NAMED = 5  # values, if none is similar


def refuse_outside(stream: OpenStream, partitions: Iterable[Partition]) -> None:
    """Refuse partitions that the config does not have by now, in one error."""
    calendar = Calendar(stream.config)

    @cache
    def has_rows(column: PartitionColumn, value: PartitionValue) -> bool:
        condition, parameters = where(Partition((column,), (value,)))
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
            near, some = nearest(text, texts), sorted(texts)[:NAMED]
            listed = f": did you mean {near[0]}?" if near else f"; there is {', '.join(some)}." if some else "."
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
                where = locator.find(landed.key)
                if isinstance(where, NotDataError):  # its folder has landed
                    where = locator.find_of_folder(landed.key.rpartition("/")[0])
                if isinstance(where, Partition):
                    yield where
        except KeyOrderError:
            continue
        except StorageError:
            return
        return
