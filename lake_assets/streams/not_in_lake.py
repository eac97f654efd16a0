"""What runs have left out of the lake: quarantined objects, and rows that are dead letters."""

from collections.abc import Collection, Sequence

from lake_assets.lake.ledger import object_history
from lake_assets.lake.session import LakeSession
from lake_assets.layout.partition import Partition
from lake_assets.parquet.job import LetterFile
from lake_assets.streams.stream import OpenStream


def quarantined(
    stream: OpenStream, lake: LakeSession | None, partitions: Collection[Partition] | None = None
) -> dict[Partition, dict[str, str]]:
    """Return why the newest commits left objects out, by their URIs; see `quarantined_objects`.

    Args:
        stream: of the partitions.
        lake: the open lake; None if there is none yet.
        partitions: those to read; all when None.

    Raises:
        CatalogError: ledger or manifest cannot be read.
    """
    if lake is None or stream.config.on_bad_object == "fail":
        return {}
    appends = stream.config.mode == "append"
    found = object_history.quarantined_objects(lake, stream.name, stream.table, _paths(partitions), adds=appends)
    return stream.config.by_partition(found)


def dead_letters(
    stream: OpenStream,
    lake: LakeSession | None,
    partitions: Collection[Partition] | None = None,
    at: int | None = None,
) -> dict[Partition, list[LetterFile]]:
    """Return the files of rows that the lake does not have, in the state of a snapshot (`at`); the present when None.

    The other arguments and the errors are as of `quarantined`.
    """
    if lake is None or stream.letters is None:
        return {}
    found = object_history.dead_letters(lake, stream.name, stream.table, _paths(partitions), at=at)
    return stream.config.by_partition(found)


def _paths(partitions: Collection[Partition] | None) -> Sequence[str] | None:
    return None if partitions is None else [partition.path for partition in partitions]
