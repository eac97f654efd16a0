"""The failures of a storage as errors that say how to fix them."""

import errno
import os
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from obstore.exceptions import InvalidPathError

from lake_assets.base.errors import (
    AbsentStorageError,
    LakeAssetsError,
    ObjectRefusedError,
    SourceChangedError,
    SourceError,
    StorageError,
    StorageUnreachableError,
    WholeStorageError,
)
from lake_assets.base.machine import user_name
from lake_assets.base.texts import visible_name
from lake_assets.config.secrets import mask_error
from lake_assets.config.storages import AnyStorage
from lake_assets.storage.boto import region_of
from lake_assets.storage.server_answers import Meaning, answer_of, client_text, file_and_number, meaning_of

Operation = Literal["list", "read", "write", "delete"]

_DONE: dict[Operation, str] = {"list": "listed", "read": "read", "write": "written", "delete": "deleted"}


@dataclass(frozen=True, slots=True)
class StorageRequest:
    """What was asked of a storage."""

    storage: AnyStorage
    operation: Operation
    uri: str | None = None  # of the object; None: on the storage, or on a folder in it
    refusing: Callable[[], str] | None = None  # the storage or folder that refuses access; it may send a request


@dataclass(frozen=True, slots=True)
class _Words:
    """What errors of a kind of storage say."""

    rights: Mapping[Operation, str]  # that an operation needs, by its name in the vendor's console
    key: str = "key_id and secret"  # the fields of the config that have it
    server: str = "endpoint"  # the field that names it
    bucket: str = "bucket"  # the field and the word
    has_checksums: bool = False
    region: Callable[[Any], str | None] = lambda _: None  # of a bucket, by a request
    may_pay: Callable[[Any], bool] = lambda _: False  # for requests, and the config does not permit it


_TERMS: Mapping[str, _Words] = MappingProxyType(
    {
        "s3": _Words(
            {"list": "s3:ListBucket", "read": "s3:GetObject", "write": "s3:PutObject", "delete": "s3:DeleteObject"},
            has_checksums=True,
            region=region_of,
            may_pay=lambda storage: not (storage.anonymous or storage.requester_pays),
        ),
        "r2": _Words(
            {
                "list": "Object Read",
                "read": "Object Read",
                "write": "Object Read & Write",
                "delete": "Object Read & Write",
            },
            has_checksums=True,
        ),
        "gcs": _Words(
            {
                "list": "storage.objects.list",
                "read": "storage.objects.get",
                "write": "storage.objects.create",
                "delete": "storage.objects.delete",
            },
            key="service_account",
            server="proxy",
        ),
        "azure": _Words(
            {
                "list": "the role Storage Blob Data Reader (of a sas: list)",
                "read": "the role Storage Blob Data Reader (of a sas: read)",
                "write": "the role Storage Blob Data Contributor (of a sas: create and write)",
                "delete": "the role Storage Blob Data Contributor (of a sas: delete)",
            },
            key="account_key, connection_string or sas",
            server="account",
            bucket="container",
        ),
        "web": _Words({}, server="url"),
        "local": _Words({}),
    }
)

# Of an error without an answer of the server: the request, which differs for each object.
_PREAMBLE = re.compile(
    r"^Generic \w+ error: |Error performing (?:list request: Error performing )?\w+ \S+ in [^\s,]+"
    r"(?:, after \d+ retries, max_retries: \d+, retry_timeout: \S+)? +- |"
    r"^.*?AWS Error \w+(?: \(HTTP status \d+\))? during \w+ operation: |^.*Azure Error: \[\w*\] |; Details: .*$"
)
_OF_CHECKSUMS = re.compile("ContentMD5|Content-MD5|x-amz-trailer|[Tt]railer|STREAMING-UNSIGNED|x-amz-checksum")
_REGION = re.compile(r"(?:expecting '|<Region>)([a-z0-9-]+)")


# The client checks a key when it gets one, and in the answer to a listing.
_ODD_NAME = re.compile(r'Path "([^"]*)"', re.DOTALL)


@contextmanager
def write_errors(storage: AnyStorage, uri: str) -> Iterator[None]:
    """Raise the errors of a block that writes one object as what `storage_error` returns, without secrets."""
    try:
        yield
    except OSError as error:
        mask_error(error, storage)
        raise storage_error(error, StorageRequest(storage, "write", uri)) from error


def odd_name(error: Exception, root: str, uri: str | None) -> LakeAssetsError | None:
    """Return the error for an object whose name the client does not accept; see `is_odd`. None for another error.

    It is a `SourceError` for one object, which `on_bad_object` may leave out.
    """
    if not isinstance(error, (InvalidPathError, ValueError)) or (match := _ODD_NAME.search(str(error))) is None:
        return None
    kind, name = (StorageError, f"{root}/{match[1].lstrip('/')}") if uri is None else (SourceError, uri)
    return kind(f"no client reads an object with such a name as {visible_name(name)}:", "rename it, or move it away.")


