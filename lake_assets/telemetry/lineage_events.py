"""The events of OpenLineage for a committed or failed partition. Importing it needs the extra `openlineage`."""

import datetime as dt
import os
import uuid
from dataclasses import dataclass

from openlineage.client import event_v2 as ol
from openlineage.client.generated import base
from openlineage.client.generated.error_message_run import ErrorMessageRunFacet
from openlineage.client.generated.job_type_job import JobTypeJobFacet
from openlineage.client.generated.parent_run import Job as ParentJob
from openlineage.client.generated.parent_run import ParentRunFacet
from openlineage.client.generated.parent_run import Run as ParentRun
from openlineage.client.generated.processing_engine_run import ProcessingEngineRunFacet
from openlineage.client.generated.tags_run import TagsRunFacet, TagsRunFacetFields

from lake_assets.ingest.outcome import Outcome
from lake_assets.ingest.reported import error_text
from lake_assets.streams.stream import OpenStream
from lake_assets.telemetry.lineage_datasets import landing_zone, read, table, written
from lake_assets.version import VERSION

PRODUCER = f"https://github.com/lake-assets/lake-assets/tree/v{VERSION}"
NAMESPACE = "OPENLINEAGE_NAMESPACE"
_RUNS = uuid.uuid5(uuid.NAMESPACE_URL, "https://github.com/lake-assets/lake-assets#runs")

ol.set_producer(PRODUCER)


@dataclass(frozen=True, slots=True)
class Parent:
    """The run of Dagster that the partition was refreshed in.

    Attributes:
        run_id: a UUID.
        job: its name.
    """

    run_id: str
    job: str


def events_of(
    stream: OpenStream, outcome: Outcome, parent: Parent | None, began: dt.datetime, now: dt.datetime
) -> list[ol.RunEvent]:
    """START and COMPLETE of a committed partition, START and FAIL of a failed one; none of others.

    Args:
        stream: of the partition.
        outcome: of the partition.
        parent: None outside Dagster.
        began: when the run of all its partitions began; a failed partition has no time of its own.
        now: when the outcome was known.
    """
    if outcome.status == "failed" and outcome.error is not None:
        error = ErrorMessageRunFacet(error_text(outcome.error), "PYTHON")
        run = ol.Run(
            str(uuid.uuid5(_RUNS, f"{stream.name}\n{outcome.partition.path}\n{now.isoformat()}")), _of_run(parent)
        )
        failed = ol.Run(run.runId, _of_run(parent) | {"errorMessage": error})
        inputs, outputs = [landing_zone(stream)], [table(stream, outcome.partition)]
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
        str(uuid.uuid5(_RUNS, f"{row.run_id}\n{row.stream}\n{row.load_partition}")), _of_run(parent) | {"tags": of_row}
    )
    inputs, outputs = [read(stream, outcome)], [written(stream, outcome)]
    return [
        _event(ol.RunState.START, row.started_at or began, stream, run, inputs, [table(stream, outcome.partition)]),
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


def _of_run(parent: Parent | None) -> dict[str, base.RunFacet]:
    facets: dict[str, base.RunFacet] = {"processing_engine": ProcessingEngineRunFacet(VERSION, "lake-assets")}
    if parent is not None:
        facets["parent"] = ParentRunFacet(ParentRun(parent.run_id), ParentJob(_namespace(), parent.job))
    return facets
