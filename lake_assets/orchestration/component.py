"""A stream as a Dagster component, so that a project of one's own takes it from a `defs.yaml`, without Python.

The attributes are checked by the models of `lake.yaml`, so Dagster's own check names file, line and key of a fault.
"""

from collections.abc import Mapping
from functools import cache, cached_property
from typing import Any, Self

import dagster as dg
from dagster_pyspark import LazyPySparkResource
from pydantic import BaseModel, Field, SecretStr, model_validator

from lake_assets.config.fields import Identifier, KeyPrefix, below
from lake_assets.config.model import Model
from lake_assets.config.models import Lake, LakeConfig
from lake_assets.config.spark_settings import SparkSettings
from lake_assets.config.streams import Stream
from lake_assets.layout.partition import Partition
from lake_assets.orchestration.build import build_definitions
from lake_assets.orchestration.partitions import partition_of, partitions_definition
from lake_assets.orchestration.resources import pyspark_resource
from lake_assets.orchestration.translator import LakeAssetsTranslator, LakeAssetsTranslatorData, specs_of
from lake_assets.streams.stream import OpenStream, open_stream


class LakeStreamAttributes(Model):
    """What stands under `attributes` in the `defs.yaml`; lake and stream have the keys of `lake.yaml`."""

    name: Identifier = Field(description="Of the stream, and so of the asset.")
    lake: Lake
    stream: Stream
    spark: SparkSettings = Field(default_factory=dict, description="Spark settings; the same in every component.")
    key_prefix: KeyPrefix = Field((), description="Of the keys of its assets; none when absent.")

    @model_validator(mode="after")
    def _one_lake(self) -> Self:
        if self.stream.lake is not None:
            raise ValueError("stream.lake names a lake, and a component has but its own, under `lake`: remove it")
        return self


class LakeStream(dg.Component):
    """One table's worth of landed files, kept in a DuckLake one partition at a time.

    A subclass that overrides `get_asset_spec` changes keys, groups, tags, owners or descriptions of its assets.
    """

    def __init__(self, config: LakeConfig) -> None:
        self.config = config

    @classmethod
    def get_model_cls(cls) -> type[BaseModel]:
        """The model that Dagster checks the attributes by."""
        return LakeStreamAttributes

    @classmethod
    def load(cls, attributes: BaseModel | None, context: dg.ComponentLoadContext) -> Self:
        """The component with its templates filled in and its paths taken from the folder of the `defs.yaml`."""
        assert isinstance(attributes, LakeStreamAttributes)  # noqa: S101 - by get_model_cls
        written = _plain(attributes.model_dump(by_alias=True, exclude_unset=True))
        filled = LakeStreamAttributes.model_validate(context.resolution_context.resolve_value(written))
        lake = filled.name
        folder = context.path if context.path.is_dir() else context.path.parent
        # The config tells what is written from what is a default.
        config = {
            "lakes": {lake: filled.lake.model_dump(by_alias=True)},
            "streams": {filled.name: filled.stream.model_dump(by_alias=True, exclude_unset=True) | {"lake": lake}},
            "spark": filled.spark,
            "key_prefix": filled.key_prefix,
        }
        return cls(LakeConfig.model_validate(config, context=below(folder)))

    @cached_property
    def stream(self) -> OpenStream:
        """The stream, opened: what `read_partition` and the other functions of `lake_assets` take."""
        return open_stream(self.config)

    @property
    def asset_key(self) -> dg.AssetKey:
        """The key of the stream's asset, for `deps` of assets downstream."""
        return specs_of(self.stream, _ComponentTranslator(self)).table.key

    @property
    def partitions_def(self) -> dg.PartitionsDefinition[str]:
        """The partitions of the stream's asset, for assets downstream with the same ones."""
        return partitions_definition(self.stream)

    def partition(self, key: str) -> Partition:
        """The partition that one of Dagster's partition keys names.

        Raises:
            PartitionError: the key does not fit the stream's partition columns.
        """
        return partition_of(self.stream.config.columns, key)

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:  # noqa: ARG002 - Dagster's signature
        """The same definitions as those of a `lake.yaml` with this one stream."""
        pyspark = _shared_resource(tuple(sorted(self.config.spark.items())))
        return build_definitions(self.config, pyspark, _ComponentTranslator(self))

    def get_asset_spec(self, data: LakeAssetsTranslatorData) -> dg.AssetSpec:
        """The attributes of an asset, as `LakeAssetsTranslator.get_asset_spec`; override it to change them."""
        return LakeAssetsTranslator().get_asset_spec(data)


class _ComponentTranslator(LakeAssetsTranslator):
    """Takes attributes from a component."""

    def __init__(self, component: LakeStream) -> None:
        self.component = component

    def get_asset_spec(self, data: LakeAssetsTranslatorData) -> dg.AssetSpec:
        return self.component.get_asset_spec(data)


@cache
def _shared_resource(settings: tuple[tuple[str, str], ...]) -> LazyPySparkResource:
    """One resource for all components of the same settings: Dagster refuses two objects under one key."""
    return pyspark_resource(dict(settings))


def _plain(value: Any) -> Any:  # noqa: ANN401 - what a model dumps
    """The value with its secrets in the clear, for they may be templates such as `{{ env.PASSWORD }}`."""
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
