"""The names of Dagster's definitions, which must differ."""

from collections.abc import Iterator, Mapping

import dagster as dg

from lake_assets.config.models import LakeConfig
from lake_assets.config.streams import Stream
from lake_assets.errors import ConfigError
from lake_assets.orchestration.dagster_private import OWN_JOB, step_of
from lake_assets.orchestration.evaluations import step_of_checks
from lake_assets.orchestration.partitions import dynamic_columns, dynamic_name
from lake_assets.orchestration.translator import StreamSpecs


def check_names(config: LakeConfig, specs: Mapping[str, StreamSpecs], ledgers: Mapping[str, dg.AssetSpec]) -> None:
    """Refuse a config in which two definitions would have one name.

    Assets, jobs and their steps share one namespace.

    Args:
        config: of the definitions.
        specs: the attributes of each stream's assets.
        ledgers: the attributes of the ledger of each lake that has streams.

    Raises:
        ConfigError: two definitions share a name; the error names both.
    """
    owners: dict[str, str] = {OWN_JOB: "a job of Dagster's own"}
    for name, owner in _names(config, specs, ledgers):
        if name in owners:
            raise ConfigError(
                f"{owner} and {owners[name]} would both be called {name} in Dagster:",
                f"rename {'it' if owners[name].endswith('own') else 'one of them'}.",
            )
        owners[name] = owner
    sets: dict[str, str] = {}
    columns = [(name, column) for name, stream in config.streams.items() for column in dynamic_columns(stream)]
    for stream, column in columns:
        name, owner = dynamic_name(stream, column), f"streams.{stream}.partitions.{column}"
        if name in sets:
            raise ConfigError(
                f"{owner} and {sets[name]} would share the dynamic partitions {name} in Dagster:",
                "rename one of the streams, or give one of the columns its values.",
            )
        sets[name] = owner


def _names(
    config: LakeConfig, specs: Mapping[str, StreamSpecs], ledgers: Mapping[str, dg.AssetSpec]
) -> Iterator[tuple[str, str]]:
    """Yield each name and its owner."""
    for name in config.lakes:
        if name in ledgers:
            yield step_of(ledgers[name].key), f"the ledger of lakes.{name}"
        yield f"maintain_{name}", f"the maintenance of lakes.{name}"
        yield f"maintain_{name}_lake", f"the maintenance's step of lakes.{name}"
        yield f"audit_{name}", f"the audit of lakes.{name}"
    for name, stream in config.streams.items():
        yield step_of(specs[name].table.key), f"streams.{name}"
        yield step_of(specs[name].report.key), f"the report of streams.{name}"
        yield step_of(specs[name].landing.key), f"the landing zone of streams.{name}"
        yield from _beside(name, stream)


def _beside(name: str, stream: Stream) -> Iterator[tuple[str, str]]:
    yield step_of_checks(name), f"the checks of streams.{name}"
    yield f"ingest_{name}", f"the ingest of selected partitions of streams.{name}"
    yield f"ingest_partitions_of_{name}", f"its step of streams.{name}"
    yield f"restore_{name}", f"the restore of streams.{name}"
    yield f"restore_partition_of_{name}", f"the restore's step of streams.{name}"
    if stream.schedule:
        yield f"refresh_{name}", f"the schedule's job of streams.{name}"
    if stream.automation:
        yield f"observe_{name}", f"the automation's job of streams.{name}"
    if stream.landing and stream.landing.buffer:
        yield f"drain_{name}", f"the buffer's job of streams.{name}"
        yield f"drain_{name}_buffer", f"the buffer's step of streams.{name}"
