"""What the driver's client of a storage raises, as one error of ours: of an object, of the bucket or of the network."""

import re
from collections.abc import Callable

from obstore.exceptions import NotFoundError, PermissionDeniedError, UnauthenticatedError

from lake_assets.config.storages import AnyStorage, LocalStorage
from lake_assets.errors import StorageError
from lake_assets.storage import failures, local
from lake_assets.storage.failures import Operation

# The client leaves the store's own code inside the text of most errors of a listing, and of a deletion.
_CODE = re.compile(r"<Code>(\w+)</Code>|\(code: (\w+)\)")
_REFUSED = (PermissionDeniedError, UnauthenticatedError, PermissionError)
_REFUSED_CODES = {
    *("AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken"),
    *("AuthenticationFailed", "AuthorizationFailure", "AuthorizationPermissionMismatch"),  # Azure's
}
_REFUSED_STATUS = re.compile(r"status code: 40[13]\b")
_NO_BUCKET = {"NoSuchBucket": "bucket", "ContainerNotFound": "container"}


def client_error(
    error: Exception, storage: AnyStorage, operation: Operation, uri: str | None, refusing: Callable[[], str]
) -> StorageError:
    """The error of ours for one of the client's, or of the operating system.

    Args:
        error: without secrets.
        storage: that was asked.
        operation: what was asked of it.
        uri: of the object that this was of; None if it was of the storage, or of a folder in it.
        refusing: gives the URI of the storage or folder that refuses access; it may ask the storage.
    """
    if isinstance(storage, LocalStorage) and (told := local.refusal(error)):
        return told
    found = _CODE.search(str(error))
    code = (found[1] or found[2]) if found else None
    if isinstance(error, _REFUSED) or (code in _REFUSED_CODES if code else _REFUSED_STATUS.search(str(error))):
        return _refused(error, storage, operation, uri, refusing)
    if code in _NO_BUCKET:
        kind = _NO_BUCKET[code]
        return StorageError(
            f"the {kind} {storage.root.split('/')[2]!r} does not exist at {failures.server_of(storage)}:",
            f"create it, or correct `{kind}` in the config.",
        )
    if isinstance(error, (NotFoundError, FileNotFoundError)):
        return StorageError(f"{storage.root} vanished while it was being read:", "run it again.")
    return failures.no_answer(error, storage, f"{uri} was not read" if uri and operation == "read" else None)


def _refused(
    error: Exception, storage: AnyStorage, operation: Operation, uri: str | None, refusing: Callable[[], str]
) -> StorageError:
    if isinstance(error, UnauthenticatedError) or failures.is_wrong_key(str(error)):
        return StorageError(f"{storage.root} refuses access:", failures.access_fix(storage))
    if uri is None:
        return StorageError(f"{refusing()} refuses access:", failures.access_fix(storage, operation))
    return failures.refused_object(storage, uri, operation)
