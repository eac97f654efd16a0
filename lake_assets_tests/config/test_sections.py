"""The sections of a config and of a stream: alerts, maintenance, sensors, schedules, freshness."""

import re

import pytest

from lake_assets.api import open_stream
from lake_assets.base.errors import ConfigError
from lake_assets.config.sections import ObjectSensor, SqsSensor
from lake_assets.orchestration.assets.stream_asset import stream_asset
from lake_assets.orchestration.translator import specs_of
from lake_assets.streams.load import parse_config
from lake_assets_tests.config.test_load import FILE, GOOD, parsed, refused

HOOK = "teams: {url: 'https://hooks.example.com/x'}"
URL = "https://sqs.eu-central-1.amazonaws.com/123456789012/landing"
SQS = f"type: sqs, queue_url: '{URL}'"


def with_section(section: str, keys: str) -> str:
    """A config with this section of the config, the lake or the stream."""
    match section:
        case "alerts":
            return f"{GOOD}alerts: {{{keys}}}\n"
        case "maintenance":
            return GOOD.replace("storage: data", f"storage: data\n    maintenance: {{{keys}}}")
        case _:
            return f"{GOOD}    {section}: {{{keys}}}\n"


def test_one_receiver_of_alerts_is_enough_and_each_rule_of_maintenance_has_a_default() -> None:
    alerts = parse_config(with_section("alerts", HOOK), FILE, {}).alerts
    rules = parsed(with_section("maintenance", "")).lakes["retail"].maintenance

    assert alerts is not None
    assert (alerts.stale_hours, alerts.interval, alerts.name, alerts.status) == (6, 300, "alerts", "running")
    assert rules is not None
    assert (rules.expire_older_than, rules.delete_older_than, rules.orphans_older_than, rules.compact) == (7, 1, 3, 10)


def test_secrets_of_alerts_come_from_the_environment_and_are_not_shown() -> None:
    keys = (
        "teams: {url: '${HOOK}'}, slack: {channel: '#lake', token: '${KEY}'}, "
        "email: {to: [a@example.com], from: b@example.com, host: smtp.example.com, password: '${KEY}'}"
    )
    environment = {"HOOK": "https://hooks.example.com/part-of-the-url", "KEY": "hunter2"}
    config = parse_config(with_section("alerts", keys), FILE, environment)

    assert config.alerts is not None
    assert config.alerts.teams is not None
    assert config.alerts.teams.url.get_secret_value() == environment["HOOK"]
    for secret in ("hunter2", "part-of-the-url"):
        assert secret not in repr(config) + config.model_dump_json()


def test_a_sensor_of_objects_needs_no_key() -> None:
    sensor = parsed(with_section("sensor", "")).streams["sales"].sensor

    assert isinstance(sensor, ObjectSensor)
    assert parsed(with_section("sensor", "type: objects")).streams["sales"].sensor == sensor
    assert (sensor.interval, sensor.max_runs, sensor.group_runs, sensor.lookback) == (None, 25, 250, 2)
    assert sensor.status == "running"


def test_notifications_come_from_s3_only_and_their_secrets_are_not_shown() -> None:
    secrets = f"{SQS}, key_id: a, secret: hush, session_token: hush"
    config = parsed(with_section("sensor", SQS))

    assert isinstance(config.streams["sales"].sensor, SqsSensor)
    assert "hush" not in repr(parse_config(with_section("sensor", secrets), FILE, {}))
    for source in ("landing", "gs://landing", "r2://account/landing"):
        text = with_section("sensor", SQS).replace("s3://landing/sales", source)
        assert "use type objects here" in refused(text)


@pytest.mark.parametrize(
    ("section", "keys", "error"),
    [
        ("alerts", "", "alerts: alerts have no receiver: give slack, email or teams"),
        (
            "alerts",
            "teams: {url: example.com}",
            "alerts.teams.url: is not the URL of a web server: begin it with https://",
        ),
        (
            "alerts",
            "webhook: {url: https://a.example.com}",
            "webhook: .*: use slack, email or teams, or a run_f",
        ),
        ("alerts", 'teams: {url: "http://a/\\r\\nX: 1"}', "alerts.teams.url: has a line break"),
        ("alerts", f"{HOOK}, stale_hours: 0", "alerts.stale_hours: 0 hours is outside"),
        ("alerts", f"{HOOK}, name: a-b", "alerts.name: 'a-b' is not an identifier"),
        ("alerts", 'email: {to: ["a@b.c\\nBcc: x@y.z"], from: f@b.c, host: h, password: p}', "email.to.*line break"),
        ("maintenance", "expire_older_than: 0", "maintenance.expire_older_than: must be more than 0: write a greater"),
        ("maintenance", "orphans_older_than: 0.1", "maintenance.orphans_older_than: must be 0.5 or more"),
        ("maintenance", "time_zone: Mars", "maintenance.time_zone: there is no time zone 'Mars'"),
        (
            "maintenance",
            "cron: hourly",
            "maintenance.cron: 'hourly' is not a cron schedule of five fields: write minute,",
        ),
        ("maintenance", "cron: 0 0 30 2 *", r"maintenance.cron: '0 0 30 2 \*' names a day that does not exist"),
        ("maintenance", "cron: 0 0 15W * *", "cron: '0 0 15W .* nearest weekday .W., which Dagster does not support"),
        ("freshness", "fail_hours: 1, warn_hours: 0.016", r"hours is outside 0\.017"),
        ("freshness", "fail_hours: .nan", r"hours is outside 0\.017"),
    ],
)
def test_a_wrong_value_is_named(section: str, keys: str, error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        parse_config(with_section(section, keys), FILE, {})


@pytest.mark.parametrize("keys", ["fail_hours: 0.0334, warn_hours: 0.016666666666666666", "fail_hours: 876000"])
def test_an_age_that_is_taken_is_one_that_dagster_takes(keys: str) -> None:
    asset = stream_asset(specs_of(open_stream(parsed(with_section("freshness", keys)), "sales")))

    assert next(iter(asset.specs)).freshness_policy is not None


def test_a_lookback_that_is_written_needs_a_clock_also_with_the_value_of_the_default() -> None:
    text = re.sub(r"      date: .*\n", "", GOOD)

    assert parse_config(f"{text}    schedule: {{cron: '@daily'}}\n", FILE, {}).streams["sales"].schedule is not None
    for lookback in (1, 2):
        error = refused(f"{text}    schedule: {{cron: '@daily', lookback: {lookback}}}\n")
        assert "schedule.lookback counts days or hours" in error
