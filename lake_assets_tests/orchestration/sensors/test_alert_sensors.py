"""Alerts: what each receiver gets of failed runs and of stale streams, by real servers."""

import datetime as dt
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import slack_sdk.web.base_client
from slack_sdk.web.base_client import BaseClient

from dev.servers.inbox import Inbox, inbox
from dev.servers.mail import PASSWORD, MailServer, mail_server
from lake_assets.config.models import LakeConfig
from lake_assets.detection.packing import packed, unpacked
from lake_assets.errors import MissingExtraError
from lake_assets.orchestration.assets.stream_asset import stream_asset
from lake_assets.orchestration.build import build_definitions
from lake_assets.orchestration.resources import pyspark_resource
from lake_assets.orchestration.sensors.alert_receivers import Alert, mail_body, mail_subject, slack_text
from lake_assets.orchestration.sensors.alert_sensors import alert_sensors
from lake_assets.orchestration.translator import specs_of
from lake_assets.streams.pending import lag_of
from lake_assets.streams.stream import open_streams
from lake_assets_tests.orchestration.in_process import REGIONS
from lake_assets_tests.orchestration.instances import in_memory
from lake_assets_tests.world import NW, World, sales

__all__ = ["inbox", "mail_server"]

TOKEN = "xoxb-the-token"
HOSTILE = "<!channel> & <script>alert(1)</script> é\r\nBcc: x@example.com\u202e\x1b[2J"


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


def webhook(inbox: Inbox, **options: Any) -> dict[str, Any]:
    return {"url": f"{inbox.url}/hooks/secret-of-the-url", "authorization": "Bearer secret-of-the-head"} | options


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
    for name in names:
        context = dg.build_run_status_sensor_context(
            name, result.get_run_failure_event(), instance, result.dagster_run
        ).for_run_failure()
        sensor_of(config, name)(context)
    return result.run_id


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
        with dg.build_sensor_context(self.instance, cursor=self.cursor) as context:
            data = sensor_of(self.config(), "alerts_stale_streams").evaluate_tick(context)
        self.cursor = data.cursor
        assert data.skip_message
        return data.skip_message


@pytest.fixture
def looks(local_world: World, instance: dg.DagsterInstance, inbox: Inbox) -> Looks:
    """Notifications that a web server gets about a stream that is stale after two hours."""
    return Looks(lambda: configured(local_world, webhook=webhook(inbox), stale_hours=2), instance)


# Failed runs


def test_a_failed_run_is_posted_to_a_webhook_a_message_in_slack_and_a_mail(
    local_world: World, instance: dg.DagsterInstance, inbox: Inbox, mail_server: MailServer
) -> None:
    receivers = {"webhook": webhook(inbox), "slack": slack(), "email": mail(mail_server)}
    config = configured(local_world, **receivers, ui_url="https://dagster.example.com/")

    run = tell_failure(local_world, instance, config, *(f"alerts_failed_runs_to_{name}" for name in receivers))

    url, title = f"https://dagster.example.com/runs/{run}", "A run of sales failed for 2026-02-11|NW"
    posted, sent = inbox.letters
    assert (posted.path, posted.headers["authorization"]) == ("/hooks/secret-of-the-url", "Bearer secret-of-the-head")
    body = posted.json
    assert body.pop("text").startswith("the source partition has no objects: ")
    facts = {"run": run, "assets": ["sales"], "partition": "2026-02-11|NW", "url": url, "title": title}
    assert body == facts | {"source": "lake-assets", "kind": "run_failed"}

    assert (sent.path, sent.headers["authorization"]) == ("/api/chat.postMessage", f"Bearer {TOKEN}")
    assert sent.json["channel"] == "#lake"
    assert f"*{title}*\nthe source partition has no objects" in sent.json["text"]
    assert json.dumps(sent.json["blocks"]).count(url) == 1

    ((addresses, message),) = mail_server.mails
    assert addresses == ["on-call@example.com", "team@example.com"]
    assert message["Subject"] == title
    assert "the source partition has no objects" in message.get_payload()
    assert f'href="{url}"' in message.get_payload()


# Stale streams


def test_a_receiver_is_told_once_that_a_stream_is_stale_and_once_that_it_is_over(
    local_world: World, looks: Looks, inbox: Inbox
) -> None:
    land(local_world, 1)
    assert looks.tick() == "1 stream; all are on time"
    land(local_world, 3, "b.parquet")

    assert [looks.tick(), looks.tick()] == ["1 stream; sales: stale"] * 2
    local_world.ingest(NW)
    assert [looks.tick(), looks.tick()] == ["1 stream; all are on time"] * 2

    stale, over = (letter.json for letter in inbox.letters)
    assert (stale["kind"], stale["stream"]) == ("stale", "sales")
    assert stale["title"].startswith("sales is stale: landed objects have not been in the lake for 3.")
    assert "region=NW/date=2026-02-11" in stale["text"]
    assert (over["kind"], over["stream"]) == ("recovered", "sales")


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

    assert looks.tick() == "1 stream; sales: stale"
    assert [letter.json["kind"] for letter in inbox.letters] == ["stale"]


