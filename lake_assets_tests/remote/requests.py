"""A request for a driver that reads no config."""

from lake_assets.remote.request import Request


def request(run_id: str) -> Request:
    """The request for one partition of a stream `sales`."""
    return Request(
        config="lake.yaml",
        launcher_config="lake.yaml",
        launcher="of the test",
        stream="sales",
        facts={},
        partitions=["region=NW"],
        run_id=run_id,
        run_at="2026-02-11T00:00:00+00:00",
        requested_by=None,
        force=False,
        landed_only=False,
        outside=False,
    )
