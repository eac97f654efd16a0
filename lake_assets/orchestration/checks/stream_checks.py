"""The checks of a stream as Dagster's asset checks: after each refresh, and on their own."""

import datetime as dt
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from threading import Lock

import dagster as dg

from lake_assets.checks.check_run import CheckRun, checks_of, describe, is_by_partition, scope_of_run
from lake_assets.checks.result import Scope
from lake_assets.errors import LakeAssetsError
from lake_assets.layout.partition import Partition
from lake_assets.layout.texts import count
from lake_assets.orchestration.checks.evaluations import Evaluator, step_of_checks
from lake_assets.orchestration.dagster_private import (
    UserFailure,
    cancel_checks,
    checks_in_run,
    is_refresh,
    keys_of_run,
    output_of,
    repeated_result,
    selected_checks,
)
from lake_assets.orchestration.failed_step import tried_again
from lake_assets.orchestration.metadata import lines_by_text
from lake_assets.orchestration.partition_keys import keys_of
from lake_assets.remote.messages import OBJECTS
from lake_assets.streams.stream import OpenStream

_CLOCKS = dt.timedelta(days=1)  # more than two machines' clocks differ by

HANDED_ON = 16  # scopes of runs that are kept at most: the checks of a run may never be made

Events = Iterator[dg.AssetCheckEvaluation | dg.Output[None]]


def stream_checks(stream: OpenStream, asset: dg.AssetKey) -> dg.AssetChecksDefinition | None:
    """Return all checks of a stream's asset as one step; None if the config skips them all.

    After a refresh they check the partitions of that run; on their own, the whole table. If a check that the config
    names as blocking fails, assets downstream do not run.
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
        check_run = CheckRun(stream, tuple(left), scope, by_partition=True)
        errors: dict[str, LakeAssetsError] = {}
        try:
            for spec in wanted:
                try:
                    yield from evaluator.of_scope(spec.name, check_run)
                except LakeAssetsError as error:
                    # The others are made all the same: if a file is gone no query works, and `data_files` names it.
                    errors[spec.name] = error
                left.remove(spec.name)
                if spec.name in errors:
                    continue
                # Dagster makes this output itself from an `AssetCheckResult`, which cannot name a partition.
                yield dg.Output(None, output_of(spec))
        except dg.DagsterExecutionInterruptedError:
            for name in left:
                yield from evaluator.not_run(name)
            raise
        if errors:
            lines = lines_by_text({name: str(error) for name, error in errors.items()}, len(errors), "")
            failure = UserFailure("\n".join([f"{count(len(errors), 'check')} could not be made.", *lines]))
            raise tried_again(context.op_execution_context, failure, errors.values())

    return check


def _spec(stream: OpenStream, asset: dg.AssetKey, name: str) -> dg.AssetCheckSpec:
    return dg.AssetCheckSpec(
        name,
        asset=asset,
        description=describe(name, stream),
        blocking=name in stream.config.checks.blocking,
        partitions_def=keys_of(stream).definition if is_by_partition(stream, name) else None,
    )


def _scope(stream: OpenStream, context: dg.AssetCheckExecutionContext, keys: Sequence[str]) -> Scope:
    """Return the partitions that the run refreshed.

    If the run is the rest of a failed run, these are the failed run's. If it has only checks, they are the partitions
    that it was launched for.
    """
    run: dg.DagsterRun | None = context.run
    while run is not None:
        scope = take_scope(stream.name, run.run_id) or scope_of_run(
            stream, run.run_id, _began(context.instance, run.run_id)
        )
        if scope.partitions:
            return scope
        run = context.instance.get_run_by_id(run.parent_run_id) if run.parent_run_id else None
    if is_refresh(context):
        return Scope(context.run.run_id, ())
    of_stream = keys_of(stream)
    return Scope(None, tuple(partition for key in keys for partition in of_stream.partitions(key)))


def _began(instance: dg.DagsterInstance, run_id: str) -> dt.datetime | None:
    """Return a time before the run's first row in the ledger; None if the run is unknown."""
    record = instance.get_run_record_by_id(run_id)
    if record is None or record.start_time is None:
        return None
    return dt.datetime.fromtimestamp(record.start_time, dt.UTC) - _CLOCKS


