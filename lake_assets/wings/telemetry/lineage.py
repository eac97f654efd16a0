"""Lineage of commits to an OpenLineage receiver. Importing it needs the extra `openlineage`."""

import datetime as dt
import logging
import os
import queue
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from openlineage.client import OpenLineageClient
from openlineage.client import event_v2 as ol
from openlineage.client.event_v2 import InputDataset, OutputDataset, RunEvent
from openlineage.client.generated import base
from openlineage.client.generated.base import DatasetFacet, InputDatasetFacet, OutputDatasetFacet
from openlineage.client.generated.base_subset_dataset import (
    InputSubsetInputDatasetFacet,
    LocationSubsetCondition,
    OutputSubsetOutputDatasetFacet,
    PartitionSubsetCondition,
)
from openlineage.client.generated.base_subset_dataset import Partition as SubsetPartition
from openlineage.client.generated.column_lineage_dataset import (
    ColumnLineageDatasetFacet,
    Fields,
    InputField,
    Transformation,
)
from openlineage.client.generated.dataset_version_dataset import DatasetVersionDatasetFacet
from openlineage.client.generated.datasource_dataset import DatasourceDatasetFacet
from openlineage.client.generated.error_message_run import ErrorMessageRunFacet
from openlineage.client.generated.input_statistics_input_dataset import InputStatisticsInputDatasetFacet
from openlineage.client.generated.job_type_job import JobTypeJobFacet
from openlineage.client.generated.output_statistics_output_dataset import OutputStatisticsOutputDatasetFacet
from openlineage.client.generated.parent_run import Job as ParentJob
from openlineage.client.generated.parent_run import ParentRunFacet
from openlineage.client.generated.parent_run import Run as ParentRun
from openlineage.client.generated.processing_engine_run import ProcessingEngineRunFacet
from openlineage.client.generated.schema_dataset import SchemaDatasetFacet, SchemaDatasetFacetFields
from openlineage.client.generated.symlinks_dataset import Identifier, SymlinksDatasetFacet
from openlineage.client.generated.tags_run import TagsRunFacet, TagsRunFacetFields
from openlineage.client.transport.console import ConsoleTransport

from lake_assets.base.errors import ConfigError
from lake_assets.base.events import Event, listening
from lake_assets.config.layout.partition import Partition
from lake_assets.ingest.outcome import Outcome, PartitionEnded, error_text
from lake_assets.schema.ducklake_types import PARTITION_TYPES, sql_type
from lake_assets.streams.stream import OpenStream
from lake_assets.version import VERSION

PRODUCER = f"https://github.com/lake-assets/lake-assets/tree/v{VERSION}"
NAMESPACE = "OPENLINEAGE_NAMESPACE"
LOCATIONS = 1000  # objects that an event names; it names all or none
_RUNS = uuid.uuid5(uuid.NAMESPACE_URL, "https://github.com/lake-assets/lake-assets#runs")

ol.set_producer(PRODUCER)


def events_of(
    stream: OpenStream, event: PartitionEnded, began: dt.datetime, parent: tuple[str, str] | None
) -> list[ol.RunEvent]:
    """Return START and COMPLETE of a committed partition, START and FAIL of a failed one; none of others.

    They began when the run of all its partitions did; a failed partition has no time of its own. `parent` is the id, a
    UUID, and the job's name of the run of Dagster; None outside Dagster.
    """
    outcome, now = event.outcome, event.time
    if outcome.status == "failed" and outcome.error is not None:
        error = ErrorMessageRunFacet(error_text(outcome.error), "PYTHON")
        run = ol.Run(
            str(uuid.uuid5(_RUNS, f"{stream.name}\n{outcome.partition.path}\n{now.isoformat()}")), _run_facets(parent)
        )
        failed = ol.Run(run.runId, _run_facets(parent) | {"errorMessage": error})
        inputs, outputs = [landing_zone(stream)], [output_dataset(stream, outcome.partition)]
        return [
            _event(ol.RunState.START, began, stream, run, inputs, outputs),
            _event(ol.RunState.FAIL, now, stream, failed, inputs, outputs),
        ]
    if outcome.status != "committed":
        return []
    row = outcome.row
    of_row = TagsRunFacet(
        [TagsRunFacetFields("run_id", row.run_id, "lake-assets"), TagsRunFacetFields("mode", row.mode, "lake-assets")]
    )
    run = ol.Run(
        str(uuid.uuid5(_RUNS, f"{row.run_id}\n{row.stream}\n{row.load_partition}")),
        _run_facets(parent) | {"tags": of_row},
    )
    inputs, outputs = [input_dataset(stream, outcome)], [written_dataset(stream, outcome)]
    return [
        _event(
            ol.RunState.START, row.started_at or began, stream, run, inputs, [output_dataset(stream, outcome.partition)]
        ),
        _event(ol.RunState.COMPLETE, row.finished_at or now, stream, run, inputs, outputs),
    ]


