"""The JSON Schema of each command's document."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from lake_assets.cli.documents.check import CheckDocument
from lake_assets.cli.documents.doctor import DoctorDocument
from lake_assets.cli.documents.forget import ForgottenPartition
from lake_assets.cli.documents.history import DiffDocument, HistorySnapshot, RestoredPartition
from lake_assets.cli.documents.index import (
    IndexCheckDocument,
    IndexPlanDocument,
    IndexRepairDocument,
    IndexRunDocument,
)
from lake_assets.cli.documents.ingest import IngestDocument
from lake_assets.cli.documents.ledger import LedgerRun
from lake_assets.cli.documents.maintain import MaintainedLake
from lake_assets.cli.documents.metrics import MetricValue
from lake_assets.cli.documents.plan import LeftOutDocument, PlanDocument
from lake_assets.cli.documents.report import ReportCounts, ReportPartition, ReportUnmatched
from lake_assets.cli.documents.rows import ChangedRow, QueryRow
from lake_assets.cli.documents.sync_dagster import SyncedStream
from lake_assets.cli.documents.validate import ValidateDocument

_OUTPUTS: Mapping[str, Any] = MappingProxyType(
    {
        "doctor": DoctorDocument,
        "validate": ValidateDocument,
        "plan": PlanDocument | LeftOutDocument,
        "ingest": IngestDocument,
        "apply": IngestDocument,
        "index": IndexRunDocument | IndexPlanDocument | IndexCheckDocument | IndexRepairDocument,
        "query": list[QueryRow],
        "ledger": list[LedgerRun],
        "changes": list[ChangedRow],
        "history": list[HistorySnapshot],
        "diff": DiffDocument,
        "restore": list[RestoredPartition],
        "report": list[ReportCounts | ReportPartition | ReportUnmatched],
        "check": CheckDocument,
        "sync-dagster": list[SyncedStream],
        "metrics": list[MetricValue],
        "maintain": list[MaintainedLake],
        "forget": list[ForgottenPartition],
    }
)
COMMANDS = tuple(_OUTPUTS)


def output_schema(command: str) -> dict[str, Any]:
    """The JSON Schema of a command's `--format json`, draft 2020-12."""
    from pydantic import TypeAdapter  # noqa: PLC0415 - `--help` stays quick

    schema = TypeAdapter(_OUTPUTS[command]).json_schema(mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | schema
