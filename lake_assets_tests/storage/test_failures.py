"""What is said of a storage that fails while a task reads or writes: storage, object and how to fix it."""

import errno
from typing import Any

import pytest
from pydantic import TypeAdapter

from lake_assets.config.storages import AnyStorage, LakeStorage
from lake_assets.errors import StorageError, StorageUnreachableError
from lake_assets.storage.storage_errors import storage_errors

S3 = {"type": "s3", "bucket": "lake", "key_id": "k", "secret": "a-secret", "endpoint": "http://127.0.0.1:9"}
FOLDER = {"type": "local", "path": "/lake"}
AZURE = {
    "type": "azure",
    "container": "lake",
    "connection_string": "DefaultEndpointsProtocol=http;AccountName=retail;AccountKey=QUJD;"
    "BlobEndpoint=http://127.0.0.1:9/retail",
}
AT = "s3://lake at http://127.0.0.1:9"


def aws(error: str, message: str = "injected") -> OSError:
    """An error as Arrow's client words it."""
    text = f"When uploading object with key 'x' in bucket 'lake': AWS Error {error} during PutObject operation"
    return OSError(f"{text}: {message}")


def of(config: dict[str, Any]) -> AnyStorage:
    storage: AnyStorage = TypeAdapter(LakeStorage).validate_python(config)
    return storage


def failing(storage: AnyStorage, error: OSError) -> StorageError:
    with pytest.raises(StorageError) as raised, storage_errors(storage, f"{storage.root}/x", "written"):
        raise error
    return raised.value


@pytest.mark.parametrize(
    ("config", "error", "may_pass", "text"),
    [
        (
            S3,
            aws("NETWORK_CONNECTION", "curlCode: 7, Could not connect to server; Details: Failed after 0 ms"),
            True,
            f"{AT} cannot be reached or fails: s3://lake/x was not written: curlCode: 7, Could not connect to",
        ),
        (S3, aws("SLOW_DOWN"), True, f"{AT} cannot be reached or fails: s3://lake/x was not written: injected:"),
        (S3, aws("UNKNOWN (HTTP status 429)"), True, f"{AT} cannot be reached or fails: s3://lake/x was not written: "),
        (
            AZURE,
            OSError("GetProperties failed for 'http://127.0.0.1:9/retail/lake/x'. Azure Error: [] Fail to get a new"),
            True,
            "at http://127.0.0.1:9/retail cannot be reached or fails",
        ),
        (FOLDER, OSError(errno.EIO, "Input/output error"), True, "the folder /lake cannot be reached or fails"),
        (
            FOLDER,
            OSError(errno.ENOSPC, "No space left on device"),
            False,
            "folder /lake has no space left: /lake/x",
        ),
        (FOLDER, PermissionError(errno.EACCES, "Permission denied"), False, "let this user read and write the folder"),
        (FOLDER, NotADirectoryError(errno.ENOTDIR, "Not a directory"), False, "not written by the folder /lake"),
        (S3, aws("ACCESS_DENIED"), False, f"{AT} refuses access: s3://lake/x"),
        (S3, aws("NO_SUCH_BUCKET"), False, f"{AT} does not exist"),
        (S3, aws("UNKNOWN (HTTP status 400)"), False, f"s3://lake/x was not written by {AT}: injected: correct the "),
    ],
)
def test_what_may_pass_is_an_error_of_its_own(
    config: dict[str, Any], error: OSError, text: str, *, may_pass: bool
) -> None:
    message = failing(of(config), error)

    assert isinstance(message, StorageUnreachableError) == may_pass
    assert text in str(message)


def test_no_secret_is_in_the_error() -> None:
    storage = of(S3 | {"secret": "dont-tell"})
    message = failing(storage, aws("NETWORK_CONNECTION", "dont-tell"))
    assert "dont-tell" not in str(message)
    assert "***" in str(message)
