"""What the clients and servers of storages and queues say: all texts, codes and numbers that decide what is done.

Codes are provoked at each verb of each client by `storage/test_answers.py`, on a server that answers in the form of the
vendor's manual, and the texts of clients by `storage/test_vendor_errors.py`.
"""

import errno
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from types import MappingProxyType

from obstore.exceptions import InvalidPathError, NotFoundError, PermissionDeniedError, UnauthenticatedError

from lake_assets.base.texts import VendorText, VendorTexts


class Meaning(Enum):
    """What an error says of a storage or queue."""

    ARCHIVED = auto()  # an object has to be restored before it can be read
    LONG_NAME = auto()  # the name of an object is too long
    OTHER_REGION = auto()  # the bucket is in another region
    WRONG_CLOCK = auto()  # the time of the request is not that of the server
    UNTRUSTED = auto()  # the server's certificate is signed by none that this machine trusts, or is of another server
    FULL = auto()  # there is no space left
    WRONG_KEY = auto()  # the key itself is refused
    REFUSED = auto()  # access is refused; the key may lack a right
    ABSENT = auto()  # the bucket, container or queue does not exist
    NOT_FOUND = auto()  # there is no such object
    WRONG_REQUEST = auto()  # the request is refused for another reason, and would be again
    TRANSIENT = auto()  # a client or server of a cloud failed; the same may succeed later
    LINK_LOOP = auto()  # a symbolic link of a folder leads back to itself


_BY_CODE = {
    Meaning.ARCHIVED: "InvalidObjectState BlobArchived BlobBeingRehydrated",
    Meaning.LONG_NAME: "KeyTooLong KeyTooLongError OutOfRangeInput InvalidResourceName",
    Meaning.OTHER_REGION: "PermanentRedirect AuthorizationHeaderMalformed IllegalLocationConstraintException "
    "IncorrectEndpoint",
    Meaning.WRONG_CLOCK: "RequestTimeTooSkewed RequestExpired",
    Meaning.FULL: "StorageFull InsufficientStorage QuotaExceeded XMinioStorageFull",
    Meaning.WRONG_KEY: "InvalidAccessKeyId SignatureDoesNotMatch InvalidSignature InvalidClientTokenId "
    "UnrecognizedClient UnrecognizedClientException MissingAuthenticationToken ExpiredToken InvalidToken "
    "AuthenticationFailed NoAuthenticationInformation Unauthenticated InvalidSecurity",
    Meaning.REFUSED: "AccessDenied AccessDeniedException AccessForbidden AllAccessDisabled AccountProblem "
    "AuthorizationFailure AuthorizationPermissionMismatch InsufficientAccountPermissions PermissionDenied",
    Meaning.ABSENT: "NoSuchBucket ContainerNotFound NonExistentQueue QueueDoesNotExist",
    Meaning.NOT_FOUND: "NoSuchKey BlobNotFound NotFound",
    Meaning.TRANSIENT: "SlowDown InternalError InternalFailure InternalServerException ServiceUnavailable "
    "ServiceUnavailableException Throttling ThrottlingException RequestThrottled RequestTimeout OperationAborted "
    "ServerBusy OperationTimedOut Unavailable DeadlineExceeded Internal ResourceExhausted Aborted",
}
CODES: Mapping[str, Meaning] = MappingProxyType(
    {code.lower(): means for means, codes in _BY_CODE.items() for code in codes.split()}
)
"""What the codes of S3, SQS, Azure and Google say, in lower case, for every client.

Sources: "Error responses" of S3's manual, "Common REST API error codes" of Azure Storage's, and the status codes of
gRPC. `RequestTimeout` is a 400 that S3 asks to repeat.
"""


