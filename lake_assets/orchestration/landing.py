"""A Dagster job and a schedule for each stream with a buffer: upload what is still pending."""

import dagster as dg

from lake_assets.landing.drain import drain
from lake_assets.streams.stream import OpenStream


def drain_schedule(stream: OpenStream) -> dg.ScheduleDefinition | None:
    """The schedule, with its job `drain_<stream>`, that empties the stream's buffer; None where there is none.

    It runs as soon as the location is loaded. Dagster must run on the machine that has the buffer. A run that finds an
    output away, or expired batches, fails with the reason, so that it is seen; the batches stay.
    """
    options = stream.config.landing
    if options is None or options.buffer is None:
        return None

    @dg.op(name=f"drain_{stream.name}_buffer", description="Uploads what the landing buffer holds, oldest first.")
    def upload(context: dg.OpExecutionContext) -> None:
        drained = drain(stream.name, stream.config)
        context.log.info(
            f"{drained.uploaded:,} uploaded, {drained.pending:,} pending, {drained.deleted:,} deleted after retention"
        )
        problems = list(drained.errors)
        if drained.expired:
            problems.append(
                f"{drained.expired:,} batches have waited longer than the retention of "
                f"{options.buffer.retention_days if options.buffer else 0:g} days; they are kept."
            )
        if problems:
            # The next tick of the schedule is the retry.
            raise dg.Failure("\n".join(problems), allow_retries=False)

    @dg.job(name=f"drain_{stream.name}", description=f"Upload what the landing buffer of {stream.name} holds.")
    def job() -> None:
        upload()

    return dg.ScheduleDefinition(
        name=f"drain_{stream.name}_schedule",
        job=job,
        cron_schedule=options.drain,
        execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.RUNNING,
    )