@pytest.mark.more
def test_a_damaged_cursor_starts_again(local_world: World, looks: Looks) -> None:
    land(local_world, 1)
    local_world.ingest(NW)
    land(local_world, 3, "kept-its-time.parquet")
    states: list[dict[str, Any]] = [
        {"told": []},
        {"told": [], "undated": {}},
        {"told": {}, "undated": {"sales": "soon"}},
        {"told": {}, "undated": {"sales": "2026-02-11T00:00:00"}},
    ]
    for cursor in ("no JSON", '{"told": {}', *map(packed, states)):
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
    assert looks.tick() == "1 stream; sales: not_refreshed"

    (letter,) = inbox.letters
    assert letter.json["title"].startswith("sales has had nothing new for 25.")


def test_a_landing_zone_that_cannot_be_read_is_told(local_world: World, looks: Looks, inbox: Inbox) -> None:
    local_world.source = {"type": "s3", "bucket": "nowhere", "endpoint": "http://127.0.0.1:9", "anonymous": True}
    local_world.source["requests"] = {"retries": 0, "connect_timeout": 1, "timeout": 1}

    assert looks.tick() == "1 stream; sales: unreadable"

    (letter,) = inbox.letters
    assert letter.json["kind"] == "unreadable"


def test_each_receiver_gets_it_and_one_that_is_away_later(
    local_world: World, instance: dg.DagsterInstance, inbox: Inbox, mail_server: MailServer
) -> None:
    land(local_world, 9)
    away = mail(mail_server, port=9)
    config = configured(local_world, webhook=webhook(inbox), slack=slack(), email=away)
    looks = Looks(lambda: config, instance)

    first = looks.tick()
    config = configured(local_world, webhook=webhook(inbox), slack=slack(), email=mail(mail_server))
    assert looks.tick() == "1 stream; sales: stale"

    assert "the alert was not sent to alerts.email: ConnectionRefusedError" in first
    assert [letter.path for letter in inbox.letters] == ["/api/chat.postMessage", "/hooks/secret-of-the-url"]
    ((_, message),) = mail_server.mails
    assert message["Subject"].startswith("sales is stale: ")


# Errors and escapes


@pytest.mark.more
def test_a_server_that_fails_is_tried_again_and_a_refusal_or_a_redirect_is_not(
    local_world: World, looks: Looks, inbox: Inbox
) -> None:
    land(local_world, 9)
    for status in (403, 302):
        inbox.letters.clear()
        inbox.statuses = [status]
        refused = looks.tick()
        assert f"alerts.webhook: the server answered {status}" in refused
        assert "secret-of" not in refused
        assert len(inbox.letters) == 1
    inbox.statuses = [503, 429]

    assert looks.tick() == "1 stream; sales: stale"
    assert len(inbox.letters) == 4


def test_a_refusal_of_slack_or_the_mail_server_names_no_secret(
    local_world: World, instance: dg.DagsterInstance, inbox: Inbox, mail_server: MailServer
) -> None:
    land(local_world, 9)
    inbox.answer = b'{"ok": false, "error": "channel_not_found"}'
    wrong = mail(mail_server, password="wrong-password")

    text = Looks(lambda: configured(local_world, slack=slack(), email=wrong), instance).tick()

    assert "alerts.slack" in text
    assert "channel_not_found" in text
    assert "alerts.email: SMTPAuthenticationError" in text
    assert TOKEN not in text
    assert "wrong-password" not in text


def test_texts_of_others_are_texts_for_each_receiver() -> None:
    alert = Alert(kind="stale", title=HOSTILE, text=HOSTILE)

    assert "<" not in slack_text(alert)
    assert "&lt;!channel&gt; &amp; &lt;script&gt;" in slack_text(alert)
    subject = mail_subject(alert)
    assert subject.isascii()
    assert subject.isprintable()
    body = mail_body(alert)
    assert body.isascii()
    assert "<script>" not in body
    assert "&#233;" in body
    assert len(slack_text(Alert(kind="stale", title="t", text="x" * 10_000))) < 3_000


def test_without_alerts_there_is_no_sensor_and_with_them_their_names_are_their_own(local_world: World) -> None:
    assert alert_sensors(None, []) == []
    config = configured(local_world, webhook={"url": "https://a.example.com"}, name="night", status="stopped")
    names = {sensor.name: sensor.default_status for sensor in build_definitions(config).sensors or ()}

    assert {name: names[name].value for name in names if name.startswith("night")} == {
        "night_failed_runs_to_webhook": "STOPPED",
        "night_stale_streams": "STOPPED",
    }


def test_slack_without_its_package_names_the_extra(local_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dagster_slack", None)

    with pytest.raises(MissingExtraError, match=r"dagster-slack: run `pip install '\.\[slack\]'`"):
        build_definitions(configured(local_world, slack=slack()))