def _of_status(status: int) -> Meaning | None:
    """Return what an answer of HTTP says that has no known code."""
    known = {301: Meaning.OTHER_REGION, 307: Meaning.OTHER_REGION, 401: Meaning.WRONG_KEY, 403: Meaning.REFUSED}
    known |= {404: Meaning.NOT_FOUND, 408: Meaning.TRANSIENT, 429: Meaning.TRANSIENT, 507: Meaning.FULL}
    known |= {501: Meaning.WRONG_REQUEST}
    first = {4: Meaning.WRONG_REQUEST, 5: Meaning.TRANSIENT}
    return known.get(status) or first.get(status // 100)


# What clients say where they have no answer of a server, or do not pass it on.
CLIENTS = (
    VendorText(r"InvalidCertificate\(\s*\w+", Meaning.UNTRUSTED, "obstore does not trust a certificate"),
    VendorText("SSL peer certificate", Meaning.UNTRUSTED, "Arrow or DuckDB does not trust a certificate"),
    VendorText("CERTIFICATE_VERIFY_FAILED", Meaning.UNTRUSTED, "boto3 does not trust a certificate"),
    VendorText("redirect without LOCATION", Meaning.OTHER_REGION, "S3's 301, as obstore passes it on"),
    VendorText("Error getting list response body", Meaning.TRANSIENT, "the connection breaks during a listing"),
    VendorText("AuthenticationException", Meaning.WRONG_KEY, "Azure's credential chain has no credentials"),
    VendorText("Unable to locate credentials", Meaning.WRONG_KEY, "boto3's credential chain has no credentials"),
    VendorText("[Tt]he specified (?:bucket|container) does not", Meaning.ABSENT, "Google has no such bucket"),
    VendorText("non-partial response", Meaning.WRONG_REQUEST, "a server ignores the range of a request of obstore"),
    VendorText(
        r"AWS Error \[code", Meaning.WRONG_REQUEST, "Arrow has no name for a code of S3, none of which is transient"
    ),
    VendorText(
        "AWS Error|Azure Error|google::cloud::Status| error for HTTP [A-Z]+ to '",
        Meaning.TRANSIENT,
        "any other error, or the server does not answer",
    ),
)

FOLDER = (
    VendorText("(?s:File system loop found: (.+) points to an ancestor (.+))", Meaning.LINK_LOOP, "a folder is listed"),
)

_TEXTS = VendorTexts({"clients": CLIENTS, "folder": FOLDER}, ignoring_case={Meaning.TRANSIENT})
VENDORS = _TEXTS.vendors

NUMBERS: Mapping[int, Meaning] = MappingProxyType(
    {
        **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), Meaning.FULL),
        errno.ENAMETOOLONG: Meaning.LONG_NAME,
        **dict.fromkeys((errno.EACCES, errno.EPERM), Meaning.REFUSED),
        errno.ELOOP: Meaning.LINK_LOOP,
        **dict.fromkeys(
            (
                *(errno.EIO, errno.ESTALE, errno.EAGAIN, errno.EBUSY, errno.EINTR, errno.EPIPE),
                *(errno.EMFILE, errno.ENFILE, errno.ETIMEDOUT, errno.ECONNREFUSED, errno.ECONNRESET),
                *(errno.ECONNABORTED, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETUNREACH),
            ),
            Meaning.TRANSIENT,
        ),
    }
)
"""What the numbers of the operating system say; they are POSIX's, so no test provokes them."""

DELETION: Mapping[int, bool | None] = MappingProxyType(
    {**dict.fromkeys((200, 204, 404), True), **dict.fromkeys((409, 412), False), **dict.fromkeys((400, 501), None)}
)
"""Whether an object is gone after S3's answer to `DELETE` with `If-Match`, by the status; None if S3 does not know
the condition. 409 is the answer while another request is at work on the same name."""

