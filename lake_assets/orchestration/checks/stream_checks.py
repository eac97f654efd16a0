"""The checks of a stream as Dagster's asset checks: in the step that commits, and of whole tables on their own."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import dagster as dg

from lake_assets.checks.check_run import CheckRun, checks_of, describe, is_by_partition
from lake_assets.checks.result import Scope
from lake_assets.errors import LakeAssetsError
from lake_assets.layout.partition import Partition
from lake_assets.layout.texts import count
from lake_assets.orchestration.checks.evaluations import Evaluator
from lake_assets.orchestration.dagster_private import StepContext, UserFailure, checks_in_run, is_refresh, output_of
from lake_assets.orchestration.failed_step import tried_again
from lake_assets.orchestration.metadata import lines_by_text
from lake_assets.orchestration.partition_keys import keys_of
from lake_assets.streams.stream import OpenStream


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
    evaluator, planned = Evaluator(stream, asset, context.instance), checks_in_run(context, asset)
    check_run = CheckRun(stream, names, scope, by_partition=True)
    for name in (each for each in names if scope.tried is None or scope.tried or each in planned):
        of_name = evaluator.of_scope(name, check_run, also if name in planned else ())
        for evaluation in _results(evaluator, of_name, name, context, made):
            yield evaluation
            if evaluation.blocking and not evaluation.passed:
                made.blocking.setdefault(name, evaluation.description or "")
    if "last_run" not in names:
        yield from evaluator.failed(scope.failed)


def _results(
    evaluator: Evaluator,
    evaluations: Iterator[dg.AssetCheckEvaluation],
    name: str,
    context: StepContext,
    made: Checked,
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
        in_run = checks_in_run(step, asset)
        if not is_refresh(step):
            yield from checked(stream, asset, step, Scope(), made, names=[name for name in names if name in in_run])
        for spec in specs:
            if spec.name in in_run and spec.name not in made.errors:
                yield dg.Output(None, output_of(spec))
        if made.errors:
            raise tried_again(step, made.failure(), made.errors.values())

    return check


def _spec(stream: OpenStream, asset: dg.AssetKey, name: str) -> dg.AssetCheckSpec:
    return dg.AssetCheckSpec(
        name,
        asset=asset,
        description=describe(name, stream),
        blocking=name in stream.config.checks.blocking,
        partitions_def=keys_of(stream).definition if is_by_partition(stream, name) else None,
    )
