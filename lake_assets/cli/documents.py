"""The JSON of `--format json`, and its JSON Schema: dataclasses of the product, and those here for what has none."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, TypeAdapter

from lake_assets.base.errors import LakeAssetsError
from lake_assets.base.json_dataclasses import AsFailure, AsText, Documented
from lake_assets.config.layout.partition import Partition
from lake_assets.config.models import LakeConfig
from lake_assets.ingest.index.verify import IndexedState, Repaired
from lake_assets.ingest.outcome import Refreshed
from lake_assets.ingest.plan import Plan
from lake_assets.lake.catalog.backup import Backup, RestoredCatalog
from lake_assets.lake.ledger.tables import LedgerRow
from lake_assets.streams.left_out import LeftOutObject
from lake_assets.streams.stream import open_streams
from lake_assets.upkeep.checks.facts import CheckResult
from lake_assets.upkeep.history.diff import Difference
from lake_assets.upkeep.history.history_entries import HistoryEntry
from lake_assets.upkeep.history.restore import Restored
from lake_assets.upkeep.maintenance.cleaning import Forgotten
from lake_assets.upkeep.maintenance.maintenance_run import Maintained
from lake_assets.upkeep.maintenance.rebuild import LostPartition
from lake_assets.upkeep.report.former_streams import FormerStream
from lake_assets.upkeep.report.metrics import MetricValue
from lake_assets.upkeep.report.objects import FileEntry
from lake_assets.upkeep.report.state import PartitionState, StreamState, Summary


@dataclass(frozen=True, slots=True)
class ConfigStream(Documented):
    """A stream: where its files land, and the table that they become."""

    name: str
    """Its name."""
    source: str
    """Path or URI of the landing zone with the layout, without secrets."""
    lake: str
    """Its lake."""
    table: str
    """With its schema, such as `main.sales`."""
    partitions: Mapping[str, str]
    """The types of its partition columns, such as `date`, in the order of the layout."""


@dataclass(frozen=True, slots=True)
class ConfigLake(Documented):
    """A lake: locations without secrets."""

    name: str
    """Its name."""
    catalog: str
    """The kind of the catalog and its location."""
    storage: str
    """Path or URI of the data files."""


@dataclass(frozen=True, slots=True)
class ValidConfig(Documented):
    """A valid config. The error of another one is on standard error, and the exit code is 1."""

    streams: Sequence[ConfigStream]
    """In the order of the config."""
    lakes: Sequence[ConfigLake]
    """In the order of the config."""
    former: Sequence[FormerStream]
    """What the lakes have of streams that the config does not have; only of lakes in SQLite and folders."""

    @classmethod
    def of(cls, config: LakeConfig, former: Sequence[FormerStream]) -> "ValidConfig":
        """Return the document of a config."""
        streams = [
            ConfigStream(
                stream.name,
                stream.layout_uri,
                stream.lake_name,
                str(stream.table),
                {column.name: column.type for column in stream.config.partition_columns},
            )
            for stream in open_streams(config).values()
        ]
        lakes = [ConfigLake(name, lake.catalog.location, lake.files_location) for name, lake in config.lakes.items()]
        return cls(streams, lakes, former)


CheckStatus = Literal["passed", "warning", "failed"]


@dataclass(frozen=True, slots=True)
class CheckFinding(Documented):
    """The result of one check, in the order in which they ran; none if no partition was selected."""

    name: str
    """Of the check."""
    status: CheckStatus
    """A warning does not change the exit code."""
    description: str = ""
    """What was found, and the fix, in a sentence; empty if the check has an error."""
    named: Sequence[str] = ()
    """The first partitions, files or rows that it found, 10 at most."""
    numbers: Mapping[str, int] = field(default_factory=dict)
    """Numbers of rows, partitions, files or objects, by what they are."""
    error: Annotated[LakeAssetsError, AsFailure] | None = None
    """Why the check could not be run."""

    @classmethod
    def of(cls, result: CheckResult, *, failed: bool) -> "CheckFinding":
        """Return the finding of a result; `failed` says whether one that did not pass is more than a warning."""
        status: CheckStatus = "passed" if result.passed else "failed" if failed else "warning"
        return cls(result.name, status, result.description, result.named, dict(result.numbers))


@dataclass(frozen=True, slots=True)
class NotRestored(Documented):
    """A partition that stays as it is, because of an error."""

    partition: Annotated[Partition, AsText]
    """As a path, such as `region=NW/date=2026-02-11`."""
    error: Annotated[LakeAssetsError, AsFailure]
    """Why nothing was done."""


_ANY_COLUMNS: ConfigDict = {**Documented.__pydantic_config__, "extra": "allow"}


@dataclass(frozen=True, slots=True)
class QueryRow(Documented):
    """A row of the result: its columns by name.

    Booleans and numbers are JSON's, and lists, structs and maps are arrays and objects. NULL is null, and so is a
    number that JSON lacks: NaN and the infinities. All other values are texts, as DuckDB casts them.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _ANY_COLUMNS


def output_schema(command: str) -> dict[str, Any]:
    """Return the JSON Schema of a command's `--format json`, draft 2020-12."""
    schema = TypeAdapter(_output(command)).json_schema(mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | schema


def _output(command: str) -> Any:  # noqa: ANN401 - any type
    """Return the type of a command's document; only what needs more than the others is imported here."""
    if command == "doctor":
        from lake_assets.upkeep.doctor import Findings  # noqa: PLC0415

        return Findings
    if command == "sync-dagster":
        from lake_assets.orchestration.sensors.sync import Synced  # noqa: PLC0415

        return list[Synced]
    return _OUTPUTS[command]


_OUTPUTS: Mapping[str, Any] = MappingProxyType(
    {
        "validate": ValidConfig,
        "plan": Plan | list[LeftOutObject],
        "ingest": Refreshed,
        "apply": Refreshed,
        "index": Refreshed | Plan | IndexedState | Repaired,
        "query": list[QueryRow],
        "ledger": list[LedgerRow],
        "history": list[HistoryEntry],
        "diff": Difference,
        "restore": list[Restored | LedgerRow | NotRestored],
        "report": list[Summary | PartitionState | StreamState | FormerStream],
        "check": list[CheckFinding],
        "metrics": list[MetricValue],
        "files": list[FileEntry],
        "maintain": list[Maintained],
        "forget": list[Forgotten],
        "catalog backup": list[Backup],
        "catalog backups": list[Backup],
        "catalog restore": list[RestoredCatalog],
        "catalog rebuild": list[LostPartition],
    }
)
