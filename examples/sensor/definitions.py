"""The definitions of `lake.yaml`, and a sensor that requests a run of each partition that is marked as done."""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg

from lake_assets import build_definitions

FOLDER = Path(__file__).parent


@dg.sensor(target="sales", minimum_interval_seconds=30, default_status=dg.DefaultSensorStatus.RUNNING)
def done_sensor(context: dg.SensorEvaluationContext) -> Iterator[dg.RunRequest | dg.SkipReason]:
    """Requests a run of each partition with a file `done/region=NW,date=2026-02-11`, again when it is rewritten."""
    files = sorted(FOLDER.glob("done/*=*"))
    if not files:
        yield dg.SkipReason("No partition is done.")
    for file in files:
        values = dict(part.split("=") for part in file.name.split(","))
        # Dagster starts one run for each run key, however often the sensor asks.
        run_key = f"{file.name}:{file.stat().st_mtime_ns}"
        yield dg.RunRequest(run_key=run_key, partition_key=dg.MultiPartitionKey(values))


defs = dg.Definitions.merge(build_definitions(FOLDER / "lake.yaml"), dg.Definitions(sensors=[done_sensor]))
