"""A queue of SQS: receiving and deleting messages."""

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from boto3.session import Session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from lake_assets.base.errors import QueueError
from lake_assets.config.secrets import mask_error, masked
from lake_assets.config.sections import SqsSensor
from lake_assets.storage.boto import boto_options
from lake_assets.storage.server_answers import Meaning, meaning_of
from lake_assets.streams.detection.notifications import QueueMessage

_BATCH = 10  # messages that SQS gives or takes with one request
_LONGEST_WAIT = 5  # seconds for which SQS may hold a request until a message comes
_RETRY_SECONDS = 5  # seconds beyond that


class Queue:
    """The queue of a sensor."""

    def __init__(self, config: SqsSensor) -> None:
        self._config = config
        self._made: Any = None

    def receive(self, until: float = math.inf) -> tuple[QueueMessage, ...]:
        """Return the messages of the queue, up to the limit of a tick in number, and a time by the monotonic clock.

        Other readers do not see them during the queue's visibility timeout, or ever again once they are deleted.
        """
        config = self._config
        messages: dict[str, QueueMessage] = {}
        with self._errors():
            while (room := config.messages - len(messages)) > 0 and time.monotonic() < until:
                answer = self._client.receive_message(
                    QueueUrl=config.queue_url,
                    MaxNumberOfMessages=min(room, _BATCH),
                    WaitTimeSeconds=0 if messages else config.wait,
                )
                received = [
                    QueueMessage(m["MessageId"], m["ReceiptHandle"], m.get("Body", ""))
                    for m in answer.get("Messages", ())
                ]
                # If the queue's visibility timeout is short, messages come again within the tick.
                if all(message.id in messages for message in received):
                    break
                messages |= {message.id: message for message in received}
        return tuple(messages.values())

    def delete(self, receipts: Sequence[str], until: float = math.inf) -> Sequence[str]:
        """Delete messages up to a time by the monotonic clock, and return the receipts that are left.

        A message whose receipt has expired comes again, and is known then.
        """
        with self._errors():
            for begin in range(0, len(receipts), _BATCH):
                if time.monotonic() >= until:
                    return receipts[begin:]
                entries = [
                    {"Id": str(number), "ReceiptHandle": receipt}
                    for number, receipt in enumerate(receipts[begin : begin + _BATCH])
                ]
                self._client.delete_message_batch(QueueUrl=self._config.queue_url, Entries=entries)
        return ()

    @property
    def _client(self) -> Any:  # noqa: ANN401 - as above
        if self._made is None:
            config = self._config
            # Dagster ends a tick after 60 seconds; the next tick is the retry.
            limits = Config(
                retries={"total_max_attempts": 2, "mode": "standard"},
                connect_timeout=_RETRY_SECONDS,
                read_timeout=_LONGEST_WAIT + _RETRY_SECONDS,
            )
            self._made = Session(*config.keys).client(
                "sqs", region_name=config.region, endpoint_url=config.endpoint, **boto_options(config, limits)
            )
        return self._made

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise the queue's errors as ours."""
        try:
            yield
        except (ClientError, BotoCoreError) as error:
            mask_error(error, self._config)
            raise self._translated(error) from error

    def _translated(self, error: ClientError | BotoCoreError) -> QueueError:
        url = self._config.queue_url
        meaning = meaning_of(error)
        if meaning is Meaning.ABSENT:
            return QueueError(
                f"the queue {url} does not exist:", "create this queue, or correct `queue_url` and `region`."
            )
        if meaning in (Meaning.REFUSED, Meaning.WRONG_KEY):
            return QueueError(
                f"the queue {url} refuses access:",
                "correct key_id and secret, or let the role of the credential chain have sqs:ReceiveMessage and "
                "sqs:DeleteMessage.",
            )
        text = masked(str(error).split("\n", 1)[0][:300].rstrip(".: "), self._config)
        return QueueError(
            f"the queue {url} cannot be read: {text}:", "correct queue_url or endpoint; the next tick tries again."
        )
