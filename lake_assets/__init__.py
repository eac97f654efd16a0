"""Refreshes a DuckLake from its landing zone, one partition at a time, with Spark jobs, from Dagster or a shell.

The names below are the package's public interface. Each is imported when it is first used, so `import lake_assets`
does not load Dagster, Spark or DuckDB.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lake_assets.api import PartitionsFailedError, Stream, StreamPartition, connect, open_stream, read
    from lake_assets.base.errors import LakeAssetsError
    from lake_assets.config.models import LakeConfig
    from lake_assets.orchestration.assets.downstream import LakeIOManager, LakeResource
    from lake_assets.orchestration.build import build_definitions
    from lake_assets.orchestration.component import LakeStream
    from lake_assets.orchestration.partition_keys import partitions_def
    from lake_assets.orchestration.translator import LakeAssetsTranslator, LakeAssetsTranslatorData
    from lake_assets.spark_reader import register
    from lake_assets.streams.load import load_config

__all__ = [
    "LakeAssetsError",
    "LakeAssetsTranslator",
    "LakeAssetsTranslatorData",
    "LakeConfig",
    "LakeIOManager",
    "LakeResource",
    "LakeStream",
    "PartitionsFailedError",
    "Stream",
    "StreamPartition",
    "build_definitions",
    "connect",
    "load_config",
    "open_stream",
    "partitions_def",
    "read",
    "register",
]

_MODULES = {
    "api": ("PartitionsFailedError", "Stream", "StreamPartition", "connect", "open_stream", "read"),
    "base.errors": ("LakeAssetsError",),
    "config.models": ("LakeConfig",),
    "orchestration.assets.downstream": ("LakeIOManager", "LakeResource"),
    "orchestration.build": ("build_definitions",),
    "orchestration.component": ("LakeStream",),
    "orchestration.partition_keys": ("partitions_def",),
    "orchestration.translator": ("LakeAssetsTranslator", "LakeAssetsTranslatorData"),
    "spark_reader": ("register",),
    "streams.load": ("load_config",),
}
_HOMES = {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names}

if not TYPE_CHECKING:  # a type checker would take any name for an attribute

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    # Dagster's `dg` looks for components among these names.
    return sorted({*globals(), *__all__})
