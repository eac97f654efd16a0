"""The checks of a stream as Dagster's asset checks: after each refresh, and whenever somebody runs them alone."""

from collections.abc import Iterator

import dagster as dg

from lake_assets.checks.result import CheckResult, Scope
from lake_assets.checks.run import checks_of, describe, run_check, scope_of_run
from lake_assets.errors import LakeAssetsError
from lake_assets.orchestration.metadata import Metadata, markdown
from lake_assets.orchestration.schedules import RANGE_START
from lake_assets.stream import OpenStream

PARTITION = "dagster/partition"


def stream_checks(stream: OpenStream) -> dg.AssetChecksDefinition | None:
    """All checks of a stream, as one step; None where the config skips them all.

    After a refresh they look at the partitions of that run; alone, at the whole table. One that the config names as
    blocking keeps the assets downstream from running.
    """
    names = list(checks_of(stream))
    if not names:
        return None
    specs = [
        dg.AssetCheckSpec(
            name,
            asset=stream.name,
            description=describe(name, stream),
            blocking=name in stream.config.checks.blocking,
        )
        for name in names
    ]

    @dg.multi_asset_check(name=f"check_{stream.name}", specs=specs, can_subset=True)
    def check(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        tags = context.run.tags
        of_run = any(tag == RANGE_START or tag.startswith(PARTITION) for tag in tags)
        scope = _scope(stream, context) if of_run else Scope()
        selected = {key.name for key in context.op_execution_context.selected_asset_check_keys}
        for name in names:
            if name in selected:
                found = run_check(stream, name, scope)
                yield dg.AssetCheckResult(
                    asset_key=stream.name,
                    check_name=name,
                    passed=found.passed,
                    severity=_severity(stream, found),
                    description=found.description,
                    metadata=_metadata(found),
                )

    return check


def _scope(stream: OpenStream, context: dg.AssetCheckExecutionContext) -> Scope:
    """What the run refreshed; if it is one that does only the rest of a run that failed, what that one refreshed."""
    run: dg.DagsterRun | None = context.run
    while run is not None:
        scope = scope_of_run(stream, run.run_id)
        if scope.partitions:
            return scope
        run = context.instance.get_run_by_id(run.parent_run_id) if run.parent_run_id else None
    return Scope(context.run.run_id, ())


def evaluations_of_failed_run(
    stream: OpenStream, context: dg.AssetExecutionContext
) -> Iterator[dg.AssetCheckEvaluation]:
    """The checks of what a run committed that fails all the same, for then Dagster does not begin their own step.

    One that cannot be made is in the log.
    """
    in_run = {key.name for key in context.job_def.asset_layer.asset_graph.asset_check_keys}
    names = [name for name in checks_of(stream) if name in in_run]
    for name in names:
        try:
            found = run_check(stream, name, scope_of_run(stream, context.run.run_id))
        except LakeAssetsError as error:
            context.log.warning(f"Check {name} was not made: {error}")
            continue
        except Exception:  # whatever it is, the run's own failure is what must be seen
            context.log.exception(f"Check {name} was not made")
            continue
        yield dg.AssetCheckEvaluation(
            asset_key=context.asset_key,
            check_name=name,
            passed=found.passed,
            metadata=_metadata(found),
            severity=_severity(stream, found),
            description=found.description,
            blocking=name in stream.config.checks.blocking,
        )


def _severity(stream: OpenStream, found: CheckResult) -> dg.AssetCheckSeverity:
    is_error = found.severity == "error" or found.name in stream.config.checks.blocking
    return dg.AssetCheckSeverity.ERROR if is_error else dg.AssetCheckSeverity.WARN


def _metadata(found: CheckResult) -> Metadata:
    metadata: Metadata = {name: dg.MetadataValue.int(number) for name, number in found.numbers.items()}
    if found.named:
        metadata["named"] = dg.MetadataValue.md("\n".join(f"- {markdown(text)}" for text in found.named))
    return metadata
