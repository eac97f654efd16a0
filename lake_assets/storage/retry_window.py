"""For how long requests of a storage are tried again, and with which pauses."""

from collections.abc import Callable
from typing import TypeVar

from lake_assets.base.retrying import Limit, Result, pause_from, retry
from lake_assets.config.connections import RequestedStorage, Requests
from lake_assets.config.storages import AnyStorage, LocalStorage

Remote = TypeVar("Remote", bound=RequestedStorage)


def once(storage: Remote) -> Remote:
    """Return the storage, for a client that sends each request once."""
    return storage.model_copy(update={"requests": storage.requests.model_copy(update={"retries": 0})})


def quick(storage: AnyStorage, seconds: float) -> AnyStorage:
    """Return the storage for a client that sends each request once, with so many seconds for an answer."""
    if isinstance(storage, LocalStorage):
        return storage
    limits = {name: min(getattr(storage.requests, name), seconds) for name in ("timeout", "connect_timeout")}
    return storage.model_copy(update={"requests": storage.requests.model_copy(update={"retries": 0, **limits})})


def retried(
    storage: RequestedStorage, transient: type[Exception] | Callable[[BaseException], bool], work: Callable[[], Result]
) -> Result:
    """Return the result of requests, with the storage's retries and pauses; no pause is shorter than `first_wait`."""
    pause = pause_from(storage.requests.first_wait, storage.requests.wait_limit)
    return retry(work, transient=transient, limit=retries(storage.requests), pause=pause)


def retries(requests: Requests) -> Limit:
    """Return how often a request is retried."""
    return Limit(retries=requests.retries)