def evaluations_of_failed_run(
    stream: OpenStream, context: dg.AssetExecutionContext, scope: Scope
) -> Iterator[dg.AssetCheckEvaluation]:
    """Yield the checks after a run with failed partitions; Dagster does not start their own step then.

    A check that cannot be made is logged.
    """
    evaluator = _evaluator(stream, context)
    has_last_run = False
    names = _in_run(stream, context)
    check_run = CheckRun(stream, names, scope, by_partition=True)
    for name in names:
        try:
            yield from evaluator.of_scope(name, check_run)
            yield from evaluator.nothing_to_check(name)
            has_last_run = has_last_run or name == "last_run"
        except LakeAssetsError as error:
            context.log.warning(f"Check {name} was not made: {error}")
            yield from evaluator.not_run(name)
        except Exception:  # the run's own failure must be shown
            context.log.exception(f"Check {name} was not made")
            yield from evaluator.not_run(name)
    if not has_last_run:
        yield from evaluator.failed(scope.failed)


def evaluations_of_commits(
    stream: OpenStream,
    asset: dg.AssetKey,
    instance: dg.DagsterInstance,
    run_id: str,
    scope: Scope,
    warn: Callable[[str], None],
) -> Iterator[dg.AssetCheckEvaluation]:
    """Check partitions whose commits no run of the asset made: a restore, a job, the command line.

    The instance has the earlier results, and the materializations of these commits. `run_id` is of the run that reports
    them; empty if none does. `warn` is called with the reason why a check was not made.
    """
    names = tuple(checks_of(stream))
    keys = list(dict.fromkeys(map(keys_of(stream).of, scope.tried or ())))
    evaluator = Evaluator(stream, asset, instance, run_id, keys)
    check_run = CheckRun(stream, names, scope, by_partition=True)
    for name in names if keys else ():
        free = set(evaluator.free(name, [*keys, None]))  # another run is about to check the others
        try:
            for evaluation in evaluator.of_scope(name, check_run):
                if evaluation.partition in free:
                    yield repeated_result(evaluation, {})  # which blocks nothing: the run ends as its commits did
        except LakeAssetsError as error:
            warn(f"Check {name} was not made: {error}")


def evaluations_of_cancelled_run(
    stream: OpenStream, context: dg.AssetExecutionContext, done: Iterable[str]
) -> Iterator[dg.AssetCheckEvaluation]:
    """Yield the earlier results after a cancelled run that has committed these keys; nothing is read."""
    evaluator = _evaluator(stream, context)
    begun: Mapping[Partition, str] = {}
    try:
        run_id = context.run.run_id
        begun = scope_of_run(stream, run_id, _began(context.instance, run_id)).failed
    except LakeAssetsError as error:
        context.log.warning(f"The ledger could not be read: {error}")
    yield from evaluator.failed(begun)
    for name in _in_run(stream, context):
        failed = map(keys_of(stream).of, begun) if name == "last_run" else ()
        yield from evaluator.not_run(name, [*done, *failed])


def evaluations_of_idle_run(stream: OpenStream, context: dg.AssetExecutionContext) -> Iterator[dg.AssetCheckEvaluation]:
    """Yield the earlier results after a run that left out all its partitions; Dagster skips the checks then."""
    evaluator = _evaluator(stream, context)
    for name in _in_run(stream, context):
        yield from evaluator.not_run(name)
    cancel_checks(context.instance, context.asset_key, context.run.run_id)


def _evaluator(stream: OpenStream, context: dg.AssetExecutionContext) -> Evaluator:
    return Evaluator(stream, context.asset_key, context.instance, context.run.run_id, context.partition_keys)


def _in_run(stream: OpenStream, context: dg.AssetExecutionContext) -> list[str]:
    in_run = checks_in_run(context)
    return [name for name in checks_of(stream) if name in in_run]


# What the ingest of a run hands on to the checks of the same run: its results, with the listings. Dagster runs both as
# two steps. They share a process with the in-process executor, which is this package's default. With another executor
# the checks find nothing here: they read the run's partitions from the ledger and list these again.

_lock = Lock()
_scopes: OrderedDict[tuple[str, str], Scope] = OrderedDict()


def hand_on_scope(stream: str, scope: Scope) -> None:
    """Keep the scope of a run of a stream until its checks take it."""
    if scope.run_id is None or sum(len(result.manifest.objects) for result in scope.results.values()) > OBJECTS:
        return
    with _lock:
        _scopes[scope.run_id, stream] = scope
        while len(_scopes) > HANDED_ON:
            _scopes.popitem(last=False)


def take_scope(stream: str, run_id: str) -> Scope | None:
    """Return the scope of a run of a stream, once; None if its ingest did not end in this process."""
    with _lock:
        return _scopes.pop((run_id, stream), None)
