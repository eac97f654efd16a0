"""The checks of a stream as Dagster's asset checks: in the step that commits, and of whole tables on their own."""

import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import dagster as dg

from lake_assets.base.errors import LakeAssetsError
from lake_assets.base.texts import count, first_lines
from lake_assets.config.layout.partition import Partition
from lake_assets.lake.catalog.past_partitions import key_of
from lake_assets.lake.catalog.table import Key
from lake_assets.orchestration import dagster_private
from lake_assets.orchestration.commit_events import newest_materializations
from lake_assets.orchestration.dagster_private import Target, UserFailure, planned
from lake_assets.orchestration.event_log import StepContext, failure_or_retry
from lake_assets.orchestration.metadata import Metadata, integers, lines_by_text, markdown_list
from lake_assets.orchestration.partition_keys import StreamKeys
from lake_assets.streams.stream import OpenStream
from lake_assets.upkeep.checks.check_run import (
    CheckRun,
    check_description,
    checks_of,
    covered,
    is_by_partition,
    is_error,
    keeps_failures,
)
from lake_assets.upkeep.checks.facts import NAMED, CheckResult, Scope
from lake_assets.upkeep.checks.landed_objects import last_run_failed

PARTITIONS = "failing_partitions"  # metadata: their values
FAILING = 1_000  # partitions that the metadata names; of more, only a check of the whole table finds that none fails

Results = Mapping[Partition, CheckResult]


