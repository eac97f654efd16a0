"""moto: S3 whose notifications go to SQS, which no real server that could be had does. All within the process."""

import importlib.util
import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import boto3
import pytest

from dev.servers.absent import absent

Result = TypeVar("Result")

REGION = "us-east-1"
KEYS = {"region": REGION, "key_id": "moto", "secret": "moto-secret"}


@dataclass(frozen=True)
class Moto:
    """Clients of boto3 without an endpoint of their own meet moto instead of AWS, while this lives."""

    def client(self, service: str) -> Any:
        return boto3.client(service, region_name=REGION, aws_access_key_id="moto", aws_secret_access_key=KEYS["secret"])

    def new_queue(self, **attributes: str) -> str:
        """A queue's URL."""
        name = f"q-{uuid.uuid4().hex}"
        return str(self.client("sqs").create_queue(QueueName=name, Attributes=attributes)["QueueUrl"])

    def new_bucket(self, name: str, queue_url: str) -> None:
        """A bucket that tells the queue of all that happens to its objects."""
        arn = self.client("sqs").get_queue_attributes(QueueUrl=queue_url, AttributeNames=["QueueArn"])
        events = ["s3:ObjectCreated:*", "s3:ObjectRemoved:*"]
        s3 = self.client("s3")
        s3.create_bucket(Bucket=name)
        s3.put_bucket_notification_configuration(
            Bucket=name,
            NotificationConfiguration={
                "QueueConfigurations": [{"QueueArn": arn["Attributes"]["QueueArn"], "Events": events}]
            },
        )

    def put(self, bucket: str, key: str, body: bytes = b"x") -> None:
        self.client("s3").put_object(Bucket=bucket, Key=key, Body=body)

    def send(self, queue_url: str, body: object) -> None:
        text = body if isinstance(body, str) else json.dumps(body)
        self.client("sqs").send_message(QueueUrl=queue_url, MessageBody=text)

    def by_policies(self, function: Callable[[], Result]) -> Result:
        """The result of a function; meanwhile what no policy of a user allows is refused."""
        from moto.core import set_initial_no_auth_action_count  # noqa: PLC0415 - may not be installed

        return set_initial_no_auth_action_count(0)(function)()

    def left(self, queue_url: str) -> int:
        """How many messages the queue holds, seen by somebody or not."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        result = self.client("sqs").get_queue_attributes(QueueUrl=queue_url, AttributeNames=names)["Attributes"]
        return sum(int(result[name]) for name in names)


@pytest.fixture
def moto() -> Iterator[Moto]:
    """An AWS of its own for one test."""
    if importlib.util.find_spec("moto") is None:
        absent("no AWS: the package moto[s3,sqs] is not installed")
    from moto import mock_aws  # noqa: PLC0415 - may not be installed

    with mock_aws():
        yield Moto()
