"""The dry run: what an ingest of partitions would read and change now, by which job and commit, and how long it takes.

`plan.py` decides, as for a run. What is shown besides is read here: rows, footers, columns, strategies, earlier runs.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lake_assets.base.errors import LakeAssetsError, SparkUnavailableError
from lake_assets.base.events import counted
from lake_assets.base.machine import usable_cores
from lake_assets.base.texts import count
from lake_assets.config.layout.partition import Partition
from lake_assets.ingest.compare_objects import compare, needs_rows
from lake_assets.ingest.index.index_run import plan_index
from lake_assets.ingest.landed_footers import Footers, PlannedColumns
from lake_assets.ingest.outcome import IngestOptions
from lake_assets.ingest.plan import (
    Decision,
    JobKind,
    PartitionPlan,
    Plan,
    Planner,
    edited_text,
    held_back,
    options_of_companion,
    takes_part,
    waiting_text,
)
from lake_assets.lake.catalog.past_partitions import LIVE, past_table
from lake_assets.lake.commit.change import Staged
from lake_assets.lake.commit.exporter import refuse_earlier_exports
from lake_assets.lake.commit.extension import Statement, add_files_statement, delete_statement
from lake_assets.lake.commit.insert import insert_statements
from lake_assets.lake.commit.strategy import foreseen_strategies
from lake_assets.lake.ledger.read import last_commits, pace
from lake_assets.lake.ledger.tables import DELTAS, LedgerRow
from lake_assets.lake.session import LakeSession
from lake_assets.spark.task.job import LetterFile, split_objects
from lake_assets.spark.task.write import STAGING_FOLDER
from lake_assets.storage.formats.any_format import NO_COLUMNS
from lake_assets.storage.manifest import Manifest
from lake_assets.streams.stream import OpenStream, list_landed_in

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def plan_stream(stream: OpenStream, partitions: Iterable[Partition], options: IngestOptions | None = None) -> Plan:
    """Return what an ingest of partitions would do now. Nothing is written, and no Spark session is started here.

    What would be refused as a whole is refused here too; for SQL that joins tables, Spark does so in another process.
    """
    wanted, is_index = list(partitions), stream.config.mode.registers
    options = options or IngestOptions()
    indexed = plan_index(stream, wanted, options).partitions if is_index else ()
    landed = {} if is_index else list_landed_in(stream, wanted)
    with stream.lake.open_if_exists() as lake:
        planner = Planner(stream, options)
        decided = list(indexed) if is_index else _plan_landed(stream, lake, landed, planner)
        in_lake = _InLake.of(lake, stream, decided)
        shown = counted(decided, f"plan {stream.name}", "partitions", len(decided))
        plans = [plan_in(stream, plan, in_lake) for plan in shown]
        table = stream.table_columns(lake)
        known = NO_COLUMNS if table is None else table
        footers = Footers(stream, [plan.reads for plan in plans if plan.adds_rows], known)
        new = [(obj, plan.partition) for plan in plans if plan.adds_rows for obj in plan.reads.objects]
        columns = PlannedColumns.of(lake, footers, new, table)
        for index, plan in enumerate(plans):
            if plan.adds_rows:
                read, refusals = _as_read(plan, columns)
                if read is not plan:  # as a run decides again when it has read the objects
                    decision = planner.decide(read, lake) if read.rows == 0 else decided[index].decision
                    plans[index] = plan_in(stream, replace(read, decision=decision), in_lake)
                plans[index] = _with_footers(plans[index], columns, refusals)
        adds = {plan.partition: is_index or plan.decision.action == "append" for plan in plans if plan.commits}
        views = _views(stream, lake, next((plan for plan in plans if plan.adds_rows), None))
        strategies = foreseen_strategies(stream.lake_config, lake, stream.table, adds)
        begins = any(adds[plan.partition] or not plan.rows_before for plan in plans if plan.commits)
        if begins and lake is not None and stream.export is not None and lake.exists(DELTAS.name(lake.config)):
            refuse_earlier_exports(lake, stream.names, stream.table)
        plans = [replace(plan, strategy=strategies.get(plan.partition)) for plan in plans]
        last_pace = None if lake is None else pace(lake, stream.table, stream.config.mode)
    _refuse_missing_columns(stream, views)
    return Plan.of(stream, options, _held_back(stream, plans, force=options.force), pace=last_pace)


def _views(stream: OpenStream, lake: LakeSession | None, first: PartitionPlan | None) -> "Mapping[str, StructType]":
    """Return the columns of what a transform's SQL joins, by its names there, as a run of the first partition has them.

    Empty if it joins no table, nothing is read, or the objects cannot be, which the run says.
    """
    transform = stream.config.transform
    if first is None or lake is None or transform is None or transform.sql is None or not transform.tables:
        return {}
    from lake_assets.spark.spark_errors import VIEW  # noqa: PLC0415 - few plans need Spark
    from lake_assets.spark.transform_job import source_schema  # noqa: PLC0415
    from lake_assets.spark_reader import columns_of  # noqa: PLC0415

    tables = {name: columns_of(lake, table) for name, table in stream.joined().items()}
    try:
        landed = stream.landed.inputs([obj.key for obj in first.reads.read], stream.config.partitions)
        return {VIEW: source_schema(first.partition, landed), **tables}
    except LakeAssetsError:
        return {}


def _refuse_missing_columns(stream: OpenStream, views: "Mapping[str, StructType]") -> None:
    sql = stream.config.transform and stream.config.transform.sql
    if not views or not sql:
        return
    from lake_assets.spark.sql_parser import refuse_missing_columns  # noqa: PLC0415 - few plans need Spark

    with suppress(SparkUnavailableError):  # the run says it
        refuse_missing_columns(stream.spark.settings, sql, views)


def _held_back(stream: OpenStream, plans: list[PartitionPlan], *, force: bool) -> list[PartitionPlan]:
    """Return the plans; those that another stream of the release group holds back wait or fail."""
    for companion in stream.companions:
        columns = companion.config.partition_columns
        moments = {index: Partition(columns, plan.partition.values) for index, plan in enumerate(plans) if plan.commits}
        taking_part = {index: partition for index, partition in moments.items() if takes_part(companion, partition)}
        options = options_of_companion(companion, IngestOptions(force=force))
        theirs = plan_stream(companion, taking_part.values(), options).partitions
        for index, other in zip(taking_part, theirs, strict=True):
            if other.decision.fails:
                error = held_back(other.partition, companion.name, other.decision.fails)
                decision = Decision("fail", str(error), errors=(error,))
            elif other.decision.action == "leave_out":
                decision = Decision("leave_out", waiting_text([companion.name]))
            else:
                continue
            plans[index] = replace(plans[index], decision=decision, **_NOTHING)
    return plans


# What a plan has that reads and commits nothing.
_NOTHING: Mapping[str, Any] = {
    "files_written": 0,
    "files_copied": 0,
    "statements": (),
    "rows_after": None,
    "strategy": None,
    "job": None,
}


def _plan_landed(
    stream: OpenStream, lake: LakeSession | None, landed: Mapping[Partition, Manifest], planner: Planner
) -> list[PartitionPlan]:
    """Return the plans of partitions in mode replace or append, each with its objects compared with the known ones."""
    landed = {partition: stream.without_empty(manifest) for partition, manifest in landed.items()}
    return planner.plan(lake, landed, compare(lake, stream, landed))


@dataclass(frozen=True, slots=True)
class _InLake:
    """What a lake has of the partitions that are planned: their last commits by path, rows and dead letters."""

    has_table: bool
    last: Mapping[str, LedgerRow]
    rows: Mapping[Partition, int]
    letters: Mapping[Partition, Sequence[LetterFile]]

    @classmethod
    def of(cls, lake: LakeSession | None, stream: OpenStream, plans: Sequence[PartitionPlan]) -> "_InLake":
        """Read it for all partitions together."""
        partitions = [plan.partition for plan in plans]
        letters = stream.dead_letters(lake, partitions)
        if lake is None or not lake.exists(stream.table):
            return cls(has_table=False, last={}, rows={}, letters=letters)
        last = {plan.partition.path: plan.last for plan in plans if plan.last is not None}
        if stream.config.mode.registers:  # the decision on registered objects needs none
            last = last_commits(lake, stream.table, partitions)
        past = past_table(lake, stream.partitioned_table, partitions, LIVE)
        return cls(has_table=True, last=last, rows=past.live_rows(partitions), letters=letters)


def plan_in(stream: OpenStream, plan: PartitionPlan, in_lake: _InLake) -> PartitionPlan:
    """Return what an ingest would do with a partition, as far as it is known without the footers of its objects."""
    partition, manifest, decision, compared = plan.partition, plan.landed, plan.decision, plan.compared
    mode = stream.config.mode
    rows_before, last = in_lake.rows.get(partition, 0), in_lake.last.get(partition.path)
    if not mode.replaces and decision.fails and plan.changed and decision.on_empty is None:
        error = compared.refusal(partition) if mode.reads_new else decision.errors[0]
        decision = replace(decision, note=str(error))
    if decision.action == "skip" and last is not None and last.rows_after not in (None, rows_before):
        decision = replace(decision, note=edited_text(stream, partition, last, rows_before))
    reads = compared.new if decision.action == "append" else manifest
    files_written = files_copied = 0
    rows_after: int | None = None
    statements: tuple[Statement, ...] = ()
    match decision.action:
        case "register":
            reads = Manifest(plan.new)
            statements = (add_files_statement(stream.table, [obj.uri for obj in plan.new]),)
        case "clear":
            rows_after = 0
            statements = (delete_statement(stream.table, partition),)
        case "replace" | "append":
            rules = stream.copy_rules
            encoded = tuple(obj for obj in reads.read if rules is None or not rules.admits(obj))
            files_copied = len(reads.read) - len(encoded)
            encodes = len(split_objects(encoded, stream.config.target_file_size, usable_cores())) if encoded else 0
            files_written = files_copied + encodes
            load = _load_statement(stream, partition)
            is_append = decision.action == "append"
            statements = (load,) if is_append else (delete_statement(stream.table, partition), load)
    files_change = decision.action in ("replace", "append", "clear")
    return replace(
        plan,
        decision=decision,
        source_glob=stream.source_glob(partition),
        reads=reads,
        fingerprint=stream.fingerprint(manifest),
        destination=stream.source.uri(stream.prefix(partition))
        if mode.registers
        else stream.destination_uri(partition),
        table_exists=in_lake.has_table,
        rows_before=rows_before,
        files_written=files_written,
        files_copied=files_copied,
        statements=statements,
        rows_after=rows_after,
        letters=f"{stream.letters_uri}{partition.path}/" if stream.letters_uri is not None else None,
        letters_now=sum(letter.rows for letter in in_lake.letters.get(partition, ())),
        deltas=stream.export.deltas.to.root if stream.export and files_change else None,
    )


def _as_read(plan: PartitionPlan, columns: PlannedColumns) -> tuple[PartitionPlan, tuple[str, ...]]:
    """Return a partition's plan without the objects that its run quarantines, and why its run refuses objects."""
    refusals = columns.refusals(plan.partition, plan.reads)
    if refusals or plan.decision.action == "register":
        return plan, refusals
    bad = columns.misfits(plan.partition, plan.reads)
    others = _without(plan.reads, bad)
    if (
        bad
        and not others.read
        and needs_rows(columns.stream, plan.compared if plan.decision.action == "append" else None)
    ):
        return plan, tuple(bad.values())
    if bad:
        compared = replace(plan.compared, new=_without(plan.compared.new, bad))
        plan = replace(plan, landed=_without(plan.landed, bad), compared=compared)
    return (replace(plan, rows=0) if columns.footers.rows(others) == 0 else plan), ()


