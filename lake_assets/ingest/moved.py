"""Whether the landing zone has moved since a plan was made."""

from collections.abc import Mapping

from lake_assets.errors import PlanMovedError
from lake_assets.layout.partition import Partition
from lake_assets.storage.manifest import Manifest
from lake_assets.streams.stream import OpenStream


def moved_since(
    stream: OpenStream, planned: Mapping[Partition, str], landed: Mapping[Partition, Manifest]
) -> dict[Partition, PlanMovedError]:
    """The error of each partition whose landed objects are not the planned ones.

    Args:
        stream: of the partitions.
        planned: the fingerprints of the plan.
        landed: the objects now.
    """
    return {
        partition: PlanMovedError(
            f"the landing zone of partition {partition} has changed since the plan, or the stream's config has:",
            f"make a new plan: `lake-assets plan {stream.name}`.",
        )
        for partition, manifest in landed.items()
        if stream.fingerprint(manifest) != planned.get(partition)
    }
