"""A bucket of S3 or R2.

boto3's client does what obstore's cannot: it lists any key, copies under a condition, and aborts uploads.

S3 keeps the parts of abandoned multipart uploads, and no listing of objects shows them.

Azure and Google copy objects too. No client that is installed here asks them to under the original's ETag and between
two buckets (obstore's copy has no condition, and works within one bucket), so there the bytes pass through the task.
"""

# ruff: noqa: D102 - `Backend` says what the methods do

import datetime as dt
import http
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from threading import Lock, RLock
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from obstore.exceptions import InvalidPathError
from obstore.store import S3Store
from pyarrow import fs

from lake_assets.base.errors import StorageError
from lake_assets.base.retrying import Result
from lake_assets.config.layout.hive import is_odd
from lake_assets.config.storages import AnyStorage, R2Storage, S3Storage
from lake_assets.storage import patience
from lake_assets.storage.backend import duckdb_keys, obstore_options, sql_literals
from lake_assets.storage.boto import boto_options, s3_client
from lake_assets.storage.bucket import PAGE, Bucket
from lake_assets.storage.manifest import LandedObject
from lake_assets.storage.server_answers import DELETION, answer_of, request_may_pass
from lake_assets.storage.storage_errors import changed_object, location, no_answer, no_credentials, no_role

if TYPE_CHECKING:
    from obstore import ObjectMeta

COPIED_WHOLE = 5 * 2**30  # bytes that S3 copies by one request
PART = 512 * 2**20  # bytes of each part of a larger object
_PARTS = 8  # at a time
_ANSWER = 600.0  # seconds that the copy of a large object may take
_GONE = {http.HTTPStatus.NOT_FOUND, http.HTTPStatus.PRECONDITION_FAILED}
_CHECKSUMS = ("SHA256", "CRC64NVME")
_CONTENT = "application/vnd.apache.parquet"
_ENVIRONMENT = Lock()
_CHECKSUM_RULES = ("AWS_REQUEST_CHECKSUM_CALCULATION", "AWS_RESPONSE_CHECKSUM_VALIDATION")
_FRESH = dt.timedelta(minutes=10)  # for which obstore keeps keys of a chain or role
_RENEWED = 20 * 60  # seconds before keys of a role expire


