"""The keys of `alerts`."""

from pathlib import Path

import pytest

from lake_assets.config.load import parse_config
from lake_assets.config.models import LakeConfig
from lake_assets.errors import ConfigError

CONFIG = """
lakes: {l: {catalog: {type: sqlite, path: c.sqlite}, storage: data}}
streams:
  s: {source: landing, partitions: {region: {}}, destination: {table: t}}
alerts: {ALERTS}
"""
HOOK = "webhook: {url: 'https://hooks.example.com/x'}"


def parsed(alerts: str, **environment: str) -> LakeConfig:
    return parse_config(CONFIG.replace("{ALERTS}", alerts), Path("lake.yaml"), environment)


def test_one_receiver_is_enough() -> None:
    alerts = parsed(f"{{{HOOK}}}").alerts

    assert alerts is not None
    assert (alerts.stale_hours, alerts.interval, alerts.name, alerts.status) == (6, 300, "alerts", "running")


def test_secrets_come_from_the_environment_and_are_not_shown() -> None:
    config = parsed(
        "{webhook: {url: '${HOOK}', authorization: 'Bearer ${KEY}'}, slack: {channel: '#lake', token: '${KEY}'}, "
        "email: {to: [a@example.com], from: b@example.com, host: smtp.example.com, password: '${KEY}'}}",
        HOOK="https://hooks.example.com/part-of-the-url",
        KEY="hunter2",
    )

    assert config.alerts is not None
    assert config.alerts.webhook is not None
    assert config.alerts.webhook.url.get_secret_value() == "https://hooks.example.com/part-of-the-url"
    for secret in ("hunter2", "part-of-the-url"):
        assert secret not in repr(config) + config.model_dump_json()


@pytest.mark.parametrize(
    ("alerts", "error"),
    [
        ("{}", "alerts: alerts have no receiver: give slack, email or webhook"),
        ("{webhook: {url: example.com}}", "alerts.webhook: url is no URL of a web server: begin it with https://"),
        ('{webhook: {url: "http://a/\\r\\nX: 1"}}', "alerts.webhook: url has a line break"),
        (f"{{{HOOK}, stale_hours: 0}}", "alerts.stale_hours: 0 hours is outside"),
        (f"{{{HOOK}, interval: 1}}", "alerts.interval: must be 30 or more"),
        (f"{{{HOOK}, name: a-b}}", "alerts.name: 'a-b' is not an identifier"),
        (
            '{email: {to: ["a@b.c\\nBcc: x@y.z"], from: f@b.c, host: h, password: p}}',
            r"alerts.email.to.*line break",
        ),
        ("{email: {to: [], from: f@b.c, host: h, password: p}}", "alerts.email.to"),
    ],
)
def test_a_wrong_value_is_named(alerts: str, error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        parsed(alerts)
