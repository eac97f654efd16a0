"""A Dagster job and a schedule for each stream with a buffer: upload the pending batches."""

import dagster as dg

from lake_assets.orchestration.queued_runs import unless_queued
from lake_assets.streams.stream import OpenStream


def drain_schedule(stream: OpenStream) -> dg.ScheduleDefinition | None:
    """The schedule, with its job `drain_<stream>`, that uploads the stream's buffer; None if the stream has none.

    It is on from the start. Dagster must run on the machine that has the buffer. If an output is away, or batches have
    expired, the run fails with the reason; the batches stay.
    """
    options = stream.config.landing
    if options is None or options.buffer is None:
        return None

    @dg.op(name=f"drain_{stream.name}_buffer", description="Uploads the batches in the landing buffer, oldest first.")
    def upload(context: dg.OpExecutionContext) -> None:
        from lake_assets.landing.drain import drain  # noqa: PLC0415 - a wing

        drained = drain(stream.name, stream.config)
        context.log.info(
            f"{drained.uploaded:,} uploaded, {drained.pending:,} pending, {drained.deleted:,} deleted after retention"
        )
        problems = list(drained.errors)
        if drained.expired:
            problems.append(
                f"{drained.expired:,} batches have been pending for longer than the retention of "
                f"{options.buffer.retention_days if options.buffer else 0:g} days; they are kept."
            )
        if problems:
            # The next tick of the schedule is the retry.
            raise dg.Failure("\n".join(problems), allow_retries=False)

    @dg.job(name=f"drain_{stream.name}", description=f"Upload the batches in the landing buffer of {stream.name}.")
    def job() -> None:
        upload()

    schedule = f"drain_{stream.name}_schedule"
    return dg.ScheduleDefinition(
        name=schedule,
        execution_fn=unless_queued(schedule),
        job=job,
        cron_schedule=options.drain,
        execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.RUNNING,
    )