class Evaluator:
    """Makes the events of the checks of a stream's asset. The instance has the earlier results."""

    def __init__(self, stream: OpenStream, asset: dg.AssetKey, instance: dg.DagsterInstance) -> None:
        self.stream = stream
        self.instance = instance
        self.asset = asset
        self._of_stream = StreamKeys(stream)

    def of_scope(
        self, name: str, check_run: CheckRun, also: Sequence[Partition] = ()
    ) -> Iterator[dg.AssetCheckEvaluation]:
        """Make one check of a `CheckRun`. Each event must be stored before the next is asked for.

        A check of partitions has a result for each partition of the run, and each of `also`, under Dagster's key of it,
        so that the next run, of another partition, does not replace it.
        """
        if not is_by_partition(self.stream, name):
            yield self._evaluation_of_scope(check_run.result(name), check_run.scope)
        elif check_run.scope.partitions is None:
            yield from self._evaluations_of_table(name, check_run)
        else:
            results = dict(check_run.by_partition(name)) if check_run.scope.tried else {}
            results |= self._again(name, [partition for partition in also if partition not in results])
            nothing = CheckResult(name, True, "The partition has no commit: there is nothing to check.")
            results |= {p: nothing for p in (*(check_run.scope.partitions or ()), *also) if p not in results}
            if not self._of_stream.are_partitions:
                before = self._failed_before(name, set(map(self._of_stream.of, results)))
                results |= self._again(name, [partition for partition in before if partition not in results])
            yield from self._evaluations_of_partitions(results, check_run.scope.failed)
            yield self._total(name)

    def failed(self, partitions: Mapping[Partition, str]) -> Iterator[dg.AssetCheckEvaluation]:
        """Yield the results of `last_run` for partitions that a run did not commit, each with the reason.

        *Re-execute from asset failure* finds the partitions of a run that committed only some of them by these alone.
        """
        results = {p: last_run_failed(self.stream, p, error) for p, error in partitions.items()}
        yield from self._evaluations_of_partitions(results, tuple(results))

    def not_made(self, name: str, why: str) -> dg.AssetCheckEvaluation:
        """Return the result of a check that could not be made."""
        return self._evaluation(CheckResult(name, False, f"The check could not be made: {why}"), self._blocks(name))

    def _evaluation_of_scope(self, result: CheckResult, scope: Scope) -> dg.AssetCheckEvaluation:
        """The result of a check without results by partition. What fails in other partitions is kept after a run."""
        newest, blocks = None, self._blocks(result.name)
        if scope.tried is not None and keeps_failures(result.name):
            newest = dagster_private.newest_result(self.instance, self._key(result.name), None)
        if scope.tried is None or newest is None or newest.passed:
            return self._evaluation(result, blocks)
        failing = _failing_of(newest)
        left = None if failing is None else failing - covered(result.name, scope.tried)
        if not result.passed:
            keys = None if left is None or result.failing is None else result.failing | left
            return self._evaluation(replace(result, failing=keys), blocks)
        if left == frozenset():
            return self._evaluation(result, blocks)
        kept = replace(result, passed=False, description=newest.description or "")
        return self._evaluation(kept, blocks=False, metadata={**newest.metadata, **_failing_metadata(left)})

    def _evaluations_of_table(self, name: str, check_run: CheckRun) -> Iterator[dg.AssetCheckEvaluation]:
        """One result for the whole table, and one for each partition that fails, or did."""
        whole = check_run.result(name)
        results = {} if whole.passed else dict(check_run.by_partition(name))
        before = self._failed_before(name, self._failing(name))
        results |= self._again(name, [partition for partition in before if partition not in results])
        # Dagster has no plan of these partitions, so it lists their results as newer than the total, in this order.
        # Its overview shows the last one: failures are last.
        by_partition = sorted(results.items(), key=lambda item: not item[1].passed)
        yield from self._evaluations_of_partitions(
            {partition: result for partition, result in by_partition if not result.passed or partition in before}
        )
        yield self._total(name, whole)

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
                named = frozenset() if newest is None or newest.passed else _failing_of(newest)
            failed += [partition for partition in partitions if named is None or key_of(partition) in named]
        return failed

    def _evaluations_of_partitions(
        self, results: Results, failed: Collection[Partition] = ()
    ) -> Iterator[dg.AssetCheckEvaluation]:
        by_key: dict[str, dict[Partition, CheckResult]] = {}
        for partition, result in results.items():
            by_key.setdefault(self._of_stream.of(partition), {})[partition] = result
        # Dagster shows an evaluation only while it is of the newest materialization.
        targets = {key: _target(newest) for key, newest in newest_materializations(self.instance, self.asset, by_key)}
        if self._of_stream.are_partitions:
            merged = [(key, next(iter(of_key.values()))) for key, of_key in by_key.items()]
        else:
            merged = sorted(
                ((k, _result_of_key(of_key)) for k, of_key in by_key.items()), key=lambda of: not of[1].passed
            )
        for key, result in merged:
            blocks = self._blocks(result.name) or not by_key[key].keys().isdisjoint(failed)
            yield self._evaluation(result, blocks, key, targets.get(key))

    def _failing(self, name: str) -> list[str]:
        """Return the partitions whose newest result is a failure, as far as the config still has them."""
        # A commit that Dagster has learned of since, such as one of the command line, ends a failure to commit.
        of_newest = name in ("last_run", "landing_zone")
        failing = dagster_private.failing_partitions(self.instance, self._key(name), of_newest=of_newest)
        return [key for key in failing if self._of_stream.has(key, self.instance)]

    def _total(self, name: str, whole: CheckResult | None = None) -> dg.AssetCheckEvaluation:
        """Return one result for all partitions together: it fails while the newest result of any of them does.

        It blocks nothing: the partitions that fail need not be those of this run.
        """
        failing = self._failing(name)
        if whole is None or (whole.passed and failing):
            description = f"{count(len(failing), 'partition')} failed in the newest result."
            if not failing:
                description = "All partitions pass."
            elif len(failing) == 1:
                newest = dagster_private.newest_result(self.instance, self._key(name), failing[0])
                description = (newest and newest.description) or description
            whole = CheckResult(name, not failing, description, {"failing": len(failing)}, failing[:NAMED])
        return self._evaluation(whole, blocks=False)

    @cached_property
    def _newest_target(self) -> Target | None:
        """The asset's newest materialization, of which a result of the whole table is."""
        newest = self.instance.fetch_materializations(self.asset, limit=1).records
        return _target(newest[0]) if newest else None

    def _key(self, name: str) -> dg.AssetCheckKey:
        return dg.AssetCheckKey(self.asset, name)

    def _blocks(self, name: str) -> bool:
        return name in self.stream.config.checks.blocking

    def _evaluation(
        self,
        result: CheckResult,
        blocks: bool,
        partition: str | None = None,
        target: Target | None = None,
        metadata: Metadata | None = None,
    ) -> dg.AssetCheckEvaluation:
        return dg.AssetCheckEvaluation(
            asset_key=self.asset,
            check_name=result.name,
            passed=result.passed,
            metadata=_metadata(result) if metadata is None else metadata,
            target_materialization_data=self._newest_target if partition is None else target,
            severity=dg.AssetCheckSeverity.ERROR if is_error(self.stream, result.name) else dg.AssetCheckSeverity.WARN,
            description=result.description,
            blocking=blocks,
            partition=partition,
        )


def _target(newest: dg.EventLogRecord) -> Target:
    return Target(storage_id=newest.storage_id, run_id=newest.run_id, timestamp=newest.timestamp)


def _result_of_key(results: Results) -> CheckResult:
    """Return the results of the partitions of one key as one, which names those that fail."""
    failing = {partition: result for partition, result in results.items() if not result.passed}
    first = next(iter(results.values()))
    if len(results) == 1:
        return replace(first, failing=frozenset(map(key_of, failing)))
    numbers = Counter[str]()
    for result in results.values():
        numbers.update(result.numbers)
    texts = [f"{p}: {result.description.removeprefix(f'{p}: ')}" for p, result in failing.items()]
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


