"""A stream as a Dagster component: a project defines it in a `defs.yaml`, without Python.

The models of `lake.yaml` validate the attributes, so Dagster's own error names file, line and key.
"""

from collections.abc import Mapping
from functools import cache, cached_property
from typing import Any, Self

import dagster as dg
from dagster_pyspark import LazyPySparkResource
from pydantic import BaseModel, Field, SecretStr, model_validator

from lake_assets.api import Stream, open_stream
from lake_assets.config.automation import Alerts
from lake_assets.config.fields import Identifier, KeyPrefix, Model, validation_context
from lake_assets.config.lake import Lake
from lake_assets.config.layout.partition import Partition
from lake_assets.config.models import LakeConfig, Orchestration
from lake_assets.config.spark import Spark
from lake_assets.config.streams import StreamConfig
from lake_assets.orchestration.build import build_definitions
from lake_assets.orchestration.partition_keys import StreamKeys, partitions_def
from lake_assets.orchestration.resources import pyspark_resource
from lake_assets.orchestration.translator import LakeAssetsTranslator, LakeAssetsTranslatorData, specs_of


class LakeStreamAttributes(Model):
    """The `attributes` of the `defs.yaml`; lake and stream have the keys of `lake.yaml`."""

    name: Identifier = Field(description="The name of the stream, and so of its asset.")
    lake: Lake
    stream: StreamConfig
    spark: Spark = Field(default_factory=Spark, description="As in `lake.yaml`; the same in every component.")
    alerts: Alerts | None = Field(None, description="As in `lake.yaml`. Of several components, one sends failed runs.")
    key_prefix: KeyPrefix = Field((), description="The first parts of the keys of its assets; none when absent.")
    orchestration: Orchestration = Field(Orchestration(), description="As in `lake.yaml`.")

    @model_validator(mode="after")
    def _one_lake(self) -> Self:
        if self.stream.lake is not None:
            raise ValueError("stream.lake names a lake, but a component has only its own, under `lake`: remove it")
        return self


class LakeStream(dg.Component):
    """Landed files as one table of a DuckLake, refreshed one partition at a time.

    A subclass that overrides `get_asset_spec` changes keys, groups, tags, owners or descriptions of its assets.
    """

    def __init__(self, config: LakeConfig) -> None:
        self.config = config

    @classmethod
    def get_model_cls(cls) -> type[BaseModel]:
        """Return the model by which Dagster validates the attributes."""
        return LakeStreamAttributes

    @classmethod
    def load(cls, attributes: BaseModel | None, context: dg.ComponentLoadContext) -> Self:
        """Return the component with its templates resolved and its paths relative to the folder of the `defs.yaml`."""
        assert isinstance(attributes, LakeStreamAttributes)  # noqa: S101 - by get_model_cls
        written = _plain(attributes.model_dump(by_alias=True, exclude_unset=True))
        filled = LakeStreamAttributes.model_validate(context.resolution_context.resolve_value(written))
        lake = filled.name
        folder = context.path if context.path.is_dir() else context.path.parent
        # The config distinguishes written values from defaults.
        config = {
            "lakes": {lake: filled.lake.model_dump(by_alias=True)},
            "streams": {filled.name: filled.stream.model_dump(by_alias=True, exclude_unset=True) | {"lake": lake}},
            "spark": filled.spark,
            "key_prefix": filled.key_prefix,
            "orchestration": filled.orchestration,
        }
        if (alerts := filled.alerts) is not None:
            own_name = {} if "name" in alerts.model_fields_set else {"name": f"{filled.name}_alerts"}
            config["alerts"] = alerts.model_copy(update=own_name)
        return cls(LakeConfig.model_validate(config, context=validation_context(folder)))

    @cached_property
    def stream(self) -> Stream:
        """The stream, as `lake_assets.open_stream` returns it: `stream.partition(key).read()`."""
        return open_stream(self.config)

    @property
    def asset_key(self) -> dg.AssetKey:
        """The key of the stream's asset, for `deps` of assets downstream."""
        return specs_of(self.stream, _ComponentTranslator(self)).table.key

    @property
    def partitions_def(self) -> dg.PartitionsDefinition[str]:
        """The partitions of the stream's asset, for assets downstream."""
        return partitions_def(self.stream)

    def partition(self, key: str) -> Partition:
        """Return the partition that one of Dagster's partition keys names.

        Raises:
            PartitionError: the key does not fit the stream's partition columns, or names several partitions.
        """
        return StreamKeys(self.stream).partition(key)

    def partitions(self, key: str) -> list[Partition]:
        """Return the partitions that one of Dagster's partition keys names: several where a time has `keys`.

        Raises:
            PartitionError: the key does not fit the stream's partition columns.
        """
        return StreamKeys(self.stream).partitions(key)

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:  # noqa: ARG002 - Dagster's signature
        """Return the same definitions as those of a `lake.yaml` with this one stream."""
        pyspark = _shared_resource(tuple(sorted(self.config.spark.shown_settings.items())))
        return build_definitions(self.config, pyspark, _ComponentTranslator(self))

    def get_asset_spec(self, data: LakeAssetsTranslatorData) -> dg.AssetSpec:
        """Return the attributes of an asset, as `LakeAssetsTranslator.get_asset_spec`; override it to change them."""
        return LakeAssetsTranslator().get_asset_spec(data)


class _ComponentTranslator(LakeAssetsTranslator):
    def __init__(self, component: LakeStream) -> None:
        self.component = component

    def get_asset_spec(self, data: LakeAssetsTranslatorData) -> dg.AssetSpec:
        return self.component.get_asset_spec(data)


@cache
def _shared_resource(settings: tuple[tuple[str, str], ...]) -> LazyPySparkResource:
    """One resource for all components of the same settings: Dagster refuses two objects under one key."""
    return pyspark_resource(Spark.model_validate(dict(settings)))


def _plain(value: Any) -> Any:  # noqa: ANN401 - what a model dumps
    """Return the value with its secrets in plain text, because they may be templates such as `{{ env.PASSWORD }}`."""
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