def _without(manifest: Manifest, bad: Mapping[str, str]) -> Manifest:
    return replace(manifest, left_out={**manifest.left_out, **bad})


def _with_footers(plan: PartitionPlan, columns: PlannedColumns, refusals: tuple[str, ...]) -> PartitionPlan:
    """Return the plan with the rows and columns after the ingest; it fails if the ingest would refuse objects."""
    if not plan.adds_rows:
        return plan
    stream, added = columns.stream, columns.footers.rows(plan.reads)
    if isinstance(added, int) and plan.decision.action != "replace":
        added += plan.rows_before
    plan = replace(plan, rows_after=added)
    if refusals and stream.config.mode.registers:  # the others are registered first
        texts = (f"the lake refuses {count(len(refusals), 'new object')}", plan.decision.failure)
        failure = "; ".join(filter(None, texts))
        return replace(plan, decision=replace(plan.decision, failure=failure), job=_job(stream, plan), columns=refusals)
    if refusals:
        decision = Decision("fail", refusals[0])
        return replace(plan, decision=decision, **_NOTHING)
    return replace(plan, job=_job(stream, plan), columns=columns.changes(plan.reads))


def _job(stream: OpenStream, plan: PartitionPlan) -> JobKind:
    if plan.decision.action == "register":
        return "register"
    if stream.config.transform is not None:
        return "transform"
    if not plan.files_copied:
        return "encode"
    return "copy" if plan.files_copied == len(plan.reads.read) else "copy and encode"


def _load_statement(stream: OpenStream, partition: Partition) -> Statement:
    """Return the statement that adds the new rows: as files, or from staged files by INSERT."""
    lake = stream.lake_config
    if lake.inserts_only:
        file = f"{lake.staging_storage.root}/{STAGING_FOLDER}<random>/<run id>-<random>.parquet"
        ((sql, parameters),) = insert_statements(lake, stream.table, partition, Staged(b"", [[file]], ["<columns>"]))
        return sql, [*parameters[:-1], "<the run's key>"]
    return add_files_statement(stream.table, [f"{stream.destination_uri(partition)}<run id>-<random>.parquet"])
