"""The SQS sensor, on moto's S3 and SQS: deletion after recording, duplicates, disorder, redelivery."""

import datetime as dt
import json
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import pytest

from dev.servers.moto import KEYS, Moto, moto
from lake_assets.base.errors import QueueError
from lake_assets.config.sections import SqsSensor
from lake_assets.orchestration.sensors import sqs_queue
from lake_assets.orchestration.sensors.stream_sensor import KeptState
from lake_assets.streams.detection.cursor import CURSOR_VERSION
from lake_assets.streams.detection.notifications import MOST_FUTURE, Notifications
from lake_assets_tests.orchestration.sensors.test_stream_sensor import TODAY, day, key, keys_of
from lake_assets_tests.orchestration.ticks import Clock, Ticks, ticks_of
from lake_assets_tests.world import World, sales

__all__ = ["moto"]


@pytest.fixture
def queue(moto: Moto) -> str:
    """A queue whose messages come again as soon as they were received."""
    return moto.new_queue(VisibilityTimeout="0")


@pytest.fixture
def bucket(moto: Moto, queue: str) -> str:
    """A bucket with notifications; S3's test is the queue's first message."""
    moto.new_bucket("landing", queue)
    return "landing"


@pytest.fixture
def ticks(local_world: World, bucket: str, queue: str) -> Iterator[Ticks]:
    local_world.source = {"type": "s3", "bucket": bucket, "prefix": "in", **KEYS}
    local_world.options["sensor"] = {"type": "sqs", "queue_url": queue, "wait": 0, **KEYS}
    with ticks_of(local_world) as ticks:
        yield ticks


def notification(ticks: Ticks, path: str, sequencer: str, name: str = "ObjectCreated:Put", **options: Any) -> Any:
    """As S3 writes it."""
    bucket = {"name": options.get("bucket", ticks.world.source["bucket"])}
    described = {"key": path, "size": 1, "eTag": options.get("etag", "e"), "sequencer": sequencer}
    time = dt.datetime.now(dt.UTC).isoformat()
    return {"Records": [{"eventTime": time, "eventName": name, "s3": {"bucket": bucket, "object": described}}]}


def path_of(region: str, days_ago: int = 0, name: str = "a.parquet") -> str:
    return f"in/region%3D{region}/date%3D{TODAY - dt.timedelta(days_ago)}/{name}"


def test_what_has_landed_is_in_the_lake_after_the_runs_that_a_tick_asks_for(
    ticks: Ticks, moto: Moto, queue: str, local_world: World, s3_location: Callable[[], dict[str, Any]]
) -> None:
    """The objects lie on a real server; moto writes the notifications of a bucket of the same name."""
    local_world.source = s3_location()
    moto.new_bucket(local_world.source["bucket"], queue)
    for text, rows, name in ((day("N/A x"), sales(1), "a.parquet"), (day("SW", 40), sales(2), "a b+c%.parquet")):
        uri = local_world.land(text, rows, name)
        moto.put(local_world.source["bucket"], uri.split("/", 3)[3])

    requests = ticks.tick()

    assert sorted(keys_of(requests)) == sorted([key("N%2FA x"), key("SW", 40)])
    assert all(result.success for result in ticks.run(requests))
    assert local_world.totals() == [1, 2]
    ticks.tick()
    assert moto.left(queue) == 0


@pytest.mark.more
def test_messages_are_deleted_by_the_tick_after_their_runs_were_recorded_and_an_object_of_no_partition_is_reported(
    ticks: Ticks, moto: Moto, queue: str, bucket: str, capfd: pytest.CaptureFixture[str]
) -> None:
    for path in (path_of("NW"), "in/stray.parquet", path_of("NW", name="_SUCCESS")):
        moto.put(bucket, unquote(path))
    sent = moto.left(queue)
    assert sent == 4  # S3's test and the objects

    assert keys_of(ticks.tick()) == [key("NW")]
    assert moto.left(queue) == sent

    assert ticks.tick() == []
    assert moto.left(queue) == 0
    assert capfd.readouterr().err.count("stray.parquet: the path is not of the layout") == 1


def test_events_that_come_twice_or_late_and_lost_ticks_start_one_run_each(ticks: Ticks, moto: Moto, queue: str) -> None:
    event = notification(ticks, path_of("NW"), "02", etag="new")
    for _ in range(2):
        moto.send(queue, event)
    ticks.evaluate()
    assert keys_of(ticks.tick()) == [key("NW")]

    moto.send(queue, event)
    assert ticks.tick() == []
    ticks.tick()
    assert moto.left(queue) == 0

    moto.send(queue, notification(ticks, path_of("NW"), "01", etag="old"))
    assert keys_of(ticks.tick()) == [key("NW")]


def test_a_message_that_is_no_notification_is_reported_once_and_stays_in_the_queue(
    ticks: Ticks, moto: Moto, queue: str, capfd: pytest.CaptureFixture[str]
) -> None:
    ticks.tick()
    ticks.tick()
    bodies: list[object] = ["no JSON", {"Records": [{"eventName": "ObjectCreated:Put"}]}, []]
    for body in bodies:
        moto.send(queue, body)

    assert ticks.tick() == []
    assert capfd.readouterr().err.count("is not a notification of S3") == 3
    ticks.tick()
    assert "is no notification" not in capfd.readouterr().err
    assert moto.left(queue) == 3