def step_of_checks(stream: str) -> str:
    """Return the name of the step that makes a stream's checks on their own."""
    return f"check_{stream}"


@dataclass(slots=True)
class Checked:
    """What became of checks, beside their results."""

    # The description of each failure of a check that blocks what is downstream, by the check's name
    blocking: dict[str, str] = field(default_factory=dict)
    errors: dict[str, Exception] = field(default_factory=dict)  # why a check could not be made, by its name

    def failure(self) -> UserFailure:
        """Return the failure of a step that only checks."""
        texts = {name: str(error) for name, error in self.errors.items()}
        return _failure(f"{count(len(texts), 'check')} could not be made.", texts)

    def block(self) -> UserFailure:
        """Return the failure of a step that has committed, by which what is downstream does not run."""
        return _failure("The partitions are committed, and what is downstream is blocked.", self.blocking)


def _failure(text: str, of_checks: Mapping[str, str]) -> UserFailure:
    return UserFailure("\n".join([text, *lines_by_text(of_checks, len(of_checks), "")]))


def checked(
    stream: OpenStream,
    asset: dg.AssetKey,
    context: StepContext,
    scope: Scope,
    made: Checked,
    *,
    names: Sequence[str] | None = None,
    also: Sequence[Partition] = (),
) -> Iterator[dg.AssetCheckEvaluation]:
    """Make the checks of a scope, all or those named; yield their results, and note what became of them.

    The instance has the materializations of the scope's commits. A check that cannot be made has a failed result with
    the reason, and the others are made all the same: if a file is gone no query works, and `data_files` names it.
    A check that Dagster has planned for the run is also made for what the run did not commit (`also`): otherwise
    Dagster would show it as skipped there.
    """
    names = tuple(checks_of(stream) if names is None else names)
    evaluator, (in_run, _) = Evaluator(stream, asset, context.instance), planned(context, asset)
    check_run = CheckRun(stream, names, scope, by_partition=True)
    for name in (check for check in names if scope.tried is None or scope.tried or check in in_run):
        of_name = evaluator.of_scope(name, check_run, also if name in in_run else ())
        for evaluation in _results(evaluator, of_name, name, context, made):
            yield evaluation
            if evaluation.blocking and not evaluation.passed:
                made.blocking.setdefault(name, evaluation.description or "")
    if "last_run" not in names:
        yield from evaluator.failed(scope.failed)


def _results(
    evaluator: Evaluator, evaluations: Iterator[dg.AssetCheckEvaluation], name: str, context: StepContext, made: Checked
) -> Iterator[dg.AssetCheckEvaluation]:
    try:
        yield from evaluations
    except LakeAssetsError as error:
        made.errors[name] = error
        context.log.warning(f"Check {name} was not made: {error}")
    except Exception as error:  # what was committed stays, and must be shown
        made.errors[name] = error
        context.log.exception(f"Check {name} was not made")
    if name in made.errors:
        yield evaluator.not_made(name, str(made.errors[name]))


def stream_checks(stream: OpenStream, asset: dg.AssetKey) -> dg.AssetChecksDefinition | None:
    """Return the checks of a stream's asset; None if the config skips them all.

    The step of the asset makes them, of the partitions that it has committed. Executed on their own, they are of the
    whole table. Dagster plans them with a run that a person or a backfill launches, and shows them as in progress until
    its end; the runs of our sensors and schedules leave them out, so that they need no plan.
    """
    names = list(checks_of(stream))
    if not names:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.PreviewWarning)  # of partitions_def
        specs = [_spec(stream, asset, name) for name in names]

    @dg.multi_asset_check(name=step_of_checks(stream.name), specs=specs, can_subset=True)
    def check(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckEvaluation | dg.Output[None]]:
        step, made = context.op_execution_context, Checked()
        in_run, is_refresh = planned(step, asset)
        if not is_refresh:
            yield from checked(stream, asset, step, Scope(), made, names=[name for name in names if name in in_run])
        if made.errors:
            raise failure_or_retry(step, made.failure(), made.errors.values())
        yield from (dg.Output(None, output) for output in step.selected_output_names)

    return check


def _spec(stream: OpenStream, asset: dg.AssetKey, name: str) -> dg.AssetCheckSpec:
    return dg.AssetCheckSpec(
        name,
        asset=asset,
        description=check_description(name, stream),
        blocking=name in stream.config.checks.blocking,
        partitions_def=StreamKeys(stream).definition if is_by_partition(stream, name) else None,
    )
