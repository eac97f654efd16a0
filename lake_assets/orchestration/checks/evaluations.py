"""The results of checks as Dagster's events: one for each partition, and one for the whole table.

Dagster's checks list reads the results of the partitions. Its overview, and its API, read the newest result of all, so
each run ends with one that names every partition whose newest result is a failure. After an audit the newest result of
all is that of a partition; it is a failure while any partition fails.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import dagster as dg

from lake_assets.checks.check_run import CheckRun, covered, is_by_partition, is_error, keeps_failures
from lake_assets.checks.landed_objects import last_run_failed
from lake_assets.checks.result import NAMED, CheckResult, Scope
from lake_assets.lake.catalog.past import key_of
from lake_assets.lake.catalog.table import Key
from lake_assets.layout.partition import Partition
from lake_assets.layout.texts import count, first_lines
from lake_assets.orchestration import dagster_private
from lake_assets.orchestration.dagster_private import Target
from lake_assets.orchestration.metadata import Metadata, integers, markdown_list
from lake_assets.orchestration.partition_keys import keys_of
from lake_assets.streams.stream import OpenStream

RUN = "result_of_run"  # metadata of a result that a later run repeats
PARTITIONS = "failing_partitions"  # metadata: their values
FEW = 10  # partitions whose results are asked for one by one
FAILING = 1_000  # partitions that the metadata names; of more, only a check of the whole table finds that none fails

Results = Mapping[Partition, CheckResult]


def step_of_checks(stream: str) -> str:
    """Return the name of the step that makes a stream's checks."""
    return f"check_{stream}"