def storage_error(error: Exception, request: StorageRequest) -> LakeAssetsError:
    """Return the error of ours for one of any client or of the operating system.

    It is a SourceError or an ObjectRefusedError if only this object is the cause, a WholeStorageError if every object
    would have it, and a StorageUnreachableError if a retry may succeed.
    """
    storage, operation, uri = request.storage, request.operation, request.uri
    if storage.is_local and (refusal := folder_refusal(error, uri)):
        return refusal
    means, place, named = meaning_of(error), location(storage), visible_name(uri) if uri else ""
    undone = f"{named} was not {_DONE[operation]}" if uri else None
    if (whole := _whole(means, error, storage, undone)) is not None:
        return whole
    match means:
        case Meaning.ARCHIVED if uri:
            return SourceError(
                f"the object {named} is in an archive of {place}:",
                "restore it there and ingest the partition with --force, or let the stream's `files` leave it out.",
            )
        case Meaning.LONG_NAME:
            long = named or "the partition"
            return StorageError(
                f"{place} takes no name as long as that of {long}, which was not {_DONE[operation]}:",
                "shorten the partition's value; a folder takes 255 bytes a name, and a bucket 1,024 for a whole key.",
            )
        case Meaning.REFUSED:
            return _refused(error, request)
        case Meaning.NOT_FOUND if not uri:
            return StorageError(f"{storage.root} was removed while it was read:", "run it again.")
        case Meaning.TRANSIENT:
            return no_answer(error, storage, undone)
        case None if request.refusing is not None or not storage.is_local:  # `Store` tries a folder again
            return no_answer(error, storage, undone)
    problem = f"{named or storage.root} was not {_DONE[operation]} by {place}: {reason(error)}:"
    if _TERMS[storage.type].has_checksums and _OF_CHECKSUMS.search(problem):
        return StorageError(problem, "set `checksums: when_required` of the storage, and run it again.")
    return StorageError(problem, "correct the cause, and run it again.")


def _whole(
    means: Meaning | None, error: Exception, storage: AnyStorage, undone: str | None
) -> WholeStorageError | None:
    """Return the error that every request to the storage would have; None for another one."""
    place, more, own = location(storage), f": {undone}" if undone else "", _own_words(error)
    match means:
        case Meaning.OTHER_REGION:
            named = _REGION.search(f"{error} {getattr(error, 'body', '')}")
            region = named[1] if named else _TERMS[storage.type].region(storage)
            return WholeStorageError(
                f"the bucket of {storage.root} is in another region{f': {region}' if region else ''}{own}:",
                "set `region` of the storage to that of its bucket.",
            )
        case Meaning.WRONG_CLOCK:
            return WholeStorageError(
                f"{place} refuses requests with the time of this machine, whose clock is wrong{own}:",
                "set the clock, such as by NTP, and run it again.",
            )
        case Meaning.UNTRUSTED:
            return WholeStorageError(
                f"the certificate of {place} is not trusted: {reason(error)}:",
                "name the file of the authority that signed it as `certificates` of the storage, or in AWS_CA_BUNDLE; "
                "or correct the host in `endpoint`.",
            )
        case Meaning.FULL:
            return WholeStorageError(
                f"{place} has no space left{more}{own}:",
                "free space there, or move the storage to a larger disk or quota, and run it again.",
            )
        case Meaning.WRONG_KEY:
            refusal = f"{place if more else storage.root} refuses access{more}{own}:"
            return WholeStorageError(refusal, access_fix(storage))
        case Meaning.ABSENT:
            kind = _TERMS[storage.type].bucket
            return AbsentStorageError(
                f"the {kind} {storage.root.split('/')[2]!r} does not exist at {storage.server}{own}:",
                f"create it, or correct `{kind}` in the config.",
            )
    return None


def _refused(error: Exception, request: StorageRequest) -> StorageError:
    storage, operation, own = request.storage, request.operation, _own_words(error)
    fix = access_fix(storage, operation)
    if request.uri is None:
        place = request.refusing() if request.refusing else storage.root
        return StorageError(f"{place} refuses access{own}:", fix)
    # The names that are written are new, so no rule names them: every other object would be refused too.
    kind = WholeStorageError if operation == "write" else ObjectRefusedError
    return kind(
        f"{location(storage)} refuses access: {visible_name(request.uri)} was not {_DONE[operation]}{own}:", fix
    )


def _own_words(error: Exception) -> str:
    """Return the server's code and words in brackets; nothing if the error has none."""
    answer = answer_of(error)
    return f" ({reason(error)})" if answer is not None and (answer.code or answer.words) else ""


