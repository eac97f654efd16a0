"""The errors of the driver's client of a storage, as ones that say how to fix them."""

from collections.abc import Callable

from obstore.exceptions import NotFoundError, PermissionDeniedError, UnauthenticatedError

from lake_assets.config.storages import AnyStorage, AzureStorage, LocalStorage
from lake_assets.errors import StorageError
from lake_assets.storage import failures, local
from lake_assets.storage.failures import Operation
from lake_assets.storage.vendor_errors import Meaning, code_of, find

_REFUSALS = (PermissionDeniedError, UnauthenticatedError, PermissionError)


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
        return StorageError(
            f"the {kind} {storage.root.split('/')[2]!r} does not exist at {failures.server_of(storage)}:",
            f"create it, or correct `{kind}` in the config.",
        )
    if isinstance(error, (NotFoundError, FileNotFoundError)):
        return StorageError(f"{storage.root} was removed while it was read:", "run it again.")
    return failures.no_answer(error, storage, f"{uri} was not read" if uri and operation == "read" else None)
