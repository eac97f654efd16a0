"""The receivers of alerts: a Slack channel, mail addresses, a web server. Texts of others are escaped for each."""

import html
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Literal

import requests

from lake_assets.config.alerts import Alerts, Email, Slack, Webhook
from lake_assets.config.secrets import masked
from lake_assets.errors import LakeAssetsError, MissingExtraError, install
from lake_assets.escapes import visible, visible_name
from lake_assets.orchestration.dagster_private import send_mail
from lake_assets.retrying import Limit, pause_from, retry

Kind = Literal["run_failed", "stale", "not_refreshed", "unreadable", "recovered"]

_SLACK_TEXT = 2_900  # characters of one section; Slack refuses more than 3,000
_RETRIES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One alarm, or the end of one.

    Attributes:
        kind: what happened.
        title: one line.
        text: what is wrong, and what to do.
        stream: of the landing zone; None if a run failed.
        assets: their keys, as Dagster shows them.
        partition: the run's partition, or its first and last one.
    """

    kind: Kind
    title: str
    text: str
    stream: str | None = None
    job: str | None = None
    run: str | None = None
    assets: tuple[str, ...] = ()
    partition: str | None = None
    url: str | None = None

    @property
    def fields(self) -> dict[str, str | tuple[str, ...]]:
        """The attributes that apply, for programs."""
        return {"source": "lake-assets"} | {name: value for name, value in asdict(self).items() if value}


class NotSentError(LakeAssetsError):
    """An alert was not sent; the text has no secret."""


def receivers(alerts: Alerts) -> dict[str, Callable[[Alert], None]]:
    """Return the functions that send an alert, by the receiver's key in the config.

    They raise `NotSentError`.
    """
    senders: dict[str, Callable[[Alert], None]] = {}
    if alerts.slack is not None:
        try:
            import dagster_slack  # noqa: F401, PLC0415 - an extra
        except ImportError as error:
            raise MissingExtraError("alerts.slack needs dagster-slack:", f"{install('slack')}.") from error
        senders["slack"] = partial(_to_slack, alerts.slack)
    if alerts.email is not None:
        senders["email"] = partial(_to_mail, alerts.email)
    if alerts.webhook is not None:
        senders["webhook"] = partial(_to_webhook, alerts.webhook)
    return senders


def slack_text(alert: Alert) -> str:
    """The alert for Slack; marks of mentions and links are escaped, so that no text of others notifies a channel."""
    return f"*{_for_slack(visible_name(alert.title))}*\n{_for_slack(visible(alert.text))}"[:_SLACK_TEXT]


def _for_slack(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def mail_subject(alert: Alert) -> str:
    """Return the subject: one line of ASCII."""
    return visible_name(alert.title).encode("ascii", "backslashreplace").decode()


def mail_body(alert: Alert) -> str:
    """Return the body as HTML: ASCII, with references for all other characters."""
    link = f'<p><a href="{html.escape(alert.url)}">The run in Dagster</a></p>' if alert.url else ""
    shown = f"<p>{html.escape(visible_name(alert.title))}</p><pre>{html.escape(visible(alert.text))}</pre>{link}"
    return shown.encode("ascii", "xmlcharrefreplace").decode()


def _to_webhook(webhook: Webhook, alert: Alert) -> None:
    """Send the alert as a JSON object; a server that is away or fails is tried again. Raises NotSentError."""
    try:
        retry(
            lambda: _post(webhook, alert),
            transient=_UnavailableError,
            limit=Limit(retries=_RETRIES),
            pause=pause_from(0.2, 2),
        )
    except (_UnavailableError, requests.RequestException) as error:
        raise NotSentError(
            f"the alert was not sent to alerts.webhook: {masked(str(error), webhook)}:",
            "correct url or authorization of alerts.webhook, or start its server.",
        ) from None  # its text has the URL


class _UnavailableError(Exception):
    """The server did not answer, or failed: a transient error."""


def _post(webhook: Webhook, alert: Alert) -> None:
    headers = {"Authorization": webhook.authorization.get_secret_value()} if webhook.authorization else {}
    url = webhook.url.get_secret_value()
    try:
        # A redirected POST would become a GET, or send the header elsewhere.
        answer = requests.post(url, json=alert.fields, headers=headers, timeout=webhook.timeout, allow_redirects=False)
    except (requests.ConnectionError, requests.Timeout) as error:
        raise _UnavailableError(type(error).__name__) from None
    if answer.status_code >= 500 or answer.status_code == requests.codes.too_many_requests:
        raise _UnavailableError(f"the server answered {answer.status_code}")
    if not 200 <= answer.status_code < 300:
        raise requests.RequestException(f"the server answered {answer.status_code}")


def _to_slack(slack: Slack, alert: Alert) -> None:
    from dagster_slack import SlackResource  # noqa: PLC0415 - an extra

    client, text = SlackResource(token=slack.token.get_secret_value()).get_client(), slack_text(alert)
    blocks: list[dict[str, object]] = [{"type": "section", "text": {"type": "mrkdwn", "text": text}}]
    if alert.url is not None:
        label = {"type": "plain_text", "text": "View in Dagster UI"}
        blocks.append({"type": "actions", "elements": [{"type": "button", "text": label, "url": alert.url}]})
    try:
        client.chat_postMessage(channel=slack.channel, text=text, blocks=blocks)
    except Exception as error:  # noqa: BLE001 - of Slack's client, and of urllib below it
        text = f"the alert was not sent to alerts.slack: {masked(str(error), slack)}:"
        raise NotSentError(text, "correct token or channel of alerts.slack.") from None


def _to_mail(email: Email, alert: Alert) -> None:
    try:
        send_mail(email, mail_subject(alert), mail_body(alert))
    except OSError as error:  # smtplib's errors among them
        text = f"the alert was not sent to alerts.email: {type(error).__name__}: {masked(str(error), email)}:"
        raise NotSentError(text, "correct alerts.email, or start the mail server.") from None
