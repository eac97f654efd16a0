"""The example of a sensor: a tick asks for the partitions that are done, and their runs ingest them."""

import runpy
from collections.abc import Callable
from pathlib import Path

import dagster as dg
from pyspark.sql import SparkSession

from lake_assets import open_stream


def test_a_tick_asks_for_a_run_that_ingests_the_partition(example: Callable[[str], Path], spark: SparkSession) -> None:
    assert spark  # one session for all tests
    folder = example("sensor")
    definitions = runpy.run_path(str(folder / "definitions.py"))["defs"]
    dg.Definitions.validate_loadable(definitions)
    sensor = definitions.resolve_sensor_def("done_sensor")
    job = definitions.resolve_implicit_global_asset_job_def()

    with dg.DagsterInstance.ephemeral() as instance:
        with dg.build_sensor_context(instance=instance, definitions=definitions) as context:
            idle = sensor.evaluate_tick(context)
        (folder / "done").mkdir()
        (folder / "done" / "region=NW,date=2026-02-11").touch()
        with dg.build_sensor_context(instance=instance, definitions=definitions) as context:
            (request,) = list(sensor.evaluate_tick(context).run_requests or [])
        done = job.execute_in_process(
            instance=instance, partition_key=request.partition_key, asset_selection=[dg.AssetKey("sales")]
        )

    assert idle.skip_message == "No partition is done."
    assert done.success
    assert open_stream(folder / "lake.yaml").partition("region=NW,date=2026-02-11").read().num_rows == 175
