"""What waits in the landing zone: partitions whose objects are not those that were ingested last."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lake_assets.errors import NoLakeError
from lake_assets.lake.ledger.last_runs import LastRuns, last_runs
from lake_assets.layout.partition import Partition
from lake_assets.streams.landing_zone import Stranger, list_landed, list_landed_in
from lake_assets.streams.stream import OpenStream


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a look at the landing zone found."""

    landed: Mapping[Partition, str]  # the fingerprint of each partition that has objects
    waiting: Mapping[Partition, str]  # of these, the ones that a refresh would read
    strangers: Sequence[Stranger] | None  # objects that lie in no partition; None where not all folders were listed

    @property
    def version(self) -> str:
        """One text for all that has landed; the same as long as nothing changes."""
        lines = sorted(f"{partition.path} {fingerprint}" for partition, fingerprint in self.landed.items())
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def look_at_landing(stream: OpenStream, partitions: Iterable[Partition] | None = None) -> Waiting:
    """The fingerprint of what has landed in each partition, and which of them a refresh would read.

    Args:
        stream: whose.
        partitions: to look at, by a listing each; by one listing of the whole landing zone when None.

    Raises:
        LakeAssetsError: the landing zone cannot be listed, or the lake not be read.
    """
    landed, strangers = list_landed(stream) if partitions is None else (list_landed_in(stream, partitions), None)
    runs = _runs(stream)
    found = {partition: stream.fingerprint(manifest) for partition, manifest in landed.items() if manifest.objects}
    settled = {path: last.settled for path, last in runs.items()}
    return Waiting(found, {p: text for p, text in found.items() if settled.get(p.path) != text}, strangers)


def _runs(stream: OpenStream) -> dict[str, LastRuns]:
    try:
        with stream.lake.open(read_only=True) as lake:
            return last_runs(lake, stream.table)
    except NoLakeError:
        return {}
