from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from lake_assets.config.sections import ObjectSensor, Sensor, SqsSensor
from lake_assets.config.streams import Stream

URL = "https://sqs.eu-central-1.amazonaws.com/123456789012/landing"
SQS = {"type": "sqs", "queue_url": URL}


def sensor(**keys: Any) -> ObjectSensor | SqsSensor:
    found: ObjectSensor | SqsSensor = TypeAdapter(Sensor).validate_python(keys)
    return found


@pytest.mark.parametrize("keys", [{}, {"type": "objects"}])
def test_a_sensor_of_objects_needs_no_key(keys: dict[str, Any]) -> None:
    objects = sensor(**keys)
    assert isinstance(objects, ObjectSensor)
    assert (objects.interval, objects.max_runs, objects.group_runs, objects.lookback) == (None, 25, 100, 2)
    assert objects.status == "running"
    assert isinstance(sensor(**SQS), SqsSensor)


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"type": "files"}, "type"),
        ({"queue_url": URL}, "queue_url"),
        ({"type": "objects", "queue_url": URL}, "queue_url"),
        ({"type": "objects", "budget": 60}, "budget"),
        ({"type": "sqs"}, "queue_url"),
        ({"type": "sqs", "queue_url": "landing"}, "queue_url"),
        (SQS | {"key_id": "a"}, "key_id and secret go together"),
        (SQS | {"key_id": "a", "secret": "b", "provider": "credential_chain"}, "exclude each other"),
        (SQS | {"session_token": "a"}, "give all three"),
        (SQS | {"endpoint": "http://user:password@host"}, "an endpoint has no user or password"),
        (SQS | {"wait": 21}, "wait"),
    ],
)
def test_a_fault_is_named(keys: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        sensor(**keys)


def test_secrets_are_not_shown() -> None:
    assert "hush" not in repr(sensor(**SQS, key_id="a", secret="hush", session_token="hush"))


@pytest.mark.parametrize("source", ["landing", "gs://landing", "r2://account/landing"])
def test_notifications_come_from_s3_only(source: str) -> None:
    stream = {"partitions": {"region": {}}, "destination": {"table": "sales"}, "sensor": SQS}
    Stream.model_validate(stream | {"source": "s3://landing"})
    with pytest.raises(ValidationError, match="use type objects here"):
        Stream.model_validate(stream | {"source": source})
