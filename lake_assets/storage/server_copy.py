"""Copies that a store makes by itself, under the original's ETag as a condition; no byte passes through this process.

obstore's copy has no such condition, and works within one bucket only.
"""

import base64
import datetime as dt
import hashlib
import hmac
import http
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal, cast
from urllib.parse import quote, urlencode

import obstore
import requests
from obstore.exceptions import BaseError as ObstoreError

from lake_assets.config.storages import AzureStorage, GcsStorage, R2Storage, S3Storage
from lake_assets.errors import SourceChangedError, StorageUnreachableError
from lake_assets.retrying import Limit, pause_between, poll, retry
from lake_assets.storage.clients import client
from lake_assets.storage.failures import no_answer
from lake_assets.storage.retry_window import pauses, retries
from lake_assets.storage.uploads import abort_uploads, retried, s3_client

if TYPE_CHECKING:
    from obstore.store import AzureStore

_Method = Literal["GET", "HEAD", "PUT"]

WHOLE = 5 * 2**30  # bytes that S3 copies by one request
PART = 512 * 2**20  # bytes of each part of a larger object
_PARTS = 8  # at a time
_ANSWER = 600.0  # seconds that the copy of a large object may take
_GONE = {http.HTTPStatus.NOT_FOUND, http.HTTPStatus.PRECONDITION_FAILED}
_VALID = dt.timedelta(hours=2)  # of a signature
_AZURE_VERSION = "2021-10-04"
_AZURE_RIGHTS = {"GET": "r", "HEAD": "r", "PUT": "cw"}
_AZURE_PATIENCE = Limit(seconds=3600.0)  # for a copy that goes on after the answer
GOOGLE = "https://storage.googleapis.com"
_GOOGLE_SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
_PENDING = "pending"  # of a copy
_CONTENT = "application/vnd.apache.parquet"


@dataclass(frozen=True, slots=True)
class Original:
    """An object to be copied, as in a listing."""

    key: str
    etag: str
    size: int  # bytes


def copy_in_s3(
    source: S3Storage | R2Storage,
    original: Original,
    target: S3Storage | R2Storage,
    key: str,
    changed: SourceChangedError,
) -> bool:
    """Let S3 or R2 copy an object, with the credentials of the target.

    Returns:
        Whether it did; False if it refuses these credentials the original, or does not know such requests.

    Raises:
        SourceChangedError: `changed`, if the original is gone or has another ETag.
        StorageUnreachableError: the store failed, also after retries.
    """
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - boto3 takes its time

    request = {
        "Bucket": target.bucket,
        "Key": _whole_key(target.prefix, key),
        "CopySource": {"Bucket": source.bucket, "Key": _whole_key(source.prefix, original.key)},
        "CopySourceIfMatch": f'"{original.etag}"',
    }
    try:
        s3 = _s3(target)
        if original.size > WHOLE:
            _copy_parts(s3, request, original.size, target, key)
        else:
            # R2 has no tags, and refuses a request that names them.
            tags = {} if isinstance(target, R2Storage) else {"TaggingDirective": "REPLACE"}
            copy = partial(s3.copy_object, **request, MetadataDirective="REPLACE", ContentType=_CONTENT, **tags)
            retried(target, copy)
    except ClientError as error:
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        if status in _GONE:
            raise changed from error
        if status >= http.HTTPStatus.INTERNAL_SERVER_ERROR and status != http.HTTPStatus.NOT_IMPLEMENTED:
            raise no_answer(error, target, f"{target.root}/{key} was not written") from error
        return False
    except BotoCoreError as error:
        raise no_answer(error, target, f"{target.root}/{key} was not written") from error
    return True


@lru_cache(maxsize=8)
def _s3(storage: S3Storage | R2Storage) -> Any:  # noqa: ANN401 - boto3 makes its clients' classes when it runs
    """The client of a storage; to make one takes longer than most copies."""
    return s3_client(storage, seconds=_ANSWER)