def _event(
    state: ol.RunState,
    time: dt.datetime,
    stream: OpenStream,
    run: ol.Run,
    inputs: list[ol.InputDataset],
    outputs: list[ol.OutputDataset],
) -> ol.RunEvent:
    kind = JobTypeJobFacet(processingType="BATCH", integration="LAKE_ASSETS", jobType="INGEST")
    job = ol.Job(_namespace(), stream.name, {"jobType": kind})
    return ol.RunEvent(
        eventTime=time.astimezone(dt.UTC).isoformat(),
        producer=PRODUCER,
        run=run,
        job=job,
        eventType=state,
        inputs=inputs,
        outputs=outputs,
    )


def _namespace() -> str:
    return os.environ.get(NAMESPACE) or "lake-assets"


def _run_facets(parent: tuple[str, str] | None) -> dict[str, base.RunFacet]:
    facets: dict[str, base.RunFacet] = {"processing_engine": ProcessingEngineRunFacet(VERSION, "lake-assets")}
    if parent is not None:
        run_id, job = parent
        facets["parent"] = ParentRunFacet(ParentRun(run_id), ParentJob(_namespace(), job))
    return facets


def landing_zone(stream: OpenStream) -> InputDataset:
    """Return the landing zone as one dataset, so that a graph has one node for all objects of a stream."""
    namespace, name = _place(stream.config.source.root)
    return InputDataset(namespace, name, facets=_landing_zone_facets(stream))


def input_dataset(stream: OpenStream, result: Outcome) -> InputDataset:
    """Return the landing zone, with the objects that the rows were made of."""
    row, facets = result.row, _landing_zone_facets(stream)
    if row.source_fingerprint is not None:
        facets["version"] = DatasetVersionDatasetFacet(row.source_fingerprint)
    of_input: dict[str, InputDatasetFacet] = {
        "inputStatistics": InputStatisticsInputDatasetFacet(size=row.source_bytes, fileCount=row.source_files)
    }
    objects = [landed.uri for landed in result.manifest.read]
    # A run of mode append has read only those objects of the listing that are new, and a driver sends no long listing.
    if len(result.manifest.objects) == row.source_files and 0 < len(objects) <= LOCATIONS:
        of_input["subset"] = InputSubsetInputDatasetFacet(LocationSubsetCondition(objects))
    namespace, name = _place(stream.config.source.root)
    return InputDataset(namespace, name, facets=facets, inputFacets=of_input)


def output_dataset(stream: OpenStream, partition: Partition) -> OutputDataset:
    """Return the table, with the partition that is to be written."""
    return OutputDataset(*_name(stream), facets=_table_facets(stream), outputFacets=_subset(partition))