@pytest.mark.more
def test_another_streams_notifications_are_left_to_it(
    ticks: Ticks, moto: Moto, queue: str, capfd: pytest.CaptureFixture[str]
) -> None:
    ticks.tick()
    ticks.tick()
    moto.send(queue, notification(ticks, path_of("NW"), "01", bucket="another"))
    moto.send(queue, notification(ticks, path_of("NW").replace("in/", "inn/"), "01"))

    assert ticks.tick() == []
    ticks.tick()
    assert moto.left(queue) == 2
    assert "give each stream a queue of its own" in capfd.readouterr().err


def test_a_removal_counts_in_the_active_partitions_only(ticks: Ticks, moto: Moto, queue: str) -> None:
    for number, days_ago in enumerate((0, 40)):
        moto.send(queue, notification(ticks, path_of("NW", days_ago), f"0{number}", "ObjectRemoved:Delete"))
    assert keys_of(ticks.tick()) == [key("NW")]


def test_messages_beyond_the_limit_of_runs_stay_in_the_queue_and_outlive_the_cursor(
    ticks: Ticks, moto: Moto, queue: str, local_world: World
) -> None:
    local_world.options["sensor"] |= {"max_runs": 2, "group_runs": 1}
    for number in range(5):
        moto.send(queue, notification(ticks, path_of(f"R{number}"), "01"))
    result = [keys_of(ticks.tick()) for _ in range(2)]
    assert [len(keys) for keys in result] == [2, 2]
    ticks.cursor = None  # reset, or another layout

    result += [keys_of(ticks.tick()) for _ in range(4)]

    assert sorted({*chain(*result)}) == [key(f"R{number}") for number in range(5)]
    assert moto.left(queue) == 0


@pytest.mark.more
def test_a_date_in_the_future_is_reported_once_and_stays_in_the_queue_until_its_day(
    ticks: Ticks, moto: Moto, queue: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    moto.send(queue, notification(ticks, path_of("NW"), "01"))
    before = dt.datetime.now(dt.UTC) - dt.timedelta(2)  # of which TODAY is the future after midnight too
    with monkeypatch.context() as patch:
        patch.setattr(
            "lake_assets.orchestration.sensors.stream_sensor.Notifications",
            partial(Notifications, now=before),
        )
        for _ in range(3):
            assert ticks.tick() == []
    assert capfd.readouterr().err.count("is in the future. It is ingested when its time has come.") == 1
    assert moto.left(queue) == 1

    assert keys_of(ticks.tick()) == [key("NW")]
    assert ticks.tick() == []
    ticks.tick()
    assert moto.left(queue) == 0


@pytest.mark.more
def test_dates_in_the_future_keep_no_other_message_waiting(
    ticks: Ticks, moto: Moto, queue: str, capfd: pytest.CaptureFixture[str]
) -> None:
    many = MOST_FUTURE + 20
    for begin in range(0, many, 100):
        numbers = range(begin, min(begin + 100, many))
        records = [notification(ticks, path_of(f"R{n}", -2), "01")["Records"][0] for n in numbers]
        moto.send(queue, {"Records": records})
    ticks.tick()
    moto.send(queue, notification(ticks, path_of("NW"), "01"))

    assert keys_of(ticks.tick()) == [key("NW")]
    capfd.readouterr()
    ticks.tick()
    assert "is in the future" not in capfd.readouterr().err


def test_a_tick_deletes_as_many_of_ten_thousand_messages_as_it_has_time_for(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, deleted = Clock(), list[str]()

    def delete(**request: Any) -> None:
        clock.passes(1)
        deleted.extend(entry["ReceiptHandle"] for entry in request["Entries"])

    monkeypatch.setattr(sqs_queue, "time", clock)
    client = SimpleNamespace(delete_message_batch=delete)
    monkeypatch.setattr(sqs_queue, "Session", lambda *_: SimpleNamespace(client=lambda *_, **__: client))
    queue = sqs_queue.Queue(SqsSensor(queue_url="https://sqs.eu-central-1.amazonaws.com/1/q"))
    receipts = left = [f"{number}" for number in range(10_000)]
    for ticks in range(1, 4):
        left = [*queue.delete(left, clock.now + 20)]
        assert deleted == receipts[: ticks * 200]
        assert left == receipts[ticks * 200 :]


@pytest.mark.more
def test_a_queue_that_does_not_exist_fails_the_tick_with_one_sentence(
    ticks: Ticks, queue: str, local_world: World
) -> None:
    local_world.options["sensor"] |= {"queue_url": f"{queue}-none"}

    with pytest.raises(QueueError, match="does not exist: create this queue") as raised:
        ticks.evaluate()

    assert raised.value.__cause__ is None


@pytest.mark.more
def test_a_server_that_is_away_fails_the_tick_without_the_secret(local_world: World) -> None:
    url = "http://127.0.0.1:9"
    local_world.source = {"type": "s3", "bucket": "landing", **KEYS}
    local_world.options["sensor"] = {"type": "sqs", "endpoint": url, "queue_url": f"{url}/1/q", **KEYS}

    with ticks_of(local_world) as ticks, pytest.raises(QueueError, match="cannot be read: Could not connect") as raised:
        ticks.evaluate()

    assert KEYS["secret"] not in str(raised.value)


def test_a_cursor_holds_what_must_be_deleted(ticks: Ticks, moto: Moto, queue: str) -> None:
    moto.send(queue, notification(ticks, path_of("NW"), "01"))
    ticks.tick()
    assert ticks.cursor is not None
    assert json.loads(str(KeptState(ticks.instance, ticks.cursor).text).partition("\n")[0])["version"] == CURSOR_VERSION
    # The queue delivers again what an unreadable cursor leaves undeleted.
    ticks.cursor = "nonsense"
    assert keys_of(ticks.tick()) == [key("NW")]