def _copy_parts(s3: Any, request: Mapping[str, Any], size: int, target: S3Storage | R2Storage, key: str) -> None:  # noqa: ANN401 - boto3 makes its clients' classes when it runs
    """Copy an object in parts, each under the condition."""
    place = {name: request[name] for name in ("Bucket", "Key")}
    upload = retried(target, partial(s3.create_multipart_upload, **place, ContentType=_CONTENT))["UploadId"]

    def copy_part(number: int) -> dict[str, object]:
        start = (number - 1) * PART
        span = f"bytes={start}-{min(start + PART, size) - 1}"
        where = {"UploadId": upload, "PartNumber": number, "CopySourceRange": span}
        part = retried(target, partial(s3.upload_part_copy, **request, **where))
        return {"PartNumber": number, "ETag": part["CopyPartResult"]["ETag"]}

    try:
        with ThreadPoolExecutor(_PARTS) as pool:
            parts = list(pool.map(copy_part, range(1, -(-size // PART) + 1)))
        complete = partial(s3.complete_multipart_upload, **place, UploadId=upload, MultipartUpload={"Parts": parts})
        retried(target, complete)
    except BaseException:
        abort_uploads(target, key)
        raise


def copy_in_gcs(
    source: GcsStorage, original: Original, target: GcsStorage, key: str, changed: SourceChangedError
) -> bool:
    """Let Google Cloud Storage copy an object, by its XML protocol, with the credentials of the target.

    Source: Google's manual, "XML API: PUT Object" and "Copy an object".

    Returns:
        Whether it did; False if it refuses, or there is no token for it.

    Raises:
        SourceChangedError: `changed`, if the original is gone or has another ETag.
        StorageUnreachableError: the store failed, also after retries.
    """
    token = _google_token(target)
    if token is None:
        return False
    headers = {
        "Authorization": f"Bearer {token}",
        "x-goog-copy-source": quote(f"{source.bucket}/{_whole_key(source.prefix, original.key)}"),
        "x-goog-copy-source-if-match": f'"{original.etag}"',
        "x-goog-metadata-directive": "REPLACE",
        "Content-Type": _CONTENT,
        "Content-Length": "0",
    }
    try:
        answer = _send(
            target, "PUT", f"{GOOGLE}/{target.bucket}/{quote(_whole_key(target.prefix, key))}", headers, _ANSWER
        )
    except _FailedError as error:
        raise no_answer(error, target, f"{target.root}/{key} was not written") from error
    if answer.status_code in _GONE:
        raise changed
    return answer.ok


def _google_token(storage: GcsStorage) -> str | None:
    """A token that is valid for some minutes; None without google-auth, which is an extra, or without credentials."""
    try:
        from google.auth.exceptions import GoogleAuthError  # noqa: PLC0415 - an extra
        from google.auth.transport.requests import Request  # noqa: PLC0415
    except ImportError:
        return None
    try:
        credentials = _google_credentials(storage)
        if not credentials.valid:
            credentials.refresh(Request())
    except (OSError, ValueError, GoogleAuthError):
        return None  # the clients that copy bytes say what is wrong
    return str(credentials.token)


@lru_cache(maxsize=8)
def _google_credentials(storage: GcsStorage) -> Any:  # noqa: ANN401 - google-auth has no types
    """The credentials of a storage; kept, because each new token is a request."""
    import google.auth  # noqa: PLC0415 - an extra

    if storage.service_account is None:
        credentials, _ = google.auth.default(scopes=[_GOOGLE_SCOPE])
    else:
        load = google.auth.load_credentials_from_file
        credentials, _ = load(storage.service_account, scopes=[_GOOGLE_SCOPE])  # type: ignore[no-untyped-call]
    return credentials


class _FailedError(Exception):
    """The request may succeed later; the text has no signature."""


def copy_in_azure(
    source: AzureStorage, original: Original, target: AzureStorage, key: str, changed: SourceChangedError
) -> bool:
    """Let Azure copy a blob. The request names the original by a URL that the source's credentials have signed.

    Returns:
        Whether it did; False if it refuses, or these credentials cannot sign.

    Raises:
        SourceChangedError: `changed`, if the original is gone or has another ETag.
        StorageUnreachableError: the store failed, also after retries.
    """
    try:
        original_url = _signed(source, "GET", original.key)
        url, state_url = _signed(target, "PUT", key), _signed(target, "HEAD", key)
    except ObstoreError:
        return False
    headers = {
        "x-ms-version": _AZURE_VERSION,
        "x-ms-copy-source": original_url,
        "x-ms-source-if-match": f'"{original.etag}"',
        "x-ms-meta-written_by": "lake_assets",  # without metadata of its own a copy has that of the original
        "Content-Length": "0",
    }
    try:
        answer = _send(target, "PUT", url, headers)
        if answer.status_code in _GONE:
            raise changed
        if not answer.ok:
            return False
        states = [_state(answer)]

        def is_final() -> bool:
            if states[-1] == _PENDING:
                states.append(_state(_send(target, "HEAD", state_url, {"x-ms-version": _AZURE_VERSION})))
            return states[-1] != _PENDING

        poll(is_final, pause=pause_between(0.1, 2.0), limit=_AZURE_PATIENCE)
    except _FailedError as error:
        raise no_answer(error, target, f"{target.root}/{key} was not written") from error
    if states[-1] != "success":  # also if the original changed meanwhile
        raise StorageUnreachableError(
            f"the copy of {source.root}/{original.key} to {target.root}/{key} is {states[-1]}:", "run it again."
        )
    return True


def _state(answer: requests.Response) -> str:
    return answer.headers.get("x-ms-copy-status", "success")


def _signed(storage: AzureStorage, method: _Method, key: str) -> str:
    """The URL of a blob that carries the right to this request."""
    access, name = storage.access, _whole_key(storage.prefix, key)
    url = f"{access.url}/{storage.container}/{quote(name)}"
    if access.sas is not None:
        return f"{url}?{access.sas}"
    if access.key is None:
        return obstore.sign(cast("AzureStore", client(storage)), method, key, _VALID)
    # obstore signs the quoted name, which Azure refuses. Source of the form: Azure Storage's manual, "Create a service
    # SAS", version 2020-12-06 and later.
    fields = {
        "sp": _AZURE_RIGHTS[method], "st": "", "se": f"{dt.datetime.now(dt.UTC) + _VALID:%Y-%m-%dT%H:%M:%SZ}",
        "resource": f"/blob/{access.account}/{storage.container}/{name}", "si": "", "sip": "", "spr": "",
        "sv": _AZURE_VERSION, "sr": "b",
    }  # fmt: skip
    text = "\n".join([*fields.values(), *[""] * 7])  # snapshot, encryption scope, and five headers of the answer
    digest = hmac.new(base64.b64decode(access.key), text.encode(), hashlib.sha256).digest()
    query = {field: value for field, value in fields.items() if value and field != "resource"}
    return f"{url}?{urlencode(query | {'sig': base64.b64encode(digest).decode()})}"


def _send(
    target: GcsStorage | AzureStorage, method: str, url: str, headers: Mapping[str, str], seconds: float = 0
) -> requests.Response:
    of_target = target.requests
    timeouts = (of_target.connect_timeout, max(seconds, of_target.timeout))
    send = partial(_send_once, method, url, headers, timeouts)
    return retry(send, passes=_FailedError, limit=retries(of_target), pause=pauses(of_target))


def _send_once(method: str, url: str, headers: Mapping[str, str], timeouts: tuple[float, float]) -> requests.Response:
    try:
        answer = requests.request(method, url, headers=headers, timeout=timeouts, allow_redirects=False)
    except requests.RequestException as error:
        raise _FailedError(f"no answer ({type(error).__name__})") from None  # its text has the signature
    if answer.status_code >= http.HTTPStatus.INTERNAL_SERVER_ERROR:
        raise _FailedError(f"status code: {answer.status_code}")
    return answer


def _whole_key(prefix: str, key: str) -> str:
    return f"{prefix}/{key}" if prefix else key
