"""The landed objects of a stream: what has become of each, by the manifest and the newest runs."""

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from lake_assets.base.json_dataclasses import Documented
from lake_assets.config.layout.partition import Partition
from lake_assets.ingest.compare_objects import Comparison, compare_partition, read_noted
from lake_assets.lake.ledger.ledger_relation import WantedRows, wanted_rows
from lake_assets.lake.ledger.lookup import LastRuns
from lake_assets.lake.ledger.object_history import KnownObject
from lake_assets.lake.ledger.read import last_runs
from lake_assets.lake.ledger.tables import LEDGER
from lake_assets.storage.manifest import LandedObject, Manifest
from lake_assets.streams.stream import OpenStream, list_scope

ObjectState = Literal["loaded", "quarantined", "changed", "waiting", "gone", "left_out"]


@dataclass(frozen=True, slots=True)
class FileEntry(Documented):
    """A landed object and what has become of it."""

    partition: str
    """As a path, such as `region=NW/date=2026-02-11`; empty if it is in none."""
    uri: str
    """Its path or URI."""
    state: ObjectState
    """As `lake-assets files --help` explains."""
    bytes: int
    """Its size in bytes."""
    landed_at: dt.datetime | None
    """When it landed, with a time zone; null if it is gone."""
    rows: int | None
    """Its rows of this partition, with those that were left out as dead letters; null if no run has counted them."""
    run_id: str | None
    """The run that read it, or left it out."""
    loaded_at: dt.datetime | None
    """When that run committed the partition, with a time zone."""
    error: str | None
    """Why it was left out, or why the newest run of its partition failed."""


def file_entries(stream: OpenStream, partitions: Iterable[Partition] | None = None) -> list[FileEntry]:
    """Return the landed objects of some partitions, or of the whole landing zone, and loaded ones that are gone.

    They are sorted by partition and URI. An object with rows of several partitions has an entry for each.
    """
    wanted = None if partitions is None else list(partitions)
    landed, left_out = list_scope(stream, wanted)
    by_path = {partition.path: manifest for partition, manifest in landed.items()}
    among = {"destination_table": [str(stream.table)], "status": ["committed"]}
    if wanted is not None:
        among["load_partition"] = list(by_path)
    with stream.lake.open_if_exists() as lake:
        noted = {} if lake is None else read_noted(lake, stream, wanted)
        runs = {} if lake is None else last_runs(lake, stream.table, None if wanted is None else list(landed))
        columns = ("run_id", "load_partition", "finished_at")
        ended = [] if lake is None else wanted_rows(lake, WantedRows(LEDGER, columns, among))
    times = {(run, path): moment for run, path, moment in ended}
    entries = []
    for left_out_object in left_out.objects if left_out is not None else ():
        now, why = left_out_object.landed, str(left_out_object.why)
        entries.append(FileEntry("", now.uri, "left_out", now.size, now.last_modified, None, None, None, why))
    nothing = Manifest(())
    for path in sorted({*by_path, *noted}):
        comparison = compare_partition(stream, noted.get(path, {}), by_path.get(path, nothing), quarantines=True)
        entries += _entries_of_partition(path, comparison, runs.get(path), times)
    return sorted(entries, key=lambda entry: (entry.partition, entry.uri))


def _entries_of_partition(
    path: str, comparison: Comparison, last: LastRuns | None, times: Mapping[tuple[str, str], dt.datetime]
) -> Iterator[FileEntry]:
    failure = last.newest.error if last is not None and last.status == "failed" else None
    objects: dict[ObjectState, Sequence[LandedObject | KnownObject]] = {
        "waiting": comparison.new.objects,
        "quarantined": comparison.quarantined,
        "changed": comparison.changed,
        "loaded": comparison.same,
        "gone": comparison.vanished,
    }
    for state, of_state in objects.items():
        for obj in of_state:
            known = None if state == "waiting" else comparison.known_as(obj)
            run = None if known is None else known.run_id or None
            loaded = None if run is None or state == "quarantined" else times.get((run, path))
            rows = None if known is None or state == "changed" else known.rows
            moment = obj.last_modified if isinstance(obj, LandedObject) else None
            error = failure if known is None or state == "changed" else known.reason
            yield FileEntry(path, obj.uri, state, obj.size, moment, rows, run, loaded, error)
