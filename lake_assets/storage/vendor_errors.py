"""What the clients and servers of storages and queues say, a table a vendor: all texts, codes and numbers that steer.

Each is provoked on the real client by `storage/test_vendor_errors.py`: on SeaweedFS, Azurite and moto, or, where these
do not have it (nobody here plays Google), on a server that answers in the form of the vendor's manual. Arrow writes the
codes of S3 in capitals, and obstore as the store does.
"""

import errno
import re
from collections.abc import Mapping
from enum import Enum, auto
from types import MappingProxyType

from lake_assets.vendor_texts import Text, Texts


class Meaning(Enum):
    """What an error says of a storage or queue; the first that an error says counts."""

    ARCHIVED = auto()  # an object has to be restored before it can be read
    OTHER_REGION = auto()  # the bucket is in another region
    WRONG_CLOCK = auto()  # the time of the request is not that of the server
    FULL = auto()  # there is no space left
    LONG_NAME = auto()  # the name of an object is too long
    WRONG_KEY = auto()  # the key itself is refused
    REFUSED = auto()  # access is refused; the key may lack a right
    ABSENT = auto()  # the bucket, container or queue does not exist
    WRONG_REQUEST = auto()  # the request is refused for another reason, and would be again
    TRANSIENT = auto()  # a client of a cloud failed; the same may succeed later
    BROKEN_OFF = auto()  # the answer to a listing has broken off
    LINK_LOOP = auto()  # a symbolic link of a folder leads back to itself


S3 = (
    Text("InvalidObjectState", Meaning.ARCHIVED, "an object is in an archive, such as Glacier"),
    Text("PermanentRedirect|redirect without LOCATION", Meaning.OTHER_REGION, "the server does not name the region"),
    Text("AuthorizationHeaderMalformed", Meaning.OTHER_REGION, "the server names the region"),
    Text("RequestTimeTooSkewed", Meaning.WRONG_CLOCK, "a clock is wrong by 15 minutes"),
    Text("StorageFull|InsufficientStorage|QuotaExceeded", Meaning.FULL, "a server of one's own is full"),
    Text("HTTP status 507", Meaning.FULL, "a server of one's own is full, and gives no code"),
    Text("KeyTooLong", Meaning.LONG_NAME, "a key has more than 1,024 bytes"),
    Text("INVALID_ACCESS_KEY_ID|InvalidAccessKeyId", Meaning.WRONG_KEY, "the server has no such key"),
    Text("SIGNATURE_DOES_NOT_MATCH|SignatureDoesNotMatch", Meaning.WRONG_KEY, "the secret is wrong"),
    Text("INVALID_SIGNATURE", Meaning.WRONG_KEY, "the server signs by other rules"),
    Text("INVALID_CLIENT_TOKEN_ID|UNRECOGNIZED_CLIENT", Meaning.WRONG_KEY, "the key is of no account"),
    Text("MISSING_AUTHENTICATION_TOKEN", Meaning.WRONG_KEY, "the request is not signed"),
    Text("ExpiredToken|InvalidToken", Meaning.WRONG_KEY, "the session_token is old or wrong"),
    Text(r"(?:HTTP status|status code:?) 401\b", Meaning.WRONG_KEY, "the server gives no code"),
    Text("ACCESS_DENIED|AccessDenied", Meaning.REFUSED, "the key lacks a right"),
    Text(r"(?:HTTP status|status code:?) 403\b", Meaning.REFUSED, "the server gives no code"),
    Text("NO_SUCH_BUCKET|NoSuchBucket", Meaning.ABSENT, "there is no such bucket"),
    # 408 and 429 ask for another try.
    Text(r"HTTP status 4(?!08|29)\d\d", Meaning.WRONG_REQUEST, "the server refuses the request"),
    Text("AWS Error|curl", Meaning.TRANSIENT, "any other error, or the server does not answer"),
    Text("Error getting list response body", Meaning.BROKEN_OFF, "the connection breaks during a listing"),
)