def written_dataset(stream: OpenStream, result: Outcome) -> OutputDataset:
    """Return the table after the commit."""
    row, facets = result.row, _table_facets(stream)
    if row.snapshot_id is not None:
        facets["version"] = DatasetVersionDatasetFacet(str(row.snapshot_id))
    if result.schema is not None:
        columns = [SchemaDatasetFacetFields(f.name, sql_type(f.type, f.name)) for f in result.schema]
        columns += [SchemaDatasetFacetFields(c.name, PARTITION_TYPES[c.type]) for c in stream.config.partition_columns]
        facets["schema"] = SchemaDatasetFacet(columns)
        if stream.config.transform is None:
            facets["columnLineage"] = _column_lineage(stream, result.schema.names)
    of_output = _subset(result.partition)
    of_output["outputStatistics"] = OutputStatisticsOutputDatasetFacet(
        rowCount=row.row_count, size=row.bytes_written, fileCount=row.files_written
    )
    return OutputDataset(*_name(stream), facets=facets, outputFacets=of_output)


def _place(uri: str) -> tuple[str, str]:
    """Return namespace and name of a folder: those of its bucket, or of the machine's files."""
    parts = urlsplit(uri)
    if not parts.scheme or parts.scheme == "file":
        return "file", parts.path.rstrip("/") or "/"
    return f"{parts.scheme}://{parts.netloc}", parts.path.strip("/") or "/"


def _name(stream: OpenStream) -> tuple[str, str]:
    """Return namespace and name of the table: its catalog's, without user and password, and that with its schema."""
    return _catalog(stream), f"{stream.table.schema}.{stream.table.table}"


def _catalog(stream: OpenStream) -> str:
    catalog, schema = stream.lake_config.catalog, stream.lake_config.metadata_schema
    return f"ducklake:{catalog.location}" + (f"/{schema}" if schema else "")


def _landing_zone_facets(stream: OpenStream) -> dict[str, DatasetFacet]:
    root = stream.config.source.root
    return {"dataSource": DatasourceDatasetFacet(_place(root)[0], root)}


def _table_facets(stream: OpenStream) -> dict[str, DatasetFacet]:
    facets: dict[str, DatasetFacet] = {"dataSource": DatasourceDatasetFacet(stream.table.lake, _catalog(stream))}
    if not stream.lake_config.is_managed:
        facets["symlinks"] = SymlinksDatasetFacet([Identifier(*_place(stream.table_uri), "LOCATION")])
    return facets


def _subset(partition: Partition) -> dict[str, OutputDatasetFacet]:
    values: dict[str, Any] = dict(partition.texts())
    written = SubsetPartition(values, partition.path)
    return {"subset": OutputSubsetOutputDatasetFacet(PartitionSubsetCondition([written]))}


def _column_lineage(stream: OpenStream, columns: list[str]) -> ColumnLineageDatasetFacet:
    """Return where the columns come from without a transform; not those that are added to an object's own."""
    namespace, name = _place(stream.config.source.root)

    sources = stream.landed.rules.sources

    def of(column: str, subtype: str) -> Fields:
        return Fields([InputField(namespace, name, sources.get(column, column), [Transformation("DIRECT", subtype)])])

    added = {*stream.config.path_columns, *stream.config.file_columns, stream.config.rescue}
    fields = {column: of(column, "IDENTITY") for column in columns if column not in added}
    for derived in stream.config.derived:
        fields[derived.name] = of(derived.column, "IDENTITY" if derived.is_whole else "TRANSFORMATION")
    return ColumnLineageDatasetFacet(fields)


STOP_SECONDS = 5.0  # for which the end of a run is delayed at most, if the receiver does not answer
PAUSE_SECONDS = 60.0  # without a try after the receiver has failed
_MOST = 10_000  # events that are not sent yet
_OWN = "OPENLINEAGE__"  # begins variables of the client's config

_LOG = logging.getLogger(__name__)


