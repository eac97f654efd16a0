"""What boto3's client does in S3 and R2, and obstore's cannot: lists any key, copies under a condition, aborts uploads.

S3 keeps the parts of abandoned multipart uploads, and no listing of objects shows them.

Azure and Google copy objects too. No client that is installed here asks them to under the original's ETag and between
two buckets (obstore's copy has no condition, and works within one bucket), so there the bytes pass through the task.
"""

import http
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from lake_assets.base.errors import StorageError
from lake_assets.base.retrying import Result
from lake_assets.base.texts import visible_name
from lake_assets.config.storages import AnyStorage, R2Storage, S3Storage
from lake_assets.storage import retry_window
from lake_assets.storage.clients import as_boto
from lake_assets.storage.manifest import Original
from lake_assets.storage.server_answers import DELETION, answer_of, may_pass
from lake_assets.storage.storage_errors import changed_object, location, no_answer

if TYPE_CHECKING:
    from obstore import ObjectMeta

WHOLE = 5 * 2**30  # bytes that S3 copies by one request
PART = 512 * 2**20  # bytes of each part of a larger object
_PARTS = 8  # at a time
_ANSWER = 600.0  # seconds that the copy of a large object may take
_GONE = {http.HTTPStatus.NOT_FOUND, http.HTTPStatus.PRECONDITION_FAILED}
_CHECKSUMS = ("SHA256", "CRC64NVME")
_CONTENT = "application/vnd.apache.parquet"


def abort_uploads(storage: AnyStorage, prefix: str) -> None:
    """Abort the uploads to keys with this prefix, which no other attempt has; only S3 and R2 have such uploads.

    Google Cloud Storage and Azure delete theirs after a week. A store that does not permit it is left as it is.
    """
    if not isinstance(storage, S3Storage | R2Storage):
        return
    with suppress(OSError), _as_os_errors():  # a rule of the bucket's lifecycle removes what is left
        retried(storage, partial(_abort, storage, _whole_key(storage, prefix)))


def page(storage: S3Storage | R2Storage, prefix: str, after: str) -> tuple["list[ObjectMeta]", bool]:
    """Return up to 1,000 objects below a folder whose keys sort after a text, and whether others follow.

    Keys are exactly as they are named. Raises OSError if the store refuses or fails.
    """
    root = _whole_key(storage, "")
    answer = _listing(storage, prefix, **{"StartAfter": f"{root}{after}"} if after else {})
    objects: list[ObjectMeta] = [
        {
            "path": listed["Key"].removeprefix(root),
            "last_modified": listed["LastModified"],
            "size": listed["Size"],
            "e_tag": listed["ETag"],
            "version": None,
        }
        for listed in answer.get("Contents", ())
    ]
    return objects, answer["IsTruncated"]


def folders(storage: S3Storage | R2Storage, prefix: str) -> list[str]:
    """Return the folders right below a folder, from the storage's root on and without a slash at their ends."""
    root, following, names = _whole_key(storage, ""), dict[str, str](), list[str]()
    while True:
        answer = _listing(storage, prefix, Delimiter="/", **following)
        names += [listed["Prefix"].removeprefix(root)[:-1] for listed in answer.get("CommonPrefixes", ())]
        if not answer["IsTruncated"]:
            return names
        page = [entry for kind in ("CommonPrefixes", "Contents") for entry in answer.get(kind, ())]
        last = max(entry.get("Prefix") or entry["Key"] for entry in page)
        token, before = answer.get("NextContinuationToken"), following
        following = {"ContinuationToken": token} if token else {"StartAfter": re.sub("/$", "0", last)}
        if following == before:
            raise endless(storage, last)


def endless(storage: AnyStorage, key: str) -> StorageError:
    """Return the error for a store that lists what it has listed already."""
    return StorageError(
        f"{storage.root} lists {visible_name(key)} again and again, so that its listing has no end:",
        "let the store's operator correct the pages of its listings, and run it again.",
    )


def _listing(storage: S3Storage | R2Storage, prefix: str, **request: str) -> Mapping[str, Any]:
    below = _whole_key(storage, f"{prefix.rstrip('/')}/" if prefix else "")
    ask = partial(_client(storage).list_objects_v2, Bucket=storage.bucket, Prefix=below, **request)
    with _as_os_errors():
        answer: Mapping[str, Any] = retried(storage, ask)
    if "IsTruncated" not in answer:
        raise StorageError(
            f"{location(storage)} does not list objects as S3 does, but answers with a page:",
            "correct `endpoint` to the address of its API.",
        )
    return answer


def _abort(storage: S3Storage | R2Storage, beginning: str) -> None:
    client = _client(storage)
    for page in client.get_paginator("list_multipart_uploads").paginate(Bucket=storage.bucket, Prefix=beginning):
        for upload in page.get("Uploads", ()):
            if upload["Key"].startswith(beginning):
                client.abort_multipart_upload(Bucket=storage.bucket, Key=upload["Key"], UploadId=upload["UploadId"])


