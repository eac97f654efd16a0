"""The attributes of each asset in Dagster: key, group, tags, owners, kinds, description, metadata.

A subclass of `LakeAssetsTranslator` changes them for all assets of a config, as the translators of dagster-dlt and
dagster-dbt do.
"""

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import dagster as dg

from lake_assets.base.errors import ConfigError
from lake_assets.lake.ledger.tables import LEDGER, LEDGER_COLUMNS
from lake_assets.orchestration.metadata import default_description, definition_metadata, table_schema
from lake_assets.orchestration.partition_keys import StreamKeys
from lake_assets.streams.detection.cursor import identity
from lake_assets.streams.stream import OpenStream

# The kinds that Dagster has icons for, by the type of the landing zone's storage.
_STORES = {"local": "file", "gcs": "googlecloud", "web": "http"}

AssetKind = Literal["table", "landing", "report", "ledger"]
"""The table of a stream, its landing zone upstream, the report of its partitions, or the ledger of a lake."""


@dataclass(frozen=True, slots=True)
class LakeAssetsTranslatorData:
    """The asset that a translator describes.

    Attributes:
        kind: which of a stream's assets it is, or that it is a lake's ledger.
        name: the asset's name without a prefix: `sales`, `sales_landing`, `sales_report`, `retail_ledger`.
        key_prefix: the prefix that the config gives the asset's key; may be empty.
        streams: the asset's stream; of a ledger, all streams that write to it; of a landing zone, all that read it.
    """

    kind: AssetKind
    name: str
    key_prefix: tuple[str, ...]
    streams: tuple[OpenStream, ...]

    @property
    def stream(self) -> OpenStream:
        """The asset's stream; of a ledger or a landing zone, the first of its streams."""
        return self.streams[0]

    @property
    def config_path(self) -> str:
        """The part of the config that defines the asset, for messages."""
        return f"the ledger {self.name}" if self.kind == "ledger" else f"streams.{self.stream.name}"


class LakeAssetsTranslator:
    """Makes the `AssetSpec` of each asset from the config.

    Subclass it and override `get_asset_spec` to change keys, groups, tags, owners, kinds, descriptions or metadata:

        class ByTeam(LakeAssetsTranslator):
            def get_asset_spec(self, data: LakeAssetsTranslatorData) -> dg.AssetSpec:
                spec = super().get_asset_spec(data)
                return spec.replace_attributes(key=spec.key.with_prefix("retail"), group_name=data.kind)

        defs = build_definitions("lake.yaml", translator=ByTeam())

    Dependencies, checks, schedules, sensors and column lineage follow the key. Jobs, schedules and sensors keep the
    stream's name.
    """

    def get_asset_spec(self, data: LakeAssetsTranslatorData) -> dg.AssetSpec:
        """Return the asset's attributes; its `deps` are added to the asset's own.

        It is called several times for an asset, and must return the same each time.
        """
        key = dg.AssetKey([*data.key_prefix, data.name])
        config = data.stream.config
        group = config.group or data.stream.lake_name or None
        match data.kind:
            case "table":
                return dg.AssetSpec(
                    key,
                    description=config.description or default_description(data.stream),
                    group_name=group,
                    owners=config.owners,
                    kinds=set(config.kinds),
                    tags=config.tags,
                    metadata=definition_metadata(data.stream),
                    automation_condition=_automation_condition(data.stream),
                    freshness_policy=_freshness_policy(data.stream),
                )
            case "landing":
                return dg.AssetSpec(
                    key,
                    description=f"What lands at `{data.stream.source.root}`. Observe it to see which partitions have "
                    "new objects.",
                    group_name=group,
                    kinds={"landing_zone", _STORES.get(config.source.type, config.source.type), config.format.type},
                    metadata={"source": dg.MetadataValue.path(data.stream.files_uri)},
                )
            case "report":
                return dg.AssetSpec(
                    key,
                    description=f"The state of each partition of `{data.stream.name}`: committed, stale, failed, "
                    "missing or absent.",
                    group_name=group,
                    owners=config.owners,
                    kinds={"report"},
                    automation_condition=_report_condition(data.stream),
                )
            case "ledger":
                return _ledger_spec(key, data)


@dataclass(frozen=True, slots=True)
class StreamSpecs:
    """A stream and the attributes of its assets."""

    stream: OpenStream
    table: dg.AssetSpec
    landing: dg.AssetSpec
    report: dg.AssetSpec
    readers: tuple[OpenStream, ...]  # of the landing zone; the first one gives its asset the name


def specs_of(
    stream: OpenStream, translator: LakeAssetsTranslator | None = None, readers: tuple[OpenStream, ...] = ()
) -> StreamSpecs:
    """Return the attributes of a stream's assets, by the package's own translator when None.

    `readers` are the streams that share the asset of its landing zone, as `readers_of` returns them; this one if empty.
    An attribute that Dagster refuses is a ConfigError.
    """
    translator, readers = translator or LakeAssetsTranslator(), readers or (stream,)

    def spec(kind: AssetKind, name: str, *streams: OpenStream) -> dg.AssetSpec:
        return _translated(translator, LakeAssetsTranslatorData(kind, name, stream.key_prefix, streams))

    return StreamSpecs(
        stream,
        spec("table", stream.name, stream),
        spec("landing", f"{readers[0].name}_landing", *readers),
        spec("report", f"{stream.name}_report", stream),
        readers,
    )


