"""A partition of which nothing has landed and the ledger has no row: which one was probably meant."""

from collections.abc import Iterable, Iterator
from itertools import islice

from lake_assets.errors import KeyOrderError, StorageError
from lake_assets.partition import Partition
from lake_assets.stream import OpenStream
from lake_assets.streams.nearest import nearest
from lake_assets.streams.places import Places

MOST_OBJECTS = 5_000  # of the landing zone that are looked at for the values there are
NAMED = 5  # values, where none is alike


def meant(stream: OpenStream, partition: Partition, known: Iterable[str]) -> str:
    """Which values there are, for a value of the partition that nobody knows; empty if all its values are known.

    Args:
        stream: whose partition it is.
        partition: of which nothing is known.
        known: the paths of the partitions that the ledger knows.
    """
    others = [other for path in known if (other := stream.config.partition_at(path)) is not None]
    for index, column in enumerate(partition.columns):
        text = column.text(partition.values[index])
        if column.in_rows or column.type not in ("string", "integer"):
            continue
        texts = {column.text(other.values[index]) for other in others}
        if text not in texts:
            texts |= {column.text(other.values[other.columns.index(column)]) for other in _landed(stream)}
        if text in texts:
            continue
        if any(wild in text for wild in ("%2A", "%3F")):
            return f"{column.name}={text} names one partition, for there are no wildcards."
        near = nearest(text, texts) or sorted(texts)[:NAMED]
        listed = f"; there is {', '.join(near)}" if near else ""
        return f"nothing of {column.name}={text} has landed or is in the lake{listed}."
    return ""


def _landed(stream: OpenStream) -> Iterator[Partition]:
    """The partitions of the first objects of the landing zone; none where it does not answer, for this is a hint."""
    if not stream.source.is_listable:
        return
    places = Places(stream.config)
    for tree in (False, True):
        try:
            pages = stream.source.pages(tree=tree)
            for landed in islice((o for page in pages for o in page), MOST_OBJECTS):
                if isinstance(place := places.find(landed.key), Partition):
                    yield place
        except KeyOrderError:
            continue
        except StorageError:
            return
        return
