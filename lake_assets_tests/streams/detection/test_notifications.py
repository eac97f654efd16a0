"""Notifications of S3, and the state of their sensor; `orchestration/sensors/test_sqs.py` has its ticks."""

import datetime as dt
import json
from typing import Any

import pytest

from lake_assets.base.errors import NotificationError
from lake_assets.streams.detection.cursor import packed, unpacked
from lake_assets.streams.detection.notifications import Notifications, QueueCursor, QueueMessage, object_events
from lake_assets_tests.streams.detection.bucket import NOW
from lake_assets_tests.streams.detection.watch import stream_of


def record(name: str = "ObjectCreated:Put", **described: Any) -> dict[str, Any]:
    """After the example of AWS's documentation."""
    return {
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "awsRegion": "us-west-2",
        "eventTime": "2026-02-11T00:00:00.000Z",
        "eventName": name,
        "s3": {
            "s3SchemaVersion": "1.0",
            "bucket": {"name": "landing", "arn": "arn:aws:s3:::landing"},
            "object": {"key": "region%3DN%252FA+x/a%2Bb.parquet", "size": 1, "eTag": "d4", "sequencer": "0055"}
            | described,
        },
    }


def body(*records: dict[str, Any]) -> str:
    return json.dumps({"Records": list(records)})


def test_a_key_is_decoded_once_also_in_a_message_inside_one_of_sns() -> None:
    (event,) = object_events(body(record()))
    assert (event.bucket, event.key, event.is_removal) == ("landing", "region=N%2FA x/a+b.parquet", False)
    assert object_events(json.dumps({"Type": "Notification", "MessageId": "1", "Message": body(record())})) == (event,)


@pytest.mark.parametrize(
    ("name", "removals"),
    [
        ("ObjectCreated:CompleteMultipartUpload", [False]),
        ("s3:ObjectCreated:Copy", [False]),
        ("ObjectRemoved:Delete", [True]),
        ("ObjectRemoved:DeleteMarkerCreated", [True]),
        ("LifecycleExpiration:Delete", [True]),
        ("ObjectTagging:Put", []),
        ("ObjectRestore:Post", []),
    ],
)
def test_events_have_the_object_and_the_change_if_there_is_one(name: str, removals: list[bool]) -> None:
    assert [event.is_removal for event in object_events(body(record(name)))] == removals


def test_event_bridge_does_not_encode_keys() -> None:
    message = {
        "source": "aws.s3",
        "detail-type": "Object Created",
        "time": "2026-02-11T00:00:00Z",
        "detail": {
            "bucket": {"name": "landing"},
            "object": {"key": "region=N%2FA x/a+b.parquet", "etag": "d4", "sequencer": "0055", "size": 1},
        },
    }
    assert object_events(json.dumps(message)) == object_events(body(record()))
    assert object_events(json.dumps(message | {"detail-type": "Object Deleted"}))[0].is_removal
    assert object_events(json.dumps(message | {"detail-type": "Object Tags Added"})) == ()
    assert object_events('{"Service":"Amazon S3","Event":"s3:TestEvent","Bucket":"landing"}') == ()


def test_an_event_is_distinguished_from_the_next_by_its_sequencer_or_its_time() -> None:
    (first,) = object_events(body(record()))
    assert object_events(body(record()))[0].hash == first.hash
    assert object_events(body(record(sequencer="0056")))[0].hash != first.hash
    unordered = record(sequencer=None)
    later = unordered | {"eventTime": "2026-02-11T00:00:01.000Z"}
    assert object_events(body(unordered))[0].hash != object_events(body(later))[0].hash


def test_a_message_that_is_not_a_notification_is_refused_with_a_hint() -> None:
    records = ['{"Records": [{}]}', '{"Records": [1]}', '{"Records": [{"s3": 1}]}']
    for text in ("", "x", "[]", "1", "{}", '{"detail-type": "x"}', *records):
        with pytest.raises(NotificationError, match="dead-letter queue"):
            object_events(text)


def test_a_cursor_without_a_field_of_this_version_starts_again() -> None:
    stream = stream_of()
    empty = QueueCursor.load(None, stream)
    for field in ("stream", "receipts", "seen", "future", "reported"):
        state = unpacked(QueueCursor(empty.stream, receipts=["receipt"], seen=[1]).dump(), dict) or {}
        del state[field]
        assert QueueCursor.load(packed(state), stream) == empty, field


def test_keys_of_one_flat_folder_are_of_the_partitions_in_their_names() -> None:
    stream = stream_of(
        files="sales_{date}_{region}_*.parquet", type="sqs", queue_url="https://sqs.eu.amazonaws.com/1/q"
    )
    names = ["2026-02-11_NW_0", "2026-02-11_NW_1", "2026-02-12_SW_0", "2026-02-11_SW_0", "2026-02-30_SW_0"]

    def message(name: str, event: str = "ObjectCreated:Put") -> QueueMessage:
        text = body(record(event, key=f"sales_{name}.parquet", sequencer=name))
        return QueueMessage(name, name, text.replace("landing", "bucket"))

    messages = [message(name) for name in names]
    cursor = QueueCursor.load(None, stream)

    result = Notifications(stream, cursor, now=NOW).classify(messages)

    assert sorted(str(target.first) for target in result.targets) == [
        "region=NW/date=2026-02-11",
        "region=SW/date=2026-02-11",
    ]
    assert sorted(item.key for item in result.unmatched) == [
        "sales_2026-02-12_SW_0.parquet",
        "sales_2026-02-30_SW_0.parquet",
    ]
    # Only the message of the future partition stays in the queue.
    assert sorted(cursor.receipts) == sorted(name for name in names if name != "2026-02-12_SW_0")

    removals = [message(f"{day}_NW_0", "ObjectRemoved:Delete") for day in ("2025-02-11", "2026-02-10")]
    after = Notifications(stream, QueueCursor.load(result.cursor, stream), now=NOW).classify(removals)
    assert [str(target.first) for target in after.targets] == ["region=NW/date=2026-02-10"]


def test_a_message_for_which_there_is_no_room_is_handled_when_it_comes_again() -> None:
    stream = stream_of(files="sales_{date}_{region}.parquet", type="sqs", queue_url="https://sqs.eu.amazonaws.com/1/q")
    messages = [
        QueueMessage(
            name, name, body(record("ObjectCreated:Put", key=f"sales_{name}.parquet")).replace("landing", "bucket")
        )
        for name in ("2026-02-10_NW", "2026-02-10_SW", "2026-02-12_NW")
    ]
    cursor = QueueCursor.load(None, stream)

    first = Notifications(stream, cursor, 1, NOW).classify(messages)
    full = Notifications(stream, QueueCursor.load(first.cursor, stream), 0, NOW + dt.timedelta(2)).classify(messages)
    cursor = QueueCursor.load(full.cursor, stream)
    second = Notifications(stream, cursor, 9, NOW + dt.timedelta(2)).classify(messages)

    assert [str(target.first) for target in first.targets] == ["region=NW/date=2026-02-10"]
    assert full.targets == ()
    assert sorted(str(t.first) for t in second.targets) == ["region=NW/date=2026-02-12", "region=SW/date=2026-02-10"]
    assert set(cursor.receipts) == {message.receipt for message in messages}