class Evaluator:
    """Makes the events of one run's checks.

    Args:
        instance: Dagster's, with the earlier results.
        keys: of the run's partitions; none if it is of the whole table.
    """

    def __init__(
        self, stream: OpenStream, asset: dg.AssetKey, instance: dg.DagsterInstance, run_id: str, keys: Sequence[str]
    ) -> None:
        self.stream = stream
        self.instance = instance
        self.run_id = run_id
        self.keys = keys
        self.asset = asset
        self._of_stream = keys_of(stream)

    def of_scope(self, name: str, check_run: CheckRun) -> Iterator[dg.AssetCheckEvaluation]:
        """Make one check of a `CheckRun`.

        A check of partitions has a result for each partition of the run, under Dagster's key of it, so that the next
        run, of another partition, does not replace it.
        """
        if not is_by_partition(self.stream, name):
            yield self._of_one(check_run.result(name), check_run.scope)
        elif check_run.scope.partitions is None:
            yield from self._of_table(name, check_run)
        else:
            results = dict(check_run.by_partition(name))
            checked = set(map(self._of_stream.of, results))
            if not self._of_stream.are_partitions:
                before = self._failed_before(name, checked)
                results |= self._again(name, [partition for partition in before if partition not in results])
            yield from self._of_partitions(results, check_run.scope.failed)
            yield from self._repeated(name, [key for key in self.keys if key not in checked])
            yield from self.total(name)

    def _of_one(self, result: CheckResult, scope: Scope) -> dg.AssetCheckEvaluation:
        """The result of a check without results by partition. What fails in other partitions is kept after a run."""
        evaluation = self._evaluation(result, is_blocking=self._is_blocking(result.name))
        if scope.tried is None or not keeps_failures(result.name):
            return evaluation
        newest = dagster_private.newest_result(self.instance, self._key(result.name), None)
        if newest is None or newest[1].passed:
            return evaluation
        run_id, earlier = newest
        failing = _failing_of(earlier)
        left = None if failing is None else failing - covered(result.name, scope.tried)
        if left is not None and not left:
            return evaluation
        if result.passed:
            return dagster_private.repeated_result(earlier, _made_by(earlier, run_id) | _failing_metadata(left))
        both = None if left is None or result.failing is None else result.failing | left
        return self._evaluation(replace(result, failing=both), is_blocking=self._is_blocking(result.name))

    def nothing_to_check(self, name: str) -> Iterator[dg.AssetCheckEvaluation]:
        """A result for each partition that a failed run did not commit, and of which the check has no earlier result.

        Without it Dagster shows an execution that failed, also after the command line, the job `ingest_<stream>` or
        another run has committed the partition. This result disappears with the partition's next materialization.
        """
        if not is_by_partition(self.stream, name):
            return
        left = dagster_private.partitions_without_result(self.instance, self._key(name), self.run_id)
        text = "The run did not commit the partition: there is nothing to check."
        for key in self.free(name, left):
            result = CheckResult(name, True, text)
            yield self._evaluation(result, is_blocking=False, partition=key)

    def not_run(self, name: str, but: Iterable[str] = ()) -> Iterator[dg.AssetCheckEvaluation]:
        """Yield the earlier results of a check that the run ends without; otherwise Dagster shows the check as skipped.

        Those of the keys in `but` do not describe their partitions any more.
        """
        outdated = set(but)
        if is_by_partition(self.stream, name):
            keys = [*self.free(name, [key for key in self.keys if key not in outdated]), None]
        else:
            keys = self.free(name, [None])
        yield from self.repeated(name, keys)

    def free(self, name: str, keys: Iterable[str | None]) -> list[str | None]:
        """Those of the keys that no other run is about to check.

        Dagster orders the results of a check by when their runs were made. So a result that this run repeats would
        hide the result of an older run that is still under way.
        """
        if not self._others:
            return list(keys)
        check = self._key(name)
        return [
            key for key in keys if self._others.isdisjoint(dagster_private.runs_with_plan(self.instance, check, key))
        ]

    @cached_property
    def _others(self) -> frozenset[str]:
        """The other runs that have not ended."""
        return dagster_private.unfinished_runs(self.instance) - {self.run_id}

    def failed(self, partitions: Mapping[Partition, str]) -> Iterator[dg.AssetCheckEvaluation]:
        """Yield the results of `last_run` for partitions that a run did not commit, each with the reason.

        Nothing is read for them. They are marked as blocking, because *Re-execute from asset failure* finds the
        partitions of a run that committed only some of them by this mark alone.
        """
        results = {p: last_run_failed(self.stream, p, error) for p, error in partitions.items()}
        yield from self._of_partitions(results, tuple(results))

    def _of_table(self, name: str, check_run: CheckRun) -> Iterator[dg.AssetCheckEvaluation]:
        """One result for the whole table, and one for each partition that fails, or did."""
        whole = check_run.result(name)
        results = {} if whole.passed else dict(check_run.by_partition(name))
        before = self._failed_before(name, self._failing(name))
        results |= self._again(name, [partition for partition in before if partition not in results])
        # Dagster has no plan of these partitions, so it lists their results as newer than the total, in this order.
        # Its overview shows the last one: failures are last.
        of_each = sorted(results.items(), key=lambda item: not item[1].passed)
        yield from self._of_partitions(
            {partition: result for partition, result in of_each if not result.passed or partition in before}
        )
        yield from self.total(name, whole)

    def _again(self, name: str, partitions: Sequence[Partition]) -> Results:
        """Make a check again, of partitions that failed before."""
        scope = Scope(None, tuple(partitions))
        return CheckRun(self.stream, [name], scope, by_partition=True).by_partition(name) if partitions else {}

    def _failed_before(self, name: str, keys: Iterable[str]) -> list[Partition]:
        """Return the partitions that the newest results of keys name as failing; all of a key if it names none."""
        failed: list[Partition] = []
        for key in keys:
            partitions, named = self._of_stream.partitions(key), None
            if not self._of_stream.are_partitions:
                newest = dagster_private.newest_result(self.instance, self._key(name), key)
                named = frozenset() if newest is None or newest[1].passed else _failing_of(newest[1])
            failed += [each for each in partitions if named is None or key_of(each) in named]
        return failed

    def _of_partitions(self, results: Results, failed: Collection[Partition] = ()) -> Iterator[dg.AssetCheckEvaluation]:
        by_key: dict[str, dict[Partition, CheckResult]] = {}
        for partition, result in results.items():
            by_key.setdefault(self._of_stream.of(partition), {})[partition] = result
        # Dagster shows an evaluation only while it is of the newest materialization.
        targets = {
            key: Target(storage_id=newest.storage_id, run_id=newest.run_id, timestamp=newest.timestamp)
            for key, newest in dagster_private.newest_materializations(self.instance, self.asset, by_key)
        }
        if self._of_stream.are_partitions:
            merged = [(key, next(iter(of_key.values()))) for key, of_key in by_key.items()]
        else:
            merged = sorted(((k, _of_key(of_key)) for k, of_key in by_key.items()), key=lambda of: not of[1].passed)
        for key, result in merged:
            is_blocking = self._is_blocking(result.name) or not by_key[key].keys().isdisjoint(failed)
            yield self._evaluation(result, is_blocking=is_blocking, partition=key, target=targets.get(key))

    def _failing(self, name: str) -> list[str]:
        """Return the partitions whose newest result is a failure, as far as the config still has them."""
        # A commit that Dagster has learned of since, such as one of the command line, ends a failure to commit.
        of_newest = name in ("last_run", "landing_zone")
        failing = dagster_private.failing_partitions(self.instance, self._key(name), of_newest=of_newest)
        return [key for key in failing if self._of_stream.has(key, self.instance)]

    def total(self, name: str, whole: CheckResult | None = None) -> Iterator[dg.AssetCheckEvaluation]:
        """One result for all partitions together: it fails while the newest result of any of them does.

        It blocks nothing: the partitions that fail need not be those of this run.
        """
        failing = self._failing(name)
        if whole is None or (whole.passed and failing):
            description = f"{count(len(failing), 'partition')} failed in the newest result."
            if not failing:
                description = "All partitions pass."
            elif len(failing) == 1:
                newest = dagster_private.newest_result(self.instance, self._key(name), failing[0])
                description = (newest and newest[1].description) or description
            whole = CheckResult(name, not failing, description, {"failing": len(failing)}, failing[:NAMED])
        yield self._evaluation(whole, is_blocking=False)

    def repeated(self, name: str, keys: Sequence[str | None]) -> Iterator[dg.AssetCheckEvaluation]:
        """Yield the newest earlier results, for partitions without a result of the run, and behind these the total."""
        of_partitions = is_by_partition(self.stream, name)
        evaluations = list(self._repeated(name, [key for key in keys if key is not None] if of_partitions else keys))
        yield from evaluations
        if of_partitions and (evaluations or (None in keys and self._has_result(name))):
            yield from self.total(name)

    def _repeated(self, name: str, keys: Sequence[str | None]) -> Iterator[dg.AssetCheckEvaluation]:
        if len(keys) > FEW:  # most of many have never been checked
            checked = {None, *dagster_private.checked_partitions(self.instance, self._key(name))}
            keys = [key for key in keys if key in checked]
        for key in keys:
            newest = dagster_private.newest_result(self.instance, self._key(name), key)
            if newest is not None and newest[0] != self.run_id:
                run_id, evaluation = newest
                yield dagster_private.repeated_result(evaluation, _made_by(evaluation, run_id))

    def _has_result(self, name: str) -> bool:
        return dagster_private.has_result(self.instance, self._key(name))

    def _key(self, name: str) -> dg.AssetCheckKey:
        return dg.AssetCheckKey(self.asset, name)

    def _is_blocking(self, name: str) -> bool:
        return name in self.stream.config.checks.blocking

    def _evaluation(
        self, result: CheckResult, *, is_blocking: bool, partition: str | None = None, target: Target | None = None
    ) -> dg.AssetCheckEvaluation:
        return dg.AssetCheckEvaluation(
            asset_key=self.asset,
            check_name=result.name,
            passed=result.passed,
            metadata=_metadata(result),
            target_materialization_data=target,
            severity=dg.AssetCheckSeverity.ERROR if is_error(self.stream, result.name) else dg.AssetCheckSeverity.WARN,
            description=result.description,
            blocking=is_blocking,
            partition=partition,
        )