def no_answer(error: Exception, storage: AnyStorage, consequence: str | None = None) -> StorageUnreachableError:
    """Return the error for a storage that does not answer, or fails; `consequence` says what was not done."""
    more = f" or fails: {consequence}" if consequence else ""
    problem = f"{location(storage)} cannot be reached{more}: {reason(error)}:"
    if getattr(error, "errno", None) in (errno.EMFILE, errno.ENFILE):
        return StorageUnreachableError(problem, "raise the limit of open files (ulimit -n), and run it again.")
    return StorageUnreachableError(problem, _reach_fix(storage))


def changed_object(uri: str, what: str = "changed") -> SourceError:
    """Make the error for an object that is gone, or has another ETag than in its listing.

    It is a `SourceChangedError`, unless the object is a link in a folder to a file that does not exist.
    """
    if uri.startswith("/") and os.path.islink(uri) and not os.path.exists(uri):  # noqa: PTH110, PTH114 - odd bytes
        return SourceError(
            f"the object {visible_name(uri)} is a link to {visible_name(os.path.realpath(uri))}, which does not exist:",
            "restore that file, mount its disk, or remove the link.",
        )
    return SourceChangedError(
        f"the object {visible_name(uri)} {what} while its partition was being read:", "run it again."
    )


def no_credentials(*roots: str) -> StorageError:
    """Return the error for storages of S3's protocol whose credential chain has no credentials."""
    return StorageError(
        f"no credentials for {' and '.join(roots)} were found by the credential chain on {socket.gethostname()}:",
        "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile or a role, or give key_id and secret.",
    )


def no_role(error: Exception, storage: AnyStorage, role: str) -> LakeAssetsError:
    """Return the error for a role that the clients of a storage cannot assume."""
    match means := meaning_of(error):
        case Meaning.UNTRUSTED | Meaning.WRONG_CLOCK:
            return _whole(means, error, storage, None) or no_answer(error, storage)
        case Meaning.TRANSIENT | None:
            return StorageUnreachableError(
                f"no server gives the keys of the role {role}, of {storage.root}: {reason(error)}:",
                "correct `sts_endpoint` or `proxy` of the storage, or run it again when it answers.",
            )
    return WholeStorageError(
        f"the role {role} of {storage.root} cannot be assumed: {reason(error)}:",
        "let the role trust the user of the storage's keys, grant this user sts:AssumeRole, or correct role_arn and "
        "external_id.",
    )


def reason(error: Exception) -> str:
    """Return the server's own code and words, or the first line of a client's error without the request."""
    if (answer := answer_of(error)) is not None and (answer.code or answer.words):
        return ": ".join(filter(None, (answer.code, answer.words))).rstrip(".:; ")
    if untrusted := client_text(error, Meaning.UNTRUSTED):
        return re.sub(r"\(\s*", ": ", untrusted[0])
    text, before = " ".join(str(error).split("\n", 1)[0].split()), ""
    while text != before:
        text, before = _PREAMBLE.sub("", text), text
    return text.rstrip(".:; ")


def location(storage: AnyStorage) -> str:
    """Return a storage by its root and its server, for errors."""
    if storage.is_local:
        return f"the folder {storage.root}"
    return storage.root if storage.server is None else f"{storage.root} at {storage.server}"


def access_fix(storage: AnyStorage, operation: Operation | None = None) -> str:
    """Return how to fix a storage that refuses an operation, or, if that is None, the key itself."""
    words = _TERMS[storage.type]
    if not storage.is_listable:
        return "read public files over https://, and others from the bucket behind it."
    correct = f"correct {words.key}, or the role of the credential chain."
    if operation is None:
        return correct
    where = "the bucket" if operation == "list" else "it, or on the whole bucket"
    payer = " Where the requester pays, set `requester_pays: true`." if words.may_pay(storage) else ""
    return f"grant {words.rights[operation]} on {where}; if it is granted already, {correct}{payer}"


def _reach_fix(storage: AnyStorage) -> str:
    """Return how to fix a storage that does not answer."""
    if storage.is_local:
        return "repair the disk or network share, and run it again."
    return f"correct {_TERMS[storage.type].server} of the storage, or run it again when it answers."


def folder_refusal(error: Exception, uri: str | None) -> StorageError | None:
    """Return the error of ours for one of a folder, with the path and the fix; None if the cause is not known.

    The path is that of `uri` if the error has none.
    """
    if loop := client_text(error, Meaning.LINK_LOOP):
        return _loop(loop[1])
    path, number = file_and_number(error)
    if isinstance(error, OSError) and error.errno is not None:
        path, number = uri if error.filename is None else os.fsdecode(error.filename), error.errno
    if path is None or number is None:
        return None
    if number in (errno.EACCES, errno.EPERM):
        return StorageError(
            f"{path} refuses access: {os.strerror(number)}:",
            f"give the user {user_name() or os.geteuid()} rights to it (chmod, chown): to read a file, to read and "
            "enter a folder, to write where it writes.",
        )
    return _loop(path) if number == errno.ELOOP else None


def _loop(path: str) -> StorageError:
    return StorageError(f"{path} is a symbolic link that leads back to itself:", "remove the link, or correct it.")