def retried(storage: S3Storage | R2Storage, work: Callable[[], Result]) -> Result:
    """Call `work`, which sends requests of boto3's client, with the storage's retries and pauses.

    boto3 retries too, but its pauses are random from zero on, so that it may give up at once.
    """
    return retry_window.retried(storage, _is_transient, work)


def _is_transient(error: BaseException) -> bool:
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - boto3 takes its time

    return isinstance(error, (BotoCoreError, ClientError)) and may_pass(error)


def _status(error: BaseException) -> int:
    """Return the HTTP status of an answer; 0 for another error."""
    answer = answer_of(error)
    return answer.status if answer else 0


@lru_cache(maxsize=8)
def _client(storage: S3Storage | R2Storage, seconds: float = 0) -> Any:  # noqa: ANN401 - boto3 makes its clients' classes when it runs
    """Make the client of a storage; that takes longer than most of its requests."""
    return as_boto(storage, seconds=seconds)


def delete_if_match(storage: S3Storage | R2Storage, key: str, etag: str) -> bool | None:
    """Delete an object if it has this ETag, by one request; False if the key has another object.

    None if the server does not know the condition; nothing was deleted then.
    """
    where = {"Bucket": storage.bucket, "Key": _whole_key(storage, key), "IfMatch": f'"{etag}"'}
    try:
        with _as_os_errors():
            retried(storage, partial(_client(storage).delete_object, **where))
    except OSError as error:
        if (status := _status(error)) in DELETION:
            return DELETION[status]
        raise
    return True


def checksum(storage: S3Storage | R2Storage, key: str, etag: str) -> str:
    """Return the checksum that the store keeps of a whole object of this ETag, such as `CRC64NVME:…`; empty if none.

    One of the parts of an upload is left out: the same content in other parts has another one.
    """
    where = {"Bucket": storage.bucket, "Key": _whole_key(storage, key), "IfMatch": f'"{etag}"'}
    with suppress(OSError), _as_os_errors():  # then the content is unknown, as in other stores
        head = _client(storage).head_object(**where, ChecksumMode="ENABLED")
        if head.get("ChecksumType", "FULL_OBJECT") == "FULL_OBJECT":
            known = (f"{kind}:{head[f'Checksum{kind}']}" for kind in _CHECKSUMS if f"Checksum{kind}" in head)
            return next((text for text in known if "-" not in text), "")  # `-N`: of N parts
    return ""


def tag(storage: S3Storage, key: str, name: str, value: str) -> None:
    """Add a tag to an object, beside those that it has."""
    where, client = {"Bucket": storage.bucket, "Key": _whole_key(storage, key)}, _client(storage)
    with _as_os_errors():
        known = retried(storage, partial(client.get_object_tagging, **where))["TagSet"]
        tags = {tag["Key"]: tag["Value"] for tag in known}
        if tags.get(name) != value:
            whole = [{"Key": tag_name, "Value": text} for tag_name, text in (tags | {name: value}).items()]
            retried(storage, partial(client.put_object_tagging, **where, Tagging={"TagSet": whole}))


@contextmanager
def _as_os_errors() -> Iterator[None]:
    """Raise boto3's errors as the system's; their causes have the answers."""
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - boto3 takes its time

    try:
        yield
    except (ClientError, BotoCoreError) as error:
        raise OSError(str(error)) from error


def copy_in_s3(source: S3Storage | R2Storage, original: Original, target: S3Storage | R2Storage, key: str) -> bool:
    """Let S3 or R2 copy an object, with the credentials of the target.

    Returns False if it refuses these credentials the original, or does not know such requests. Raises
    SourceChangedError if the original is gone or has another ETag.
    """
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - boto3 takes its time

    request = {
        "Bucket": target.bucket,
        "Key": _whole_key(target, key),
        "CopySource": {"Bucket": source.bucket, "Key": _whole_key(source, original.key)},
        "CopySourceIfMatch": f'"{original.etag}"',
    }
    try:
        s3 = _client(target, _ANSWER)
        if original.size > WHOLE:
            _copy_parts(s3, request, original.size, target, key)
        else:
            # R2 has no tags, and refuses a request that names them.
            tags = {} if isinstance(target, R2Storage) else {"TaggingDirective": "REPLACE"}
            copy = partial(s3.copy_object, **request, MetadataDirective="REPLACE", ContentType=_CONTENT, **tags)
            retried(target, copy)
    except (ClientError, BotoCoreError) as error:
        if _status(error) in _GONE:
            raise changed_object(f"{source.root}/{original.key}") from error
        if _is_transient(error):
            raise no_answer(error, target, f"{target.root}/{key} was not written") from error
        return False
    return True


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


def _whole_key(storage: S3Storage | R2Storage, key: str) -> str:
    return f"{storage.prefix}/{key}" if storage.prefix else key