class S3Bucket(Bucket[S3Storage | R2Storage]):
    """A bucket of S3, or of R2 by S3's protocol."""

    extension: ClassVar[str | None] = "httpfs"

    def as_obstore(self) -> S3Store:
        storage = self.storage
        options: dict[str, Any] = {"prefix": storage.prefix or None, **obstore_options(storage)}
        if storage.anonymous:
            options["skip_signature"] = True
        elif storage.role or storage.key_id is None:
            options["credential_provider"] = _aws_chain(storage)
        else:
            keys = zip(("access_key_id", "secret_access_key", "session_token"), storage.keys, strict=True)
            options |= {name: key for name, key in keys if key is not None}
        if storage.requester_pays:
            options["request_payer"] = True
        # Without an endpoint, obstore takes that of the environment. This is its own of AWS.
        scheme, _, host = (storage.server_url or f"https://s3.{storage.region}.amazonaws.com").partition("://")
        return S3Store(
            storage.bucket,
            region=storage.region,
            endpoint=f"{scheme}://{storage.bucket}.{host}" if storage.is_virtual else f"{scheme}://{host}",
            virtual_hosted_style_request=storage.is_virtual,
            **options,
        )

    def as_arrow(self) -> fs.FileSystem | None:
        storage = self.storage
        # Arrow does not say that the requester pays, and does not renew a role's keys.
        if storage.requester_pays or storage.role:
            return None
        endpoint = urlsplit(storage.server_url) if storage.server_url else None
        key_id, secret, token = storage.keys
        options = {} if storage.certificates is None else {"tls_ca_file_path": storage.certificates}
        options |= {} if not storage.proxy else {"proxy_options": storage.proxy.get_secret_value()}
        attempts = patience.of_arrows_s3(storage.requests)
        with _checksum_rule(storage.checksums):
            return fs.S3FileSystem(
                access_key=key_id,
                secret_key=secret,
                session_token=token,
                anonymous=storage.anonymous,
                region=storage.region,
                endpoint_override=endpoint.netloc if endpoint else None,
                scheme=endpoint.scheme if endpoint else "https",
                force_virtual_addressing=storage.is_virtual,
                # A small file is one request, and not a multipart upload of three.
                allow_delayed_open=True,
                connect_timeout=storage.requests.connect_timeout,
                request_timeout=storage.requests.timeout,
                retry_strategy=fs.AwsDefaultS3RetryStrategy(max_attempts=attempts),
                **options,
            )

    def as_boto(self, *, seconds: float = 0) -> Any:  # noqa: ANN401 - boto3 makes its clients' classes when it runs
        """Make boto3's client with the keys of the storage; see `s3_client`."""
        from boto3.session import Session  # noqa: PLC0415 - boto3 takes its time

        session = role_session(self.storage) if self.storage.role else Session(*self.storage.keys)
        return s3_client(self.storage, session, seconds)

    def as_duckdb_secret(self) -> dict[str, str]:
        # Type s3 for R2 too, because its URIs are S3's: DuckDB prefers any secret of type s3 to one of type r2, also a
        # secret that the user has stored for other buckets.
        storage = self.storage
        options = {"TYPE": "s3", **sql_literals(SCOPE=f"s3://{storage.bucket}")}
        keys = role_session(storage).get_credentials().get_frozen_credentials() if storage.role else storage.keys
        options |= {} if storage.anonymous else duckdb_keys(*keys[:3])
        options |= sql_literals(REGION=storage.region)
        if storage.server_url is not None:
            endpoint = urlsplit(storage.server_url)
            options |= {**sql_literals(ENDPOINT=endpoint.netloc), "USE_SSL": str(endpoint.scheme == "https").lower()}
        if storage.server_url is not None or not storage.is_virtual:
            options |= sql_literals(URL_STYLE="vhost" if storage.is_virtual else "path")
        return options | ({"REQUESTER_PAYS": "true"} if storage.requester_pays else {})

    @property
    def is_chained(self) -> bool:
        return self.storage.key_id is None and not self.storage.role and not self.storage.anonymous

    def _exact_pages(self, prefix: str, after: str | None) -> Iterator[Sequence["ObjectMeta"]]:
        """Yield obstore's pages; boto3 lists a page with a name that obstore refuses, in ten times the time."""
        while True:
            number = 0  # of objects that obstore has listed
            with suppress(InvalidPathError):
                for page in super()._exact_pages(prefix, after):
                    yield page
                    after, number = page[-1]["path"], number + len(page)
                # Some stores, as older ones of Ceph, say that more follows without the token by which obstore asks for
                # it, and it takes the page of a proxy or console for a listing without objects.
                if number % PAGE or not (number or after is None):
                    return
            is_more = is_next_odd = True
            while is_more and is_next_odd:
                exact, is_more = self.page(prefix, after or "")
                if exact:
                    yield exact
                    after = exact[-1]["path"]
                    is_next_odd = is_odd(after)
            if not is_more:
                return

    def page(self, prefix: str, after: str) -> tuple["list[ObjectMeta]", bool]:
        """Return up to 1,000 objects below a folder whose keys sort after a text, and whether others follow.

        Keys are exactly as they are named. Raises OSError if the store refuses or fails.
        """
        root = self._whole_key("")
        answer = self._listing(prefix, **{"StartAfter": f"{root}{after}"} if after else {})
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

    def _folder_names(self, prefix: str) -> Sequence[str]:
        root, following, names = self._whole_key(""), dict[str, str](), list[str]()
        while True:
            answer = self._listing(prefix, Delimiter="/", **following)
            names += [listed["Prefix"].removeprefix(root)[:-1] for listed in answer.get("CommonPrefixes", ())]
            if not answer["IsTruncated"]:
                return names
            page = [entry for kind in ("CommonPrefixes", "Contents") for entry in answer.get(kind, ())]
            last = max(entry.get("Prefix") or entry["Key"] for entry in page)
            token, before = answer.get("NextContinuationToken"), following
            following = {"ContinuationToken": token} if token else {"StartAfter": re.sub("/$", "0", last)}
            if following == before:
                raise self.endless(last)

    def _listing(self, prefix: str, **request: str) -> Mapping[str, Any]:
        below = self._whole_key(f"{prefix.rstrip('/')}/" if prefix else "")
        ask = partial(_client(self.storage).list_objects_v2, Bucket=self.storage.bucket, Prefix=below, **request)
        with _boto_errors_as_os_errors():
            answer: Mapping[str, Any] = self._boto_request(ask)
        if "IsTruncated" not in answer:
            raise StorageError(
                f"{location(self.storage)} does not list objects as S3 does, but answers with a page:",
                "correct `endpoint` to the address of its API.",
            )
        return answer

    def _boto_request(self, work: Callable[[], Result]) -> Result:
        """Call `work`, which sends requests of boto3's client, with the storage's retries and pauses."""
        return self.retried(_is_transient, work)

    def delete_if_match(self, key: str, etag: str) -> bool | None:
        try:
            with _boto_errors_as_os_errors():
                self._boto_request(
                    partial(_client(self.storage).delete_object, **self._place(key), IfMatch=f'"{etag}"')
                )
        except OSError as error:
            if (status := _status(error)) in DELETION:
                return DELETION[status]
            raise
        return True

    def checksum(self, key: str, etag: str) -> str:
        with suppress(OSError), _boto_errors_as_os_errors():  # then the content is unknown, as in other stores
            head = _client(self.storage).head_object(**self._place(key), IfMatch=f'"{etag}"', ChecksumMode="ENABLED")
            if head.get("ChecksumType", "FULL_OBJECT") == "FULL_OBJECT":
                known = (f"{kind}:{head[f'Checksum{kind}']}" for kind in _CHECKSUMS if f"Checksum{kind}" in head)
                return next((text for text in known if "-" not in text), "")  # `-N`: of N parts
        return ""

    def tag(self, key: str, name: str, value: str) -> None:
        where, client = self._place(key), _client(self.storage)
        with _boto_errors_as_os_errors():
            known = self._boto_request(partial(client.get_object_tagging, **where))["TagSet"]
            tags = {tag["Key"]: tag["Value"] for tag in known}
            if tags.get(name) != value:
                whole = [{"Key": tag_name, "Value": text} for tag_name, text in (tags | {name: value}).items()]
                self._boto_request(partial(client.put_object_tagging, **where, Tagging={"TagSet": whole}))

    def abort_uploads(self, prefix: str) -> None:
        with suppress(OSError), _boto_errors_as_os_errors():
            self._boto_request(partial(self._abort, self._whole_key(prefix)))

    def _abort(self, beginning: str) -> None:
        client, bucket = _client(self.storage), self.storage.bucket
        for page in client.get_paginator("list_multipart_uploads").paginate(Bucket=bucket, Prefix=beginning):
            for upload in page.get("Uploads", ()):
                if upload["Key"].startswith(beginning):
                    client.abort_multipart_upload(Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])

    def copied_from(self, source: AnyStorage, original: LandedObject, key: str, *, may_link: bool) -> bool:  # noqa: ARG002 - S3 has no links
        """Return whether the server made the copy, with the credentials of the target and the ETag as a condition.

        It may refuse these credentials the original, or not know such requests.
        """
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - boto3 takes its time

        if not source.root.startswith("s3://") or source.server != self.storage.server:
            return False
        bucket, _, beginning = f"{source.root}/".removeprefix("s3://").partition("/")
        request = {
            **self._place(key),
            "CopySource": {"Bucket": bucket, "Key": f"{beginning}{original.key}"},
            "CopySourceIfMatch": f'"{original.etag}"',
        }
        try:
            s3 = _client(self.storage, _ANSWER)
            if original.size > COPIED_WHOLE:
                self._copy_parts(s3, request, original.size, key)
            else:
                # R2 has no tags, and refuses a request that names them.
                tags = {"TaggingDirective": "REPLACE"} if self.storage.has_tags else {}
                copy = partial(s3.copy_object, **request, MetadataDirective="REPLACE", ContentType=_CONTENT, **tags)
                self._boto_request(copy)
        except (ClientError, BotoCoreError) as error:
            if _status(error) in _GONE:
                raise changed_object(f"{source.root}/{original.key}") from error
            if _is_transient(error):
                undone = f"{self.storage.root}/{key} was not written"
                raise no_answer(error, self.storage, undone) from error
            return False
        return True

    def _copy_parts(self, s3: Any, request: Mapping[str, Any], size: int, key: str) -> None:  # noqa: ANN401 - boto3 makes its clients' classes when it runs
        """Copy an object in parts, each under the condition."""
        place = self._place(key)
        upload = self._boto_request(partial(s3.create_multipart_upload, **place, ContentType=_CONTENT))["UploadId"]

        def copy_part(number: int) -> dict[str, object]:
            start = (number - 1) * PART
            span = f"bytes={start}-{min(start + PART, size) - 1}"
            where = {"UploadId": upload, "PartNumber": number, "CopySourceRange": span}
            part = self._boto_request(partial(s3.upload_part_copy, **request, **where))
            return {"PartNumber": number, "ETag": part["CopyPartResult"]["ETag"]}

        try:
            with ThreadPoolExecutor(_PARTS) as pool:
                parts = list(pool.map(copy_part, range(1, -(-size // PART) + 1)))
            complete = partial(s3.complete_multipart_upload, **place, UploadId=upload, MultipartUpload={"Parts": parts})
            self._boto_request(complete)
        except BaseException:
            self.abort_uploads(key)
            raise

    def _place(self, key: str) -> dict[str, str]:
        return {"Bucket": self.storage.bucket, "Key": self._whole_key(key)}

    def _whole_key(self, key: str) -> str:
        return f"{self.storage.prefix}/{key}" if self.storage.prefix else key


_MAKING = RLock()


def _client(storage: S3Storage | R2Storage, seconds: float = 0) -> Any:  # noqa: ANN401 - boto3 makes its clients' classes when it runs
    """Return the client of a storage, which one thread makes and the others wait for."""
    with _MAKING:
        return _made(storage, seconds)


@lru_cache(maxsize=8)
def _made(storage: S3Storage | R2Storage, seconds: float) -> Any:  # noqa: ANN401 - boto3 makes its clients' classes when it runs
    """Make the client of a storage; that takes a third of a second."""
    return S3Bucket(storage).as_boto(seconds=seconds)


def _is_transient(error: BaseException) -> bool:
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - boto3 takes its time

    return isinstance(error, (BotoCoreError, ClientError)) and request_may_pass(error)


def _status(error: BaseException) -> int:
    """Return the HTTP status of an answer; 0 for another error."""
    answer = answer_of(error)
    return answer.status if answer else 0


@contextmanager
def _boto_errors_as_os_errors() -> Iterator[None]:
    """Raise boto3's errors as the system's; their causes have the answers."""
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - boto3 takes its time

    try:
        yield
    except (ClientError, BotoCoreError) as error:
        raise OSError(str(error)) from error


def _aws_chain(storage: S3Storage | R2Storage) -> object:
    """Return the storage's role, or AWS's own chain: environment, profiles, container and instance roles."""
    from obstore.auth.boto3 import Boto3CredentialProvider  # noqa: PLC0415 - boto3 takes its time

    try:
        provider = Boto3CredentialProvider(role_session(storage) if storage.has_role else None, ttl=_FRESH)
    except ValueError as error:
        raise no_credentials(storage.root) from error
    provider.config = {}  # the region is the storage's, not the profile's
    return provider


@lru_cache(maxsize=8)
def role_session(storage: S3Storage | R2Storage) -> Any:  # noqa: ANN401 - boto3 has no types
    """Return boto3's session with the keys of a storage's role, which it renews; raises StorageError without them.

    Keys that it gives are valid for 20 minutes at least, if the server gives them for that long.
    """
    import boto3  # noqa: PLC0415 - boto3 takes its time
    from botocore.credentials import RefreshableCredentials  # noqa: PLC0415
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415
    from botocore.session import Session  # noqa: PLC0415

    config = patience.of_boto(storage.requests, attempts=storage.requests.retries + 1)
    role, own = storage.role, boto3.session.Session(*storage.keys)
    assert role is not None  # noqa: S101 - see `has_role`
    request = {"RoleArn": role.arn, "RoleSessionName": role.session_name}
    request |= {"ExternalId": role.external_id} if role.external_id else {}

    def renewed() -> dict[str, str]:
        sts = own.client("sts", region_name=storage.region, endpoint_url=role.sts, **boto_options(storage, config))
        keys = sts.assume_role(**request)["Credentials"]
        of_boto = {"access_key": "AccessKeyId", "secret_key": "SecretAccessKey", "token": "SessionToken"}
        return {name: keys[key] for name, key in of_boto.items()} | {"expiry_time": keys["Expiration"].isoformat()}

    session = Session()
    try:
        session._credentials = RefreshableCredentials.create_from_metadata(  # noqa: SLF001 - it has no other way
            renewed(), renewed, "role", advisory_timeout=_RENEWED, mandatory_timeout=_RENEWED
        )
    except (ClientError, BotoCoreError) as error:
        raise no_role(error, storage, role.arn) from error
    return boto3.session.Session(botocore_session=session)


@contextmanager
def _checksum_rule(rule: str) -> Iterator[None]:
    """Let Arrow's client, which is made in the block, have a rule of checksums: it takes that of variables only."""
    with _ENVIRONMENT:
        before = {name: os.environ[name] for name in _CHECKSUM_RULES if name in os.environ}
        os.environ |= dict.fromkeys(_CHECKSUM_RULES, rule)
        try:
            yield
        finally:
            for name in _CHECKSUM_RULES:
                del os.environ[name]
            os.environ |= before
