"""Alerts: what each receiver gets of failed runs, also of those that fail for stale streams, by real servers."""

import datetime as dt
import json
import os
import re
import smtplib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import dagster as dg
import pytest
import requests
import slack_sdk.web.base_client
from requests.exceptions import RequestException
from slack_sdk.errors import SlackApiError
from slack_sdk.web.base_client import BaseClient

from dev.servers.inbox import Inbox, Letter, inbox
from dev.servers.mail import PASSWORD, MailServer, mail_server
from lake_assets.base.errors import MissingExtraError
from lake_assets.config.models import LakeConfig
from lake_assets.orchestration.assets.stream_asset import stream_asset
from lake_assets.orchestration.build import build_definitions
from lake_assets.orchestration.resources import pyspark_resource
from lake_assets.orchestration.sensors import alert_sensors as look_ups
from lake_assets.orchestration.sensors.alert_sensors import alert_sensors
from lake_assets.orchestration.translator import specs_of
from lake_assets.streams.detection.cursor import packed, unpacked
from lake_assets.streams.pending import lag_of
from lake_assets.streams.stream import open_streams
from lake_assets_tests.orchestration.in_process import REGIONS
from lake_assets_tests.orchestration.instances import in_memory
from lake_assets_tests.orchestration.ticks import Clock
from lake_assets_tests.world import NW, World, sales

__all__ = ["inbox", "mail_server"]

TOKEN = "xoxb-the-token"
HOSTILE = "[a link](https://x.example.com) <!channel> & <script>alert(1)</script> é\r\nBcc: x@example.com\u202e\x1b[2J"


@pytest.fixture
def instance(local_world: World) -> Iterator[dg.DagsterInstance]:
    """An instance, for a world whose runs need no Spark."""
    local_world.options = {"mode": "index"} | REGIONS
    with in_memory() as instance:
        yield instance