@contextmanager
def sent_lineage(stream: OpenStream, run: tuple[str, str] | None) -> Iterator[None]:
    """Send the lineage of partitions that end within the block, of the stream and of those released with it.

    `run` is as of `exports.lineage`.
    """
    sender, began = _Sender(_client()), dt.datetime.now(dt.UTC)
    streams = {member.name: member for member in (stream, *stream.companions)}

    def trace(event: Event) -> None:
        of_event = streams.get(event.stream or "")
        if not isinstance(event, PartitionEnded) or of_event is None or (run and event.run != run[0]):
            return
        try:
            events = events_of(of_event, event, began, run)
        except Exception as error:  # noqa: BLE001 - a missing event fails no run
            sender.warn(f"no event could be made of {event.outcome.partition}: {type(error).__name__}: {error}")
            return
        for sent in events:
            sender.send(sent)

    try:
        with listening(trace):
            yield
    finally:
        sender.stop()


def _client() -> OpenLineageClient:
    before = dict(os.environ)
    try:
        client = OpenLineageClient()
        kind = (client.config.transport or {}).get("type")
    except Exception as error:
        raise ConfigError(
            f"OpenLineage's client does not take its config ({type(error).__name__}: {error}):",
            "correct its variables or its file, or set OPENLINEAGE_DISABLED=true.",
        ) from error
    finally:
        # The client writes the URL and the key into variables of its own, which children would inherit.
        for name in os.environ.keys() - before.keys():
            if name.startswith(_OWN):
                del os.environ[name]
    if isinstance(client.transport, ConsoleTransport) and kind != "console":
        raise ConfigError(
            "OpenLineage's config names no receiver:",
            "set OPENLINEAGE_URL, or `transport`, or OPENLINEAGE_DISABLED=true.",
        )
    return client


class _Sender:
    """Sends events in a thread of its own, so that a receiver that is slow or away delays nothing but the end."""

    def __init__(self, client: OpenLineageClient) -> None:
        self._client = client
        self._events: queue.Queue[RunEvent | None] = queue.Queue(_MOST)
        self._paused_until = 0.0  # by the monotonic clock
        self._has_warned = False
        self._thread = threading.Thread(target=self._work, name="openlineage", daemon=True)
        # A client that cannot connect logs each of its tries.
        self._silenced = [logging.getLogger(name) for name in ("urllib3.connectionpool", "urllib3.util.retry")]
        for logger in self._silenced:
            logger.addFilter(self._is_of_others)
        self._thread.start()

    def send(self, event: RunEvent) -> None:
        """Send it as soon as the earlier ones are sent, without waiting for that."""
        try:
            self._events.put_nowait(event)
        except queue.Full:
            self.warn(f"the receiver is slower than the commits, so {_MOST:,} events are unsent; others are dropped")

    def stop(self) -> None:
        """Send the remaining events, for some seconds at most."""
        deadline = time.monotonic() + STOP_SECONDS
        try:
            self._events.put(None, timeout=STOP_SECONDS)
        except queue.Full:
            deadline = 0.0
        self._thread.join(max(0.0, deadline - time.monotonic()))
        if self._thread.is_alive():
            self.warn(f"the receiver did not take all events within {STOP_SECONDS:g} s; the others are dropped")
            return  # the filter stays for the thread's last tries
        for logger in self._silenced:
            logger.removeFilter(self._is_of_others)

    def warn(self, text: str) -> None:
        """Log the first problem, and no other."""
        if not self._has_warned:
            self._has_warned = True
            _LOG.warning("OpenLineage: %s. The run goes on.", text)

    def _work(self) -> None:
        while (event := self._events.get()) is not None:
            if time.monotonic() < self._paused_until:
                continue
            try:
                self._client.emit(event)
            except Exception as error:  # noqa: BLE001 - any transport's own
                self._paused_until = time.monotonic() + PAUSE_SECONDS
                self.warn(f"an event could not be sent ({type(error).__name__}: {error})")
        try:
            self._client.close(STOP_SECONDS)
        except Exception as error:  # noqa: BLE001
            self.warn(f"the last events could not be sent ({type(error).__name__}: {error})")

    def _is_of_others(self, record: logging.LogRecord) -> bool:
        return record.thread != self._thread.ident
