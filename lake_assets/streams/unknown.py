"""Suggestions for an unknown partition, of which nothing has landed and the ledger has no row."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import islice

from lake_assets.errors import KeyOrderError, NotDataError, StorageError
from lake_assets.layout.partition import Partition
from lake_assets.layout.texts import nearest
from lake_assets.streams.locator import PartitionLocator
from lake_assets.streams.stream import OpenStream

MOST_OBJECTS = 5_000  # that are listed of the landing zone to find existing values
NAMED = 5  # values, if none is similar


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
