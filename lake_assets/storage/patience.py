"""The patience with a storage: how each client sends a request again, and with which pauses.

DuckDB's is in `attach.http_limits`, because it has one for all storages of a lake.
"""

import datetime as dt
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from lake_assets.base.retrying import Limit, Result, Transient, doublings, pause_from, retry
from lake_assets.config.connections import RemoteStorage, Requests
from lake_assets.config.storages import AnyStorage

if TYPE_CHECKING:
    from botocore.config import Config
    from obstore.store import RetryConfig

Remote = TypeVar("Remote", bound=RemoteStorage)

_LEAST_TIME = 30.0  # seconds in which obstore retries a request
_FIRST_PAUSE = 0.05  # seconds, of Arrow's client of S3; each pause is twice as long as the last one


def once(storage: Remote) -> Remote:
    """Return the storage, for a client that sends each request once."""
    return storage.model_copy(update={"requests": storage.requests.model_copy(update={"retries": 0})})


def quick(storage: AnyStorage, seconds: float) -> AnyStorage:
    """Return the storage for a client that sends each request once, with so many seconds for an answer."""
    if storage.requests is None:
        return storage
    limits = {name: min(getattr(storage.requests, name), seconds) for name in ("timeout", "connect_timeout")}
    return storage.model_copy(update={"requests": storage.requests.model_copy(update={"retries": 0, **limits})})


def requests_retried(requests: Requests, transient: Transient, work: Callable[[], Result]) -> Result:
    """Return the result of `work`, with a storage's retries and pauses; no pause is shorter than `first_wait`."""
    return retry(
        work, transient=transient, limit=retries(requests), pause=pause_from(requests.first_wait, requests.wait_limit)
    )


def retries(requests: Requests) -> Limit:
    """Return how often a request is retried."""
    return Limit(retries=requests.retries)


def of_obstore(requests: Requests) -> "RetryConfig":
    """Return obstore's retries, with random pauses, none of which is shorter than the first one.

    The time that bounds them all leaves room for one request without an answer.
    """
    longest = requests.wait_limit
    seconds = max(_LEAST_TIME, requests.retries * longest + requests.timeout)
    first, most = dt.timedelta(seconds=requests.first_wait), dt.timedelta(seconds=longest)
    return {
        "max_retries": requests.retries,
        "backoff": {"init_backoff": first, "max_backoff": most, "base": 2},
        "retry_timeout": dt.timedelta(seconds=seconds),
    }


def of_arrows_s3(requests: Requests) -> int:
    """Return the retries of Arrow's client, which it calls attempts, without a pause before the first of them.

    By default the pauses are 0.05, 0.1, 0.2 … 3.2 seconds, 6.4 in all. The standard strategy has random pauses, which
    may all be short: the driver, which Spark does not retry, then gave up too early.
    """
    pauses = doublings(_FIRST_PAUSE, requests.retry_seconds)
    return pauses + 1 if pauses else 0


def of_arrows_google(requests: Requests) -> dt.timedelta:
    """Return the time of Arrow's client for all attempts of a request together, the first one too."""
    return dt.timedelta(seconds=max(requests.retry_seconds, requests.timeout))


def of_boto(requests: Requests, *, attempts: int = 1, seconds: float = 0) -> "Config":
    """Return the config of boto3, with the storage's `timeout` for an answer, or `seconds` if that is longer.

    boto3 retries too, but its pauses are random from zero on, so that it may give up at once.
    """
    from botocore.config import Config  # noqa: PLC0415 - boto3 takes its time

    return Config(
        retries={"total_max_attempts": attempts, "mode": "standard"},
        connect_timeout=requests.connect_timeout,
        read_timeout=max(seconds, requests.timeout),
    )