def readers_of(streams: Iterable[OpenStream]) -> dict[str, tuple[OpenStream, ...]]:
    """Return for each stream, by its name, those with the same landing zone, of which the first one names its asset."""
    readers: dict[tuple[object, ...], tuple[OpenStream, ...]] = {}
    zones = {
        stream.name: (identity(stream.config), stream.key_prefix, StreamKeys(stream).definition) for stream in streams
    }
    for stream in streams:
        readers[zones[stream.name]] = (*readers.get(zones[stream.name], ()), stream)
    return {name: readers[zone] for name, zone in zones.items()}


def ledger_spec(
    lake: str,
    key_prefix: tuple[str, ...],
    streams: Sequence[OpenStream],
    translator: LakeAssetsTranslator | None = None,
) -> dg.AssetSpec:
    """Return the attributes of the asset of a lake's ledger, by the package's own translator when None.

    An attribute that Dagster refuses is a ConfigError.
    """
    data = LakeAssetsTranslatorData("ledger", f"{lake}_ledger", key_prefix, tuple(streams))
    return _translated(translator or LakeAssetsTranslator(), data)


def asset_options(spec: dg.AssetSpec) -> dict[str, Any]:
    """Return the attributes of a spec as arguments of `dagster.asset`; `kinds` are among the tags."""
    names = ("key", "description", "group_name", "owners", "tags", "metadata", "code_version", "freshness_policy")
    return {name: getattr(spec, name) for name in (*names, "automation_condition")}


def _translated(translator: LakeAssetsTranslator, data: LakeAssetsTranslatorData) -> dg.AssetSpec:
    try:
        spec = translator.get_asset_spec(data)
    except dg.DagsterInvalidDefinitionError as error:
        raise ConfigError(f"{data.config_path}: Dagster does not take it: {error}") from error
    if spec.partitions_def is not None:
        raise ConfigError(
            f"{data.config_path}: the translator {type(translator).__name__} sets a partitions_def for {data.name}:",
            "leave it out. The config defines the partitions of an asset.",
        )
    return spec


def _automation_condition(stream: OpenStream) -> dg.AutomationCondition[dg.AssetKey | dg.AssetCheckKey] | None:
    """Return the condition of a refresh: the partition's landing zone has a new version; None without `automation`.

    Unlike `AutomationCondition.eager` it includes old dates. Only a request resets it, not a materialization: one of a
    run that listed the partition before the new version may come after it. A superfluous request costs a listing.
    """
    if stream.config.automation is None:
        return None
    landed = dg.AutomationCondition.any_deps_updated()
    # A version that is newer than the request was not requested.
    requested = dg.AutomationCondition.newly_requested() & ~landed
    changed = landed.since(requested | dg.AutomationCondition.initial_evaluation())
    return (changed & ~dg.AutomationCondition.in_progress()).with_label("landed")


def _report_condition(stream: OpenStream) -> dg.AutomationCondition[dg.AssetKey | dg.AssetCheckKey] | None:
    """Return the condition of a refresh: a run of the stream has ended, with or without success; None without a page.

    The partitions of a run are one refresh, after its end.
    """
    if stream.config.report is None:
        return None
    failed = dg.AutomationCondition.execution_failed().newly_true()
    ended = dg.AutomationCondition.any_deps_match(dg.AutomationCondition.newly_updated() | failed)
    requested = dg.AutomationCondition.newly_requested() & ~ended
    waiting = ended.since(requested | dg.AutomationCondition.initial_evaluation())
    busy = dg.AutomationCondition.in_progress() | dg.AutomationCondition.any_deps_in_progress()
    return (waiting & ~busy).with_label("run ended")


def _freshness_policy(stream: OpenStream) -> dg.FreshnessPolicy | None:
    config = stream.config.freshness
    if config is None or config.fail_hours is None:
        return None
    return dg.FreshnessPolicy.time_window(
        fail_window=dt.timedelta(hours=config.fail_hours),
        warn_window=dt.timedelta(hours=config.warn_hours) if config.warn_hours else None,
    )


def _ledger_spec(key: dg.AssetKey, data: LakeAssetsTranslatorData) -> dg.AssetSpec:
    table = LEDGER.name(data.stream.lake_config)
    groups = {stream.config.group or stream.lake_name for stream in data.streams}
    return dg.AssetSpec(
        key,
        description=f"Table `{table}` of lake `{data.name.removesuffix('_ledger')}`: one row a run and partition, "
        "appended in the same transaction as the partition's rows. Observe it to see its newest rows.",
        group_name=(groups.pop() if len(groups) == 1 else data.stream.lake_name) or None,
        kinds={"ledger", "ducklake"},
        metadata={
            "dagster/table_name": str(table),
            "dagster/column_schema": table_schema(list(LEDGER_COLUMNS.items()), []),
            "catalog": data.stream.lake_config.catalog.location,
        },
    )
