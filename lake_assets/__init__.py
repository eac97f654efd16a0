"""Refreshes a DuckLake from its landing zone, one partition at a time, with Spark jobs, from Dagster or a shell.

The names below are the package's public interface. Each is imported when it is first used, so `import lake_assets`
does not load Dagster, Spark or DuckDB.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lake_assets.api.connect import connect
    from lake_assets.api.history import diff_partition, read_history, release_partition, restore_partition
    from lake_assets.api.ingest import PartitionsFailedError, ingest_partition, ingest_partitions, plan_partition
    from lake_assets.api.partitions import PartitionLike
    from lake_assets.api.read import read_changes, read_partition
    from lake_assets.config.load import load_config
    from lake_assets.config.models import LakeConfig
    from lake_assets.errors import LakeAssetsError
    from lake_assets.history.diff import Difference
    from lake_assets.history.read import HistoryEntry
    from lake_assets.history.restore import Restored
    from lake_assets.ingest.dry_run import Plan
    from lake_assets.ingest.partition_run import IngestResult, Outcome
    from lake_assets.layout.partition import Partition
    from lake_assets.orchestration.build import build_definitions
    from lake_assets.orchestration.component import LakeStream
    from lake_assets.orchestration.downstream import LakeIOManager, LakeResource, partitions_def
    from lake_assets.orchestration.translator import LakeAssetsTranslator, LakeAssetsTranslatorData
    from lake_assets.streams.stream import OpenStream, open_stream

__all__ = [
    "Difference",
    "HistoryEntry",
    "IngestResult",
    "LakeAssetsError",
    "LakeAssetsTranslator",
    "LakeAssetsTranslatorData",
    "LakeConfig",
    "LakeIOManager",
    "LakeResource",
    "LakeStream",
    "OpenStream",
    "Outcome",
    "Partition",
    "PartitionLike",
    "PartitionsFailedError",
    "Plan",
    "Restored",
    "build_definitions",
    "connect",
    "diff_partition",
    "ingest_partition",
    "ingest_partitions",
    "load_config",
    "open_stream",
    "partitions_def",
    "plan_partition",
    "read_changes",
    "read_history",
    "read_partition",
    "release_partition",
    "restore_partition",
]

_MODULES = {
    "api.connect": ("connect",),
    "api.history": ("diff_partition", "read_history", "release_partition", "restore_partition"),
    "api.ingest": ("PartitionsFailedError", "ingest_partition", "ingest_partitions", "plan_partition"),
    "api.partitions": ("PartitionLike",),
    "api.read": ("read_changes", "read_partition"),
    "config.load": ("load_config",),
    "config.models": ("LakeConfig",),
    "errors": ("LakeAssetsError",),
    "history.diff": ("Difference",),
    "history.read": ("HistoryEntry",),
    "history.restore": ("Restored",),
    "orchestration.build": ("build_definitions",),
    "orchestration.component": ("LakeStream",),
    "orchestration.downstream": ("LakeIOManager", "LakeResource", "partitions_def"),
    "orchestration.translator": ("LakeAssetsTranslator", "LakeAssetsTranslatorData"),
    "layout.partition": ("Partition",),
    "ingest.partition_run": ("IngestResult", "Outcome"),
    "ingest.dry_run": ("Plan",),
    "streams.stream": ("OpenStream", "open_stream"),
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