AZURE = (
    Text("OutOfRangeInput|InvalidResourceName", Meaning.LONG_NAME, "a name is too long, or not one of Azure's"),
    Text("AuthenticationFailed", Meaning.WRONG_KEY, "the account_key or sas is wrong"),
    Text("AuthenticationException", Meaning.WRONG_KEY, "the credential chain has no credentials"),
    Text("AuthorizationFailure", Meaning.REFUSED, "network rules refuse the client; of Azurite, the key is wrong"),
    Text("AuthorizationPermissionMismatch", Meaning.REFUSED, "the sas or role lacks a right"),
    Text("ContainerNotFound|[Tt]he specified container does not", Meaning.ABSENT, "there is no such container"),
    Text("Azure Error", Meaning.TRANSIENT, "any other error, or the server does not answer"),
)

GOOGLE = (
    Text("UNAUTHENTICATED", Meaning.WRONG_KEY, "the token is wrong"),
    Text("PERMISSION_DENIED", Meaning.REFUSED, "the account lacks a right"),
    Text("[Tt]he specified bucket does not", Meaning.ABSENT, "there is no such bucket"),
    Text("google::cloud::Status", Meaning.TRANSIENT, "any other error, or the server does not answer"),
)

WEB = (
    Text(r"\b401 Unauthorized", Meaning.WRONG_KEY, "the server wants a user's name and password"),
    Text(r"\b403 Forbidden", Meaning.REFUSED, "the server refuses the file"),
)

FOLDER = (
    Text("(?s:File system loop found: (.+) points to an ancestor (.+))", Meaning.LINK_LOOP, "a folder is listed"),
)

_TEXTS = Texts(
    {"S3": S3, "Azure": AZURE, "Google": GOOGLE, "web": WEB, "folder": FOLDER}, ignoring_case={Meaning.TRANSIENT}
)
VENDORS = _TEXTS.vendors

NUMBERS: Mapping[int, Meaning] = MappingProxyType(
    {
        **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), Meaning.FULL),
        errno.ENAMETOOLONG: Meaning.LONG_NAME,
        **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), Meaning.REFUSED),
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

SQS = (
    Text(r"(?:AWS\.SimpleQueueService\.)?NonExistentQueue", Meaning.ABSENT, "there is no such queue"),
    Text("QueueDoesNotExist", Meaning.ABSENT, "there is no such queue, and the answer has only the name in JSON"),
    Text("InvalidClientTokenId|UnrecognizedClientException|InvalidAccessKeyId", Meaning.REFUSED, "the key is wrong"),
    Text("SignatureDoesNotMatch", Meaning.REFUSED, "the secret is wrong"),
    Text("ExpiredToken", Meaning.REFUSED, "the session_token is old"),
    Text("InvalidSecurity", Meaning.REFUSED, "the request is not signed as SQS wants it"),
    Text("AccessDenied(?:Exception)?", Meaning.REFUSED, "the key lacks a right"),
    Text("403", Meaning.REFUSED, "the refusal is not written as SQS's client reads it, as one of a gateway"),
)
"""The codes of SQS."""

_CODE = re.compile(r"<Code>(\w+)</Code>|\(code: (\w+)\)")
_FILE = re.compile(r"(?s:(?:Unable to \w+ file|error for operation on|Unable to canonicalize path) (/.*?): )")
_NUMBER = re.compile(r"\(os error (\d+)\)")


def find(error: object, means: Meaning) -> re.Match[str] | None:
    """Return where the text of a storage's error says this."""
    return _TEXTS.find(error, means)


def meaning_of(error: Exception) -> Meaning | None:
    """Return what an error of a storage says, by the system's number or else its text; None if it is unknown."""
    number = error.errno if isinstance(error, OSError) else None
    if number is not None and number in NUMBERS:
        return NUMBERS[number]
    # A number says that the storage has answered.
    meanings = [means for means in Meaning if number is None or means is not Meaning.TRANSIENT]
    return next((means for means in meanings if find(error, means)), None)


def meaning_of_queue(code: str) -> Meaning | None:
    """Return what a code of SQS says."""
    return next((text.means for text in SQS if re.fullmatch(text.pattern, code)), None)


def code_of(error: Exception) -> str | None:
    """Return the store's own code, which obstore leaves inside the text of most errors of a listing or a deletion."""
    match = _CODE.search(str(error))
    return (match[1] or match[2]) if match else None


def file_and_number(error: Exception) -> tuple[str | None, int | None]:
    """Return the path that obstore's error of a folder names, and the system's number."""
    path, number = _FILE.search(str(error)), _NUMBER.search(str(error))
    return (path[1] if path else None), (int(number[1]) if number else None)
