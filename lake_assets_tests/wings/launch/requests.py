"""A request for a driver that reads no config."""

from lake_assets.ingest.outcome import IngestOptions
from lake_assets.wings.launch.request import Request


def request(run_id: str) -> Request:
    """The request for one partition of a stream `sales`."""
    return Request(
        config="lake.yaml",
        launcher_config="lake.yaml",
        launcher="of the test",
        stream="sales",
        facts={},
        partitions=["region=NW"],
        options=IngestOptions(run_id=run_id),
    )
