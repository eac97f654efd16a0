"""Dagster's sensors of alerts: one for each receiver sends failed runs, and one looks for stale streams."""

from collections.abc import Sequence

import dagster as dg

from lake_assets.config.alerts import Alerts
from lake_assets.layout.texts import several
from lake_assets.orchestration.alert_receivers import (
    Alert,
    NotSentError,
    mail_body,
    mail_subject,
    require_slack,
    slack_text,
    to_webhook,
)
from lake_assets.orchestration.dagster_private import OWN_JOB, PARTITION, RANGE_END, RANGE_START
from lake_assets.orchestration.stale_streams import stale_sensor
from lake_assets.streams.stream import OpenStream

FAILURE_TEXT = 2_000  # characters of a run's errors

_Status = dg.DefaultSensorStatus


def alert_sensors(alerts: Alerts | None, streams: Sequence[OpenStream]) -> list[dg.SensorDefinition]:
    """Return the sensors of the config; none without `alerts`.

    Raises:
        MissingExtraError: the config has `alerts.slack`, and its package is not installed.
    """
    if alerts is None:
        return []
    return [*(_failure_sensors(alerts) if alerts.failed_runs else []), stale_sensor(alerts, streams)]


def failed_run(alerts: Alerts, context: dg.RunFailureSensorContext) -> Alert:
    """Return the alert of a failed run."""
    run = context.dagster_run
    assets = tuple(sorted("/".join(key.path) for key in run.asset_selection or ()))
    first, last = run.tags.get(RANGE_START), run.tags.get(RANGE_END)
    partition = run.tags.get(PARTITION) or (f"{first}...{last}" if first else None)
    what = several(assets) if assets else f"the job {run.job_name}"
    texts = [_step_text(event) for event in context.get_step_failure_events()] or [context.failure_event.message or ""]
    shown = "\n".join(dict.fromkeys(texts))
    return Alert(
        kind="run_failed",
        title=f"A run of {what} failed{f' for {partition}' if partition else ''}",
        text=shown if len(shown) <= FAILURE_TEXT else f"{shown[:FAILURE_TEXT]}…",
        job=None if run.job_name == OWN_JOB else run.job_name,
        run=run.run_id,
        assets=assets,
        partition=partition,
        url=None if alerts.ui_url is None else f"{alerts.ui_url.rstrip('/')}/runs/{run.run_id}",
    )


def _step_text(event: dg.DagsterEvent) -> str:
    """Return the text of a step's failure: ours, or the last line of its error."""
    data = event.step_failure_data
    if data.user_failure_data is not None and data.user_failure_data.description:
        return data.user_failure_data.description
    return data.error.message.strip() if data.error is not None else event.message or ""


def _failure_sensors(alerts: Alerts) -> list[dg.SensorDefinition]:
    status = _Status.RUNNING if alerts.status == "running" else _Status.STOPPED
    sensors: list[dg.SensorDefinition] = []
    if alerts.slack is not None:
        require_slack()
        from dagster_slack import make_slack_on_run_failure_sensor  # noqa: PLC0415 - an extra

        def section(context: dg.RunFailureSensorContext) -> list[dict[str, object]]:
            return [{"type": "section", "text": {"type": "mrkdwn", "text": slack_text(failed_run(alerts, context))}}]

        sensors.append(
            make_slack_on_run_failure_sensor(
                alerts.slack.channel,
                alerts.slack.token.get_secret_value(),
                text_fn=lambda context: slack_text(failed_run(alerts, context)),
                blocks_fn=section,
                name=f"{alerts.name}_failed_runs_to_slack",
                default_status=status,
                webserver_base_url=None if alerts.ui_url is None else alerts.ui_url.rstrip("/"),
            )
        )
    if (email := alerts.email) is not None:
        sensors.append(
            dg.make_email_on_run_failure_sensor(
                email.sender,
                email.password.get_secret_value(),
                list(email.to),
                email_body_fn=lambda context: mail_body(failed_run(alerts, context)),
                email_subject_fn=lambda context: mail_subject(failed_run(alerts, context)),
                smtp_host=email.host,
                smtp_type=email.security.upper(),
                smtp_port=email.port,
                smtp_user=email.user,
                name=f"{alerts.name}_failed_runs_to_email",
                default_status=status,
            )
        )
    if (webhook := alerts.webhook) is not None:

        @dg.run_failure_sensor(
            name=f"{alerts.name}_failed_runs_to_webhook",
            description="Sends failed runs to the web server of `alerts.webhook`.",
            default_status=status,
        )
        def failed_runs(context: dg.RunFailureSensorContext) -> None:
            try:
                to_webhook(webhook, failed_run(alerts, context))
            except NotSentError as error:
                raise error.with_traceback(None) from None

        sensors.append(failed_runs)
    return sensors