@pytest.fixture(autouse=True)
def slack_api(inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Slack's client call the inbox."""
    made = BaseClient.__init__
    monkeypatch.setattr(
        slack_sdk.web.base_client.BaseClient,
        "__init__",
        lambda self, token=None, **options: made(self, token, **{**options, "base_url": f"{inbox.url}/api/"}),
    )


def configured(world: World, **alerts: Any) -> LakeConfig:
    return LakeConfig.model_validate(world.document | {"alerts": alerts})


def teams(inbox: Inbox) -> dict[str, Any]:
    return {"url": f"{inbox.url}/hooks/teams"}


def card(letter: Letter) -> str:
    """The text of a message to Teams."""
    assert letter.path == "/hooks/teams"
    (attachment,) = letter.json["attachments"]
    (block,) = attachment["content"]["body"]
    text: str = block["text"]
    return text


def mail(server: MailServer, **options: Any) -> dict[str, Any]:
    return {
        "to": ["on-call@example.com", "team@example.com"],
        "from": "lake@example.com",
        "host": "localhost",
        "port": server.port,
        "security": server.security,
        "password": PASSWORD,
    } | options


def slack() -> dict[str, Any]:
    return {"channel": "#lake", "token": TOKEN}


def sensor_of(config: LakeConfig, name: str) -> dg.SensorDefinition:
    sensors = {sensor.name: sensor for sensor in alert_sensors(config.alerts, list(open_streams(config).values()))}
    return sensors[name]


def tell_failure(world: World, instance: dg.DagsterInstance, config: LakeConfig, *names: str) -> str:
    """Let a run fail, and tell it by sensors; returns the run's id."""
    Path(world.source["path"]).mkdir(exist_ok=True)
    assets = dg.Definitions(
        assets=[stream_asset(specs_of(world.stream))], resources={"pyspark": pyspark_resource(world.config.spark)}
    )
    result = assets.resolve_implicit_global_asset_job_def().execute_in_process(
        partition_key="2026-02-11|NW",
        run_config={"ops": {"sales": {"config": {"landed_only": False}}}},  # a partition without objects fails
        asset_selection=[dg.AssetKey("sales")],
        instance=instance,
        raise_on_error=False,
    )
    assert not result.success
    tell(result, instance, config, *names)
    return result.run_id


def tell(result: dg.ExecuteInProcessResult, instance: dg.DagsterInstance, config: LakeConfig, *names: str) -> None:
    """Tell a failed run by sensors."""
    for name in names:
        context = dg.build_run_status_sensor_context(
            name, result.get_run_failure_event(), instance, result.dagster_run
        ).for_run_failure()
        sensor_of(config, name)(context)


def land(world: World, hours_ago: float, name: str = "a.parquet") -> None:
    seconds = (dt.datetime.now(dt.UTC) - dt.timedelta(hours=hours_ago)).timestamp()
    os.utime(world.land(NW, sales(1), name), (seconds, seconds))


class Looks:
    """Ticks of the sensor that looks at the landing zones."""

    def __init__(self, config: Callable[[], LakeConfig], instance: dg.DagsterInstance) -> None:
        self.config = config
        self.instance = instance
        self.cursor: str | None = None

    def tick(self) -> str:
        """What is wrong, and a run for each alert, whose failure is sent to Teams."""
        config = self.config()
        sensor = sensor_of(config, "alerts_stale_streams")
        with dg.build_sensor_context(self.instance, cursor=self.cursor) as context:
            data = sensor.evaluate_tick(context)
        self.cursor = data.cursor
        for request in data.run_requests or ():
            assert isinstance(sensor.job, dg.JobDefinition)
            result = sensor.job.execute_in_process(
                request.run_config, self.instance, tags=dict(request.tags), raise_on_error=False
            )
            tell(result, self.instance, config, "alerts_failed_runs_to_teams")
        return (
            ", ".join(request.tags["lake_assets/alert"] for request in data.run_requests or ())
            or data.skip_message
            or ""
        )


@pytest.fixture
def looks(local_world: World, instance: dg.DagsterInstance, inbox: Inbox) -> Looks:
    """Alerts that Teams gets about a stream that is stale after two hours."""
    return Looks(lambda: configured(local_world, teams=teams(inbox), stale_hours=2), instance)


# Failed runs


def test_a_failed_run_is_a_message_in_teams_and_slack_and_a_mail(
    local_world: World, instance: dg.DagsterInstance, inbox: Inbox, mail_server: MailServer
) -> None:
    receivers = {"teams": teams(inbox), "slack": slack(), "email": mail(mail_server)}
    config = configured(local_world, **receivers, ui_url="https://dagster.example.com/")

    run = tell_failure(local_world, instance, config, *(f"alerts_failed_runs_to_{name}" for name in receivers))

    url, title = f"https://dagster.example.com/runs/{run}", "A run of sales failed for 2026-02-11|NW"
    posted, sent = inbox.letters
    assert f"**{title}**\n\nthe source partition has no objects: " in card(posted)
    assert f"]({url})" in card(posted)

    assert (sent.path, sent.headers["authorization"]) == ("/api/chat.postMessage", f"Bearer {TOKEN}")
    assert sent.json["channel"] == "#lake"
    assert f"*{title}*\nthe source partition has no objects" in sent.json["text"]
    assert json.dumps(sent.json["blocks"]).count(url) == 1

    ((addresses, message),) = mail_server.mails
    assert addresses == ["on-call@example.com", "team@example.com"]
    assert message["Subject"] == title
    assert "the source partition has no objects" in message.get_payload()
    assert f'href="{url}"' in message.get_payload()


def test_a_sensor_of_ones_own_as_the_page_has_it_gets_the_texts(instance: dg.DagsterInstance, inbox: Inbox) -> None:
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "operate.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(@dg\.run_failure_sensor.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {"dg": dg, "requests": requests}
    exec(code.replace("https://alerts.example.com", inbox.url), names)
    result = fails.execute_in_process(instance=instance, raise_on_error=False)

    event, run = result.get_run_failure_event(), result.dagster_run
    names["to_our_service"](dg.build_run_status_sensor_context("own", event, instance, run).for_run_failure())

    (letter,) = inbox.letters
    assert letter.path == "/lake"
    assert "<script>alert(1)</script>" in letter.json["texts"][0]


# Stale streams


def test_a_receiver_is_told_once_that_a_stream_is_stale(local_world: World, looks: Looks, inbox: Inbox) -> None:
    land(local_world, 1)
    assert looks.tick() == "1 stream; all are on time"
    land(local_world, 3, "b.parquet")

    assert [looks.tick(), looks.tick()] == ["stale", "1 stream; sales: stale"]
    local_world.ingest(NW)
    assert [looks.tick(), looks.tick()] == ["1 stream; all are on time"] * 2

    (stale,) = map(card, inbox.letters)
    title, _, text = stale.partition("\n\n")
    assert title.startswith("**sales is stale: landed objects have not been in the lake for 3.")
    assert "region=NW/date=2026-02-11" in text


def test_objects_without_a_date_are_stale_from_when_they_were_first_seen(
    local_world: World, looks: Looks, inbox: Inbox
) -> None:
    land(local_world, 1)
    local_world.ingest(NW)
    land(local_world, 9, "kept-its-time.parquet")

    assert looks.tick() == "1 stream; all are on time"
    state = unpacked(looks.cursor, dict) or {}
    earlier = dt.datetime.fromisoformat(state["undated"]["sales"]) - dt.timedelta(hours=3)
    looks.cursor = packed(state | {"undated": {"sales": earlier.isoformat()}})

    assert looks.tick() == "stale"
    assert len(inbox.letters) == 1


@pytest.mark.more
def test_a_damaged_cursor_starts_again(local_world: World, looks: Looks) -> None:
    land(local_world, 1)
    local_world.ingest(NW)
    land(local_world, 3, "kept-its-time.parquet")
    states: list[dict[str, Any]] = [
        {"wrong": []},
        {"wrong": [1], "undated": {}},
        {"wrong": {}, "undated": {"sales": "soon"}},
        {"wrong": {}, "undated": {"sales": "2026-02-11T00:00:00"}},
    ]
    for cursor in ("no JSON", '{"wrong": {}', *map(packed, states)):
        looks.cursor = cursor
        assert looks.tick() == "1 stream; all are on time"
        assert looks.cursor != cursor


def test_a_stream_that_gets_nothing_new_is_told_by_its_freshness(
    local_world: World, looks: Looks, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    local_world.options |= {"freshness": {"fail_hours": 24}}
    land(local_world, 1)
    local_world.ingest(NW)
    assert looks.tick() == "1 stream; all are on time"

    later = dt.datetime.now(dt.UTC) + dt.timedelta(hours=25)
    monkeypatch.setattr(
        "lake_assets.orchestration.sensors.alert_sensors.lag_of",
        lambda stream, partitions: lag_of(stream, partitions, later),
    )
    assert looks.tick() == "not_refreshed"

    (told,) = map(card, inbox.letters)
    assert told.startswith("**sales has had nothing new for 25.")


def test_a_look_at_ten_thousand_streams_ends_in_time_and_the_next_goes_on(
    local_world: World, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams, clock = [SimpleNamespace(name=f"s{number}") for number in range(10_000)], Clock()
    looked: list[str] = []

    def problem(_: object, stream: SimpleNamespace, *__: object) -> tuple[str, str] | None:
        looked.append(stream.name)
        clock.passes(1)
        return ("stale", "s1 is stale\n") if stream.name == "s1" else None

    monkeypatch.setattr(look_ups, "time", clock)
    monkeypatch.setattr(look_ups, "_problem", problem)
    alerts = configured(local_world, slack=slack()).alerts
    assert alerts is not None
    sensor, cursor = look_ups._stale_sensor(alerts, cast("list[Any]", streams)), None
    requests: list[dg.RunRequest] = []
    for ticks in range(1, 4):
        with dg.build_sensor_context(instance, cursor=cursor) as context:
            data = sensor.evaluate_tick(context)
        cursor = data.cursor
        requests += data.run_requests or ()
        assert looked == [stream.name for stream in streams[: ticks * (int(look_ups.BUDGET_SECONDS) + 1)]]
    assert [request.tags["lake_assets/stream"] for request in requests] == ["s1"]
    assert data.skip_message == "10,000 streams; s1: stale"


def test_a_landing_zone_that_cannot_be_read_is_told(local_world: World, looks: Looks, inbox: Inbox) -> None:
    local_world.source = {"type": "s3", "bucket": "nowhere", "endpoint": "http://127.0.0.1:9", "anonymous": True}
    local_world.source["requests"] = {"retries": 0, "connect_timeout": 1, "timeout": 1}

    assert looks.tick() == "unreadable"

    (told,) = map(card, inbox.letters)
    assert told.startswith("**The landing zone or the lake of sales cannot be read**\n\n")


# Errors and escapes


def test_a_refusal_of_a_receiver_is_an_error_without_its_secrets(
    local_world: World, instance: dg.DagsterInstance, inbox: Inbox, mail_server: MailServer
) -> None:
    inbox.answer = b'{"ok": false, "error": "channel_not_found"}'
    wrong = mail(mail_server, password="wrong-password")
    config = configured(local_world, slack=slack(), email=wrong, teams=teams(inbox))

    errors = {"slack": SlackApiError, "email": smtplib.SMTPAuthenticationError, "teams": RequestException}
    for name, error in errors.items():
        inbox.statuses = [403] if name == "teams" else []
        with pytest.raises(error) as refused:
            tell_failure(local_world, instance, config, f"alerts_failed_runs_to_{name}")
        assert [secret for secret in (TOKEN, "wrong-password", "/hooks/") if secret in str(refused.value)] == []


@dg.op
def fail() -> None:
    raise dg.Failure(HOSTILE)


@dg.job
def fails() -> None:
    fail()


def test_texts_of_others_are_texts_for_each_receiver(
    local_world: World, instance: dg.DagsterInstance, inbox: Inbox, mail_server: MailServer
) -> None:
    config = configured(local_world, slack=slack(), email=mail(mail_server), teams=teams(inbox))
    tags = {"dagster/partition": HOSTILE}
    result = fails.execute_in_process(instance=instance, tags=tags, raise_on_error=False)

    tell(result, instance, config, *(f"alerts_failed_runs_to_{name}" for name in ("slack", "email", "teams")))

    sent, posted = inbox.letters
    ((_, message),) = mail_server.mails
    assert "<" not in json.dumps(sent.json)
    assert "&lt;!channel&gt; &amp; &lt;script&gt;" in sent.json["text"]
    assert message["Bcc"] is None
    assert message["Subject"].isascii()
    assert "<script>" not in message.get_payload()
    assert "&#233;" in message.get_payload()
    assert "](" not in card(posted)


def test_without_alerts_there_is_no_sensor_and_with_them_their_names_are_their_own(local_world: World) -> None:
    assert alert_sensors(None, []) == []
    config = configured(local_world, teams={"url": "https://a.example.com"}, name="night", status="stopped")
    names = {sensor.name: sensor.default_status for sensor in build_definitions(config).sensors or ()}

    assert {name: names[name].value for name in names if name.startswith("night")} == {
        "night_failed_runs_to_teams": "STOPPED",
        "night_stale_streams": "STOPPED",
    }


@pytest.mark.parametrize(
    ("receiver", "package", "keys"),
    [("slack", "dagster-slack", slack()), ("teams", "dagster-msteams", {"url": "https://a.example.com"})],
    ids=["slack", "teams"],
)
def test_a_receiver_without_its_package_names_the_extra(
    local_world: World, monkeypatch: pytest.MonkeyPatch, receiver: str, package: str, keys: dict[str, Any]
) -> None:
    monkeypatch.setitem(sys.modules, package.replace("-", "_"), None)

    with pytest.raises(MissingExtraError, match=rf"{package}: run `pip install '\.\[{receiver}\]'`"):
        build_definitions(configured(local_world, **{receiver: keys}))