def _of_key(results: Results) -> CheckResult:
    """Return the results of the partitions of one key as one, which names those that fail."""
    failing = {partition: result for partition, result in results.items() if not result.passed}
    first = next(iter(results.values()))
    if len(results) == 1:
        return replace(first, failing=frozenset(map(key_of, failing)))
    numbers = Counter[str]()
    for result in results.values():
        numbers.update(result.numbers)
    texts = [f"{partition}: {result.description}" for partition, result in failing.items()]
    return CheckResult(
        first.name,
        not failing,
        "\n".join(first_lines(texts, NAMED)) if failing else f"{count(len(results), 'partition')} pass.",
        numbers | {"partitions": len(results), "failing": len(failing)},
        [text for result in failing.values() for text in result.named][:NAMED],
        frozenset(map(key_of, failing)),
    )


def _metadata(result: CheckResult) -> Metadata:
    metadata = integers(result.numbers)
    if not result.passed:
        metadata |= _failing_metadata(result.failing)
    if result.named:
        metadata["named"] = markdown_list(result.named)
    return metadata


def _made_by(evaluation: dg.AssetCheckEvaluation, run_id: str) -> Metadata:
    """Return the run that made a result, which this run may have repeated."""
    return {RUN: evaluation.metadata.get(RUN) or dg.MetadataValue.dagster_run(run_id)}


def _failing_metadata(failing: frozenset[Key] | None) -> Metadata:
    """The failing partitions of a check, for the runs that come after; nothing if they are unknown or very many."""
    if failing is None or len(failing) > FAILING:
        return {}
    keys = sorted(failing, key=lambda key: [value or "" for value in key])
    return {PARTITIONS: dg.MetadataValue.json([list(key) for key in keys])}


def _failing_of(evaluation: dg.AssetCheckEvaluation) -> frozenset[Key] | None:
    value = evaluation.metadata.get(PARTITIONS)
    if not isinstance(value, dg.JsonMetadataValue) or not isinstance(value.data, list):
        return None
    return frozenset(tuple(key) for key in value.data)
