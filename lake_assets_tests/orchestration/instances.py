"""Instances of Dagster whose databases are in memory: a run takes a tenth of the time of one in SQLite's files.

Each has a reference, by which sensors and schedules open it again, so that they take it for one that persists.
"""

import atexit
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import dagster as dg
from dagster._core.storage.event_log import InMemoryEventLogStorage
from dagster._core.storage.runs import InMemoryRunStorage
from dagster._core.storage.runs.schema import KeyValueStoreTable
from dagster._serdes import ConfigurableClass, ConfigurableClassData

_STORAGES: dict[str, Any] = {}  # by kind and name
_IDLE: list[dg.DagsterInstance] = []


class _Shared(ConfigurableClass):
    """A storage that every instance of the same reference shares."""

    data: ConfigurableClassData | None = None

    @property
    def inst_data(self) -> ConfigurableClassData | None:
        return self.data

    @classmethod
    def config_type(cls) -> Any:
        return {"name": str}

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Any) -> Self:
        place = f"{cls.__name__} {config_value['name']}"
        if place not in _STORAGES:
            _STORAGES[place] = cls()
            _STORAGES[place].data = inst_data
        storage: Self = _STORAGES[place]
        return storage

    def register_instance(self, instance: dg.DagsterInstance) -> None:
        """Belong to the first one, which is never closed."""
        if not self.has_instance:  # type: ignore[attr-defined]
            super().register_instance(instance)  # type: ignore[misc]

    def dispose(self) -> None:
        """Stay, for the other instances."""


class Runs(_Shared, InMemoryRunStorage):
    """Runs of an instance."""

    def wipe(self) -> None:
        super().wipe()
        with self.connect() as connection:
            connection.execute(KeyValueStoreTable.delete())


class Events(_Shared, InMemoryEventLogStorage):
    """Events of an instance."""


@contextmanager
def in_memory() -> Iterator[dg.DagsterInstance]:
    """An empty instance; of those that this process has made, one that nobody uses."""
    instance = _IDLE.pop() if _IDLE else _made()
    try:
        yield instance
    finally:
        instance.wipe()
        _IDLE.append(instance)


def storages() -> dict[str, Any]:
    """The part of a new instance's dagster.yaml by which its databases are in memory."""
    name = {"name": uuid.uuid4().hex}
    return {
        "run_storage": {"module": __name__, "class": Runs.__name__, "config": name},
        "event_log_storage": {"module": __name__, "class": Events.__name__, "config": name},
    }


def _made() -> dg.DagsterInstance:
    folder = tempfile.mkdtemp(prefix="dagster-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return dg.DagsterInstance.local_temp(folder, overrides=storages() | {"telemetry": {"enabled": False}})


def tick_of(schedule: dg.ScheduleDefinition, instance: dg.DagsterInstance | None = None, **options: Any) -> Any:
    """Evaluate one tick of a schedule.

    A context that is not left keeps its instance open, and a later collection of garbage gives the process another.
    """
    with dg.build_schedule_context(instance, **options) as context:
        return schedule.evaluate_tick(context)
