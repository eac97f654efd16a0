"""What the checks found, as Dagster's events: one for each partition, and one for the whole table.

Dagster's checks list reads the results of the partitions. Its overview, and its API, read the newest result of all, so
each run ends with one that names every partition whose newest result is a failure.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import dagster as dg
from dagster._core.definitions.asset_checks.asset_check_evaluation import (
    AssetCheckEvaluationTargetMaterializationData as Target,
)
from dagster._core.event_api import PartitionKeyFilter
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecord
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus as Status
from dagster._core.storage.dagster_run import NOT_FINISHED_STATUSES
from dagster_shared.record import replace

from lake_assets.checks.result import NAMED, CheckResult, Scope
from lake_assets.checks.run import is_by_partition, run_check, run_check_by_partition, severity_of
from lake_assets.layout.partition import Partition
from lake_assets.orchestration.metadata import Metadata, markdown
from lake_assets.orchestration.partitions import has_key, partition_key, partition_of
from lake_assets.streams.stream import OpenStream

RUN = "result_of_run"  # metadata of a result that a later run repeats
NEWEST = 100  # plans of one check and partition, among which one of a run that is under way is looked for

Results = Mapping[Partition, CheckResult]


class Evaluator:
    """Makes the events of one run's checks."""

    def __init__(
        self, stream: OpenStream, asset: dg.AssetKey, instance: dg.DagsterInstance, run_id: str, keys: Sequence[str]
    ) -> None:
        """Of a run over the partitions with these keys; of the whole table where there are none."""
        self.stream = stream
        self.instance = instance
        self.run_id = run_id
        self.keys = keys
        self.asset = asset

    def of_scope(self, name: str, scope: Scope) -> Iterator[dg.AssetCheckEvaluation]:
        """Run one check, and say what it found.

        A check that looks at partitions has an evaluation for each partition of the run, under Dagster's key of it, so
        that the next run, of another partition, does not replace it.

        Raises:
            LakeAssetsError: the landing zone or the lake cannot be read, or the check's SQL is wrong.
        """
        if not is_by_partition(self.stream, name):
            yield self._evaluation(run_check(self.stream, name, scope), is_blocking=self._is_blocking(name))
        elif scope.partitions is None:
            yield from self._of_table(name)
        else:
            found = run_check_by_partition(self.stream, name, scope)
            yield from self._of_partitions(found, scope.failed)
            told = {partition_key(partition) for partition in found}
            yield from self.repeated(name, [key for key in self.keys if key not in told])
            yield from self.total(name)

    def not_run(self, name: str, but: Iterable[str] = ()) -> Iterator[dg.AssetCheckEvaluation]:
        """What is known of a check that the run ends without: the results from before, or Dagster shows it as skipped.

        Args:
            name: of the check.
            but: keys of partitions of which the results from before say nothing any more.
        """
        if not is_by_partition(self.stream, name):
            yield from self.repeated(name, self.free(name, [None]))
            return
        over = set(but)
        yield from self.repeated(name, self.free(name, [key for key in self.keys if key not in over]))
        if self.has_result(name):
            yield from self.total(name)

    def has_result(self, name: str) -> bool:
        """Whether the check was ever made."""
        return bool(self._results(name, None))

    def free(self, name: str, keys: Iterable[str | None]) -> list[str | None]:
        """Those of the keys that no other run is about to check.

        Dagster orders the results of a check by when their runs were made. So a result that this run repeats would
        hide the result of an older run that is still under way.
        """
        return [key for key in keys if not self._is_under_way(name, key)]

    def _is_under_way(self, name: str, key: str | None) -> bool:
        if not self._others:
            return False
        # Dagster plans a check of the whole table for partitions where the run has one dimension.
        of_key = None if key is None else PartitionKeyFilter(key=key)
        planned = self.instance.event_log_storage.get_asset_check_execution_history(
            self._key(name), NEWEST, status={Status.PLANNED}, partition_filter=of_key
        )
        return any(record.run_id in self._others for record in planned)

    @cached_property
    def _others(self) -> frozenset[str]:
        """The other runs that have not ended."""
        runs = self.instance.get_runs(dg.RunsFilter(statuses=NOT_FINISHED_STATUSES))
        return frozenset(run.run_id for run in runs) - {self.run_id}

    def failed(self, partitions: Iterable[Partition]) -> Iterator[dg.AssetCheckEvaluation]:
        """The result of `landing_zone` for partitions that a run tried and did not commit; nothing is read for it.

        They are marked as blocking, for by that alone Dagster finds out what *Re-execute from asset failure* has to do
        after a run that materialized some partitions and not the others.
        """
        text = "The run did not take the partition into the lake; refresh it."
        results = {partition: CheckResult("landing_zone", False, text, "warn") for partition in partitions}
        yield from self._of_partitions(results, tuple(results))

    def _of_table(self, name: str) -> Iterator[dg.AssetCheckEvaluation]:
        """One result for the whole table, and one for each partition that fails, or did."""
        whole = run_check(self.stream, name, Scope())
        found = {} if whole.passed else dict(run_check_by_partition(self.stream, name, Scope()))
        before = tuple(partition_of(self.stream.config.columns, key) for key in self._failing(name))
        if left := tuple(partition for partition in before if partition not in found):
            found |= run_check_by_partition(self.stream, name, Scope(None, left))
        yield from self._of_partitions({p: one for p, one in found.items() if not one.passed or p in before})
        yield from self.total(name, whole)

    def _of_partitions(self, results: Results, failed: Sequence[Partition] = ()) -> Iterator[dg.AssetCheckEvaluation]:
        found = {partition_key(partition): (partition, result) for partition, result in results.items()}
        targets = self._targets(found)
        for key, (partition, result) in found.items():
            is_blocking = self._is_blocking(result.name) or partition in failed
            yield self._evaluation(result, is_blocking=is_blocking, partition=key, target=targets.get(key))

    def _targets(self, keys: Iterable[str]) -> Mapping[str, Target]:
        """The newest materialization of each: Dagster shows an evaluation only while it is of the newest."""
        newest = self.instance.event_log_storage.get_latest_storage_id_by_partition(
            self.asset, dg.DagsterEventType.ASSET_MATERIALIZATION, set(keys)
        )
        if not newest:
            return {}
        wanted = dg.AssetRecordsFilter(self.asset, storage_ids=list(newest.values()))
        records = self.instance.fetch_materializations(wanted, limit=len(newest)).records
        return {
            record.partition_key: Target(
                storage_id=record.storage_id, run_id=record.event_log_entry.run_id, timestamp=record.timestamp
            )
            for record in records
            if record.partition_key is not None
        }

    def _failing(self, name: str) -> list[str]:
        """The partitions whose newest result is a failure."""
        infos = self.instance.event_log_storage.get_asset_check_partition_info([self._key(name)])
        return [
            info.partition_key
            for info in infos
            if info.partition_key is not None
            and info.latest_execution_status == Status.FAILED
            and has_key(self.stream, info.partition_key, self.instance)
        ]

    def total(self, name: str, whole: CheckResult | None = None) -> Iterator[dg.AssetCheckEvaluation]:
        """One result for all partitions together: it fails while the newest result of any of them does.

        It blocks nothing: the partitions that fail need not be those of this run.
        """
        failing = self._failing(name)
        if whole is None or (whole.passed and failing):
            whole = CheckResult(
                name,
                not failing,
                f"The newest result of {len(failing):,} partitions is a failure."
                if failing
                else "The newest result of no partition is a failure.",
                severity_of(name),
                {"failing": len(failing)},
                failing[:NAMED],
            )
        yield self._evaluation(whole, is_blocking=False)

    def repeated(self, name: str, keys: Iterable[str | None]) -> Iterator[dg.AssetCheckEvaluation]:
        """The newest results from before the run, for partitions of which it has none of its own."""
        for key in keys:
            records = self._results(name, PartitionKeyFilter(key=key))
            if not records or records[0].evaluation is None or records[0].run_id == self.run_id:
                continue
            evaluation = records[0].evaluation
            run = evaluation.metadata.get(RUN, dg.MetadataValue.dagster_run(records[0].run_id))
            yield replace(evaluation, blocking=False, metadata={**evaluation.metadata, RUN: run})

    def _results(self, name: str, of_key: PartitionKeyFilter | None) -> Sequence[AssetCheckExecutionRecord]:
        """The newest result, if there is one."""
        return self.instance.event_log_storage.get_asset_check_execution_history(
            self._key(name), 1, status={Status.SUCCEEDED, Status.FAILED}, partition_filter=of_key
        )

    def _key(self, name: str) -> dg.AssetCheckKey:
        return dg.AssetCheckKey(self.asset, name)

    def _is_blocking(self, name: str) -> bool:
        return name in self.stream.config.checks.blocking

    def _evaluation(
        self, found: CheckResult, *, is_blocking: bool, partition: str | None = None, target: Target | None = None
    ) -> dg.AssetCheckEvaluation:
        is_error = found.severity == "error" or self._is_blocking(found.name)
        return dg.AssetCheckEvaluation(
            asset_key=self.asset,
            check_name=found.name,
            passed=found.passed,
            metadata=_metadata(found),
            target_materialization_data=target,
            severity=dg.AssetCheckSeverity.ERROR if is_error else dg.AssetCheckSeverity.WARN,
            description=found.description,
            blocking=is_blocking,
            partition=partition,
        )


def _metadata(found: CheckResult) -> Metadata:
    metadata: Metadata = {name: dg.MetadataValue.int(number) for name, number in found.numbers.items()}
    if found.named:
        metadata["named"] = dg.MetadataValue.md("\n".join(f"- {markdown(text)}" for text in found.named))
    return metadata
