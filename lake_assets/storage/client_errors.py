"""The errors of the driver's client of a storage, as ones that say how to fix them."""

import re
from collections.abc import Callable

from obstore.exceptions import InvalidPathError, NotFoundError, PermissionDeniedError, UnauthenticatedError

from lake_assets.config.storages import AnyStorage, AzureStorage, LocalStorage
from lake_assets.errors import AbsentStorageError, LakeAssetsError, SourceError, StorageError
from lake_assets.escapes import visible_name
from lake_assets.storage import failures, local
from lake_assets.storage.failures import Operation
from lake_assets.storage.vendor_errors import Meaning, code_of, find

_REFUSALS = (PermissionDeniedError, UnauthenticatedError, PermissionError)


# The client checks a key when it gets one, and in the answer to a listing.
_ODD_NAME = re.compile(r'Error parsing Path "([^"]*)"', re.DOTALL)


def odd_name(error: Exception, root: str, uri: str | None) -> LakeAssetsError | None:
    """The error for an object whose name the client does not accept, such as one with control characters.

    Args:
        error: of the client.
        root: of the storage.
        uri: of the object; None if it was listed.

    Returns:
        A `SourceError` for one object, which `on_bad_object` may leave out; None for another error.
    """
    if not isinstance(error, (InvalidPathError, ValueError)) or (match := _ODD_NAME.search(str(error))) is None:
        return None
    kind, name = (StorageError, f"{root}/{match[1].lstrip('/')}") if uri is None else (SourceError, uri)
    return kind(f"the object {visible_name(name)} has a control character in its name:", "rename it or remove it.")


def client_error(
    error: Exception, storage: AnyStorage, operation: Operation, uri: str | None, refusing: Callable[[], str]
) -> StorageError:
    """The error of ours for one of the client or of the operating system.

    Args:
        error: without secrets.
        storage: of the failed operation.
        operation: that failed.
        uri: of its object; None if the operation was on the storage, or on a folder in it.
        refusing: returns the URI of the storage or folder that refuses access; it may send a request.
    """
    if isinstance(storage, LocalStorage) and (refusal := local.refusal(error)):
        return refusal
    # Where the store gives a code, the code decides: a clock that is wrong is a 403 too.
    text = code_of(error) or str(error)
    if isinstance(error, UnauthenticatedError) or find(text, Meaning.WRONG_KEY):
        return StorageError(f"{storage.root} refuses access:", failures.access_fix(storage))
    if isinstance(error, _REFUSALS) or find(text, Meaning.REFUSED):
        if uri is None:
            return StorageError(f"{refusing()} refuses access:", failures.access_fix(storage, operation))
        return failures.refused_object(storage, uri, operation)
    if find(text, Meaning.ABSENT):
        kind = "container" if isinstance(storage, AzureStorage) else "bucket"
        return AbsentStorageError(
            f"the {kind} {storage.root.split('/')[2]!r} does not exist at {failures.server_of(storage)}:",
            f"create it, or correct `{kind}` in the config.",
        )
    if isinstance(error, (NotFoundError, FileNotFoundError)):
        return StorageError(f"{storage.root} was removed while it was read:", "run it again.")
    return failures.no_answer(error, storage, f"{uri} was not read" if uri and operation == "read" else None)
