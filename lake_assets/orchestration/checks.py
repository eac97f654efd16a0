"""The checks of a stream as Dagster's asset checks: after each refresh, and whenever somebody runs them alone."""

import warnings
from collections.abc import Iterable, Iterator, Sequence

import dagster as dg

from lake_assets.checks.result import Scope
from lake_assets.checks.run import checks_of, describe, is_by_partition, scope_of_run
from lake_assets.errors import LakeAssetsError
from lake_assets.layout.partition import Partition
from lake_assets.orchestration.dagster_private import (
    checks_in_run,
    is_refresh,
    keys_of_run,
    output_of,
    selected_checks,
)
from lake_assets.orchestration.evaluations import Evaluator, step_of_checks
from lake_assets.orchestration.partitions import partition_key, partition_of, partitions_definition
from lake_assets.streams.stream import OpenStream

Events = Iterator[dg.AssetCheckEvaluation | dg.Output[None]]


def stream_checks(stream: OpenStream, asset: dg.AssetKey) -> dg.AssetChecksDefinition | None:
    """All checks of a stream's asset, as one step; None where the config skips them all.

    After a refresh they look at the partitions of that run; alone, at the whole table. One that the config names as
    blocking keeps the assets downstream from running.
    """
    names = list(checks_of(stream))
    if not names:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.PreviewWarning)  # of partitions_def
        specs = [_spec(stream, asset, name) for name in names]

    @dg.multi_asset_check(name=step_of_checks(stream.name), specs=specs, can_subset=True)
    def check(context: dg.AssetCheckExecutionContext) -> Events:
        keys = keys_of_run(context)
        scope = _scope(stream, context, keys) if keys is not None else Scope()
        evaluator = Evaluator(stream, asset, context.instance, context.run.run_id, keys or ())
        selected = selected_checks(context)
        wanted = [spec for spec in specs if spec.name in selected]
        left = [spec.name for spec in wanted]
        try:
            for spec in wanted:
                yield from evaluator.of_scope(spec.name, scope)
                left.remove(spec.name)
                # What Dagster makes of an `AssetCheckResult` by itself, which cannot name a partition.
                yield dg.Output(None, output_of(spec))
        except dg.DagsterExecutionInterruptedError:
            for name in left:
                yield from evaluator.not_run(name)
            raise

    return check


def _spec(stream: OpenStream, asset: dg.AssetKey, name: str) -> dg.AssetCheckSpec:
    return dg.AssetCheckSpec(
        name,
        asset=asset,
        description=describe(name, stream),
        blocking=name in stream.config.checks.blocking,
        partitions_def=partitions_definition(stream) if is_by_partition(stream, name) else None,
    )


def _scope(stream: OpenStream, context: dg.AssetCheckExecutionContext, keys: Sequence[str]) -> Scope:
    """What the run refreshed.

    If the run does only the rest of a run that failed, it is what that one refreshed; if it is of the checks alone, it
    is the partitions that it was launched for.
    """
    run: dg.DagsterRun | None = context.run
    while run is not None:
        scope = scope_of_run(stream, run.run_id)
        if scope.partitions:
            return scope
        run = context.instance.get_run_by_id(run.parent_run_id) if run.parent_run_id else None
    if is_refresh(context):
        return Scope(context.run.run_id, ())
    return Scope(None, tuple(partition_of(stream.config.columns, key) for key in keys))


def evaluations_of_failed_run(
    stream: OpenStream, context: dg.AssetExecutionContext, scope: Scope
) -> Iterator[dg.AssetCheckEvaluation]:
    """The checks after a run of which some partitions failed, for then Dagster does not begin their own step.

    One that cannot be made is in the log.
    """
    evaluator = _evaluator(stream, context)
    is_told = False
    for name in _in_run(stream, context):
        try:
            yield from evaluator.of_scope(name, scope)
            is_told = is_told or name == "landing_zone"
        except LakeAssetsError as error:
            context.log.warning(f"Check {name} was not made: {error}")
            yield from evaluator.not_run(name)
        except Exception:  # whatever it is, the run's own failure is what must be seen
            context.log.exception(f"Check {name} was not made")
            yield from evaluator.not_run(name)
    if not is_told:
        yield from evaluator.failed(scope.failed)


def evaluations_of_cancelled_run(
    stream: OpenStream, context: dg.AssetExecutionContext, done: Iterable[str]
) -> Iterator[dg.AssetCheckEvaluation]:
    """What is still known after a run that was cancelled, of whose partitions these keys are done: nothing is read."""
    evaluator = _evaluator(stream, context)
    begun: tuple[Partition, ...] = ()
    try:
        begun = scope_of_run(stream, context.run.run_id).failed
    except LakeAssetsError as error:
        context.log.warning(f"The ledger could not be read: {error}")
    yield from evaluator.failed(begun)
    for name in _in_run(stream, context):
        told = map(partition_key, begun) if name == "landing_zone" else ()
        yield from evaluator.not_run(name, [*done, *told])


def evaluations_of_idle_run(stream: OpenStream, context: dg.AssetExecutionContext) -> Iterator[dg.AssetCheckEvaluation]:
    """What is still known after a run that passed all its partitions over, for then Dagster skips the checks."""
    evaluator = _evaluator(stream, context)
    for name in _in_run(stream, context):
        yield from evaluator.not_run(name)


def _evaluator(stream: OpenStream, context: dg.AssetExecutionContext) -> Evaluator:
    return Evaluator(stream, context.asset_key, context.instance, context.run.run_id, context.partition_keys)


def _in_run(stream: OpenStream, context: dg.AssetExecutionContext) -> list[str]:
    in_run = checks_in_run(context)
    return [name for name in checks_of(stream) if name in in_run]
