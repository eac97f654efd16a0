"""Retries and pauses of a storage's requests, for the requests that this package retries itself."""

from typing import TypeVar

from lake_assets.config.bucket_requests import RequestedStorage, Requests
from lake_assets.retrying import Limit, Pause, pause_from

Remote = TypeVar("Remote", bound=RequestedStorage)


def once(storage: Remote) -> Remote:
    """The storage, for a client that sends each request once."""
    return storage.model_copy(update={"requests": storage.requests.model_copy(update={"retries": 0})})


def retries(requests: Requests) -> Limit:
    """How often a request is retried."""
    return Limit(retries=requests.retries)


def pauses(requests: Requests) -> Pause:
    """The pauses between retries. None is shorter than `first_wait`."""
    return pause_from(requests.first_wait, requests.wait_limit)