# Where clients have a server's code: obstore, Arrow of S3 (in capitals), of Azure and of Google, DuckDB of Azure.
_CODES = re.compile(
    r"<Code>(\w+)</Code>|\(code: (\w+)\)|ExceptionName: (\w+)|AWS Error (?!UNKNOWN|NETWORK_CONNECTION)(\w+)|"
    r"Azure Error: \[(\w+)\]|google::cloud::Status\((\w+): |"
    r"failed with (?:code ')?(\w+)'?,? Reason Phrase"
)
_WORDS = re.compile(
    r"<Message>(.*?)</Message>|Azure Error: \[\w+\] (.*)|"
    r"AWS Error .*? during \w+ operation: (?:Unable to parse ExceptionName: \w+ Message: )?(.*)",
    re.DOTALL,
)
_STATUS = re.compile(
    r"(?:HTTP status|status code:?|\(HTTP(?: code)?|Azure Error: \[\w*\]|http_status_code=) ?(\d{3})\b"
)
_FILE = re.compile(r"(?s:(?:Unable to \w+ file|error for operation on|Unable to canonicalize path) (/.*?): )")
_NUMBER = re.compile(r"\(os error (\d+)\)")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server has answered, whichever client got it."""

    status: int  # of HTTP; 0 where the client does not say
    code: str  # as the client has it; empty without one
    words: str  # the server's own; empty without a body


def answer_of(error: BaseException) -> Answer | None:
    """Return what a server has answered; None if the error is not of an answer, or the client does not pass it on."""
    if response := getattr(error, "response", None) or getattr(error.__cause__, "response", None):  # boto3's
        details, about = response.get("Error", {}), response.get("ResponseMetadata", {})
        named = str(details.get("Code", "")).rpartition(".")[2]  # of SQS with its service before it
        named = "" if named.isdigit() else named
        return Answer(int(about.get("HTTPStatusCode", 0)), named, str(details.get("Message", "")))
    text = f"{error}\n{getattr(error, 'body', '')}"  # DuckDB's
    status, code, words = (pattern.search(text) for pattern in (_STATUS, _CODES, _WORDS))
    number = getattr(error, "status_code", None) or (status and status[1]) or 0
    if not number and not code:
        return None
    own = re.sub(r"RequestId:.*", "", " ".join(_group(words).split()))  # Azure's, another one in each answer
    return Answer(int(number), _group(code), own.strip())


def _group(match: re.Match[str] | None) -> str:
    return next(filter(None, match.groups()), "") if match else ""


_KINDS = (
    (UnauthenticatedError, Meaning.WRONG_KEY),
    ((PermissionDeniedError, PermissionError), Meaning.REFUSED),
    ((NotFoundError, FileNotFoundError), Meaning.NOT_FOUND),
    (InvalidPathError, Meaning.WRONG_REQUEST),
)
"""What the classes of errors say that have neither a number nor an answer."""


def client_text(error: object, means: Meaning) -> re.Match[str] | None:
    """Return where the text of a client says this."""
    return _TEXTS.find(error, means)


def meaning_of(error: BaseException) -> Meaning | None:
    """Return what an error of a storage says, whichever client raised it; None if it is unknown.

    The server's code decides, or else the system's number, the status of the answer, and the client's own text.
    """
    answer = answer_of(error)
    if answer is not None and (means := CODES.get(answer.code.replace("_", "").lower())):
        return means
    number = error.errno if isinstance(error, OSError) else None
    if number is not None and number in NUMBERS:
        return NUMBERS[number]
    if answer is not None and ((means := _of_status(answer.status)) or answer.code):
        return means or Meaning.WRONG_REQUEST
    for kinds, means in _KINDS:
        if isinstance(error, kinds):
            return means
    # A number says that the storage has answered.
    meanings = [means for means in Meaning if number is None or means is not Meaning.TRANSIENT]
    return next((means for means in meanings if client_text(error, means)), None)


def request_may_pass(error: BaseException) -> bool:
    """Return whether the same request may succeed later, which no client decides by itself where it can be told."""
    return meaning_of(error) in (None, Meaning.TRANSIENT)


def is_absent(error: BaseException) -> bool:
    """Return whether the whole bucket or container does not exist."""
    return meaning_of(error) is Meaning.ABSENT


def file_and_number(error: Exception) -> tuple[str | None, int | None]:
    """Return the path that obstore's error of a folder names, and the system's number."""
    path, number = _FILE.search(str(error)), _NUMBER.search(str(error))
    return (path[1] if path else None), (int(number[1]) if number else None)
