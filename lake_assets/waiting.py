"""What waits in the landing zone: partitions whose objects are not those that were ingested last."""

from collections.abc import Iterable

from lake_assets.errors import NoLakeError
from lake_assets.lake.history import LastRuns, last_runs
from lake_assets.landed import list_landed, list_landed_in
from lake_assets.partition import Partition
from lake_assets.stream import OpenStream


def waiting_partitions(stream: OpenStream, partitions: Iterable[Partition] | None = None) -> dict[Partition, str]:
    """The fingerprint of what has landed in each partition that a refresh would read, by partition.

    Args:
        stream: whose.
        partitions: to look at, by a listing each; by one listing of the whole landing zone when None.

    Raises:
        LakeAssetsError: the landing zone cannot be listed, or the lake not be read.
    """
    landed = list_landed(stream)[0] if partitions is None else list_landed_in(stream, partitions)
    runs = _runs(stream)
    found = {partition: stream.fingerprint(manifest) for partition, manifest in landed.items() if manifest.objects}
    settled = {path: last.settled for path, last in runs.items()}
    return {partition: text for partition, text in found.items() if settled.get(partition.path) != text}


def _runs(stream: OpenStream) -> dict[str, LastRuns]:
    try:
        with stream.lake.open(read_only=True) as lake:
            return last_runs(lake, stream.table)
    except NoLakeError:
        return {}
