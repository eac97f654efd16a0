"""Deletion of an object if it has not changed.

S3 does it by `If-Match`, which obstore's deletion does not send. So obstore's client, which has the credentials, signs
the request, and it is sent from here.
"""

import datetime as dt
import http
from functools import partial

import obstore
from obstore.exceptions import BaseError as ObstoreError
from obstore.store import S3Store

from lake_assets.config.bucket_requests import Requests
from lake_assets.retrying import retry
from lake_assets.storage.patience import pauses, retries
from lake_assets.storage.vendor_errors import DELETION

_VALID = dt.timedelta(minutes=5)  # of a signature
_REFUSALS = {http.HTTPStatus.UNAUTHORIZED, http.HTTPStatus.FORBIDDEN}


class _FailedError(Exception):
    """The request may succeed later; the text has the server's status, or says that there was no answer."""


def delete_if_match(client: S3Store, key: str, etag: str, requests: Requests) -> bool | None:
    """Delete an object of S3 if it has this ETag, by one request.

    Args:
        client: of the bucket.
        key: as in the client.
        etag: without quotes.
        requests: retries, pauses and time-outs.

    Returns:
        Whether it is gone; False if the key has another object. None if the server does not know the condition, or the
        client has no keys to sign with; nothing was deleted then.

    Raises:
        PermissionError: the store refuses.
        OSError: the store is unreachable or fails.
    """
    try:
        send = partial(_send, client, key, etag, (requests.connect_timeout, requests.timeout))
        status = retry(send, passes=_FailedError, limit=retries(requests), pause=pauses(requests))
    except ObstoreError:  # a client without keys cannot sign
        return None
    except _FailedError as error:
        raise OSError(f"the deletion of {key} failed: {error}") from error
    if status in DELETION:
        return DELETION[status]
    refused = PermissionError if status in _REFUSALS else OSError
    raise refused(f"the deletion of {key} was refused, status code: {status}")


def _send(client: S3Store, key: str, etag: str, timeouts: tuple[float, float]) -> int:
    import requests  # noqa: PLC0415 - takes a tenth of the time in which a task's code is imported

    url = obstore.sign(client, "DELETE", key, _VALID)
    try:
        answer = requests.delete(url, headers={"If-Match": f'"{etag}"'}, timeout=timeouts, allow_redirects=False)
    except requests.RequestException as error:
        raise _FailedError(f"no answer ({type(error).__name__})") from None  # its text has the signature
    if answer.status_code >= http.HTTPStatus.INTERNAL_SERVER_ERROR and answer.status_code not in DELETION:
        raise _FailedError(f"status code: {answer.status_code}")
    return answer.status_code
