"""Ticks of a stream's sensor, evaluated as the daemon does, and the runs that they ask for."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import dagster as dg
from dagster._core.definitions.sensor_definition import SensorExecutionData
from dagster._core.remote_origin import GrpcServerCodeLocationOrigin

from lake_assets.config.models import LakeConfig
from lake_assets.orchestration.build import build_definitions
from lake_assets.orchestration.resources import pyspark_resource
from lake_assets_tests.orchestration.instances import in_memory
from lake_assets_tests.world import World

LOCATION = GrpcServerCodeLocationOrigin(host="localhost", port=1, location_name="lake")


@dataclass
class Clock:
    """Takes the place of the module `time`: a test says how long each thing takes."""

    now: float = 1_000_000.0

    def time(self) -> float:
        return self.now

    monotonic = time

    def passes(self, seconds: float) -> bool:
        """So much time passes."""
        self.now += seconds
        return True


@dataclass
class Ticks:
    """A sensor, with an instance that holds what it asked for."""

    world: World
    instance: dg.DagsterInstance
    cursor: str | None = None
    run_keys: set[str] = field(default_factory=set)
    recorded_at: float | None = None  # when the last tick was
    sensor: str = "sales_sensor"
    config: LakeConfig | None = None  # that of the world when None
    _built: tuple[LakeConfig, dg.Definitions] | None = None

    def definitions(self) -> dg.Definitions:
        """The definitions; the same while the config is, for they take longer than a tick."""
        config = self.config or self.world.config
        if self._built is None or self._built[0] != config:
            self._built = config, build_definitions(config)
        return self._built[1]

    def evaluate(self) -> SensorExecutionData:
        """One tick; nothing of it is recorded."""
        definitions = self.definitions()
        context = dg.SensorEvaluationContext(
            instance_ref=self.instance.get_ref(),
            instance=self.instance,
            last_tick_completion_time=self.recorded_at,
            last_run_key=None,
            cursor=self.cursor,
            repository_name="__repository__",
            repository_def=definitions.get_repository_def(),
            sensor_name=self.sensor,
            code_location_origin=LOCATION,
        )
        with context:
            return definitions.resolve_sensor_def(self.sensor).evaluate_tick(context)

    def tick(self) -> list[dg.RunRequest]:
        """One tick; the requests that start a run, in the order in which the daemon takes them."""
        data = self.evaluate()
        for request in data.dynamic_partitions_requests or ():
            assert isinstance(request, dg.AddDynamicPartitionsRequest)
            self.instance.add_dynamic_partitions(request.partitions_def_name, list(request.partition_keys))
        self.cursor, self.recorded_at = data.cursor, time.time()
        new = [request for request in data.run_requests or () if request.run_key not in self.run_keys]
        self.run_keys |= {str(request.run_key) for request in new}
        return new

    def run(self, requests: list[dg.RunRequest]) -> list[dg.ExecuteInProcessResult]:
        """Execute the requests as runs."""
        definitions = self.definitions()
        resources = {"pyspark": pyspark_resource(self.world.config.spark)}
        assets: list[Any] = list(definitions.assets or ())
        return [
            dg.materialize(
                assets,
                instance=self.instance,
                resources=resources,
                partition_key=request.partition_key,
                selection=request.asset_selection,
                tags=dict(request.tags),
                raise_on_error=False,
            )
            for request in requests
        ]


@contextmanager
def ticks_of(world: World, config: LakeConfig | None = None) -> Iterator[Ticks]:
    """Ticks of the world's stream."""
    with in_memory() as instance:
        yield Ticks(world, instance, config=config)
