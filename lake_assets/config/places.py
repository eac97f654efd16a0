"""The storage of a path or URI that a command names, with what the environment says of its server."""

from collections.abc import Mapping
from pathlib import Path

from pydantic import TypeAdapter

from lake_assets.config.fields import below
from lake_assets.config.model import is_true
from lake_assets.config.storages import LakeStorage, S3Storage, Storage


def storage_at(place: str, environment: Mapping[str, str], folder: Path = Path()) -> LakeStorage:
    """Return the storage of a path or URI.

    Args:
        place: a path, or a URI such as `s3://bucket/prefix`.
        environment: the variables that complete a bucket, and `AWS_SKIP_SIGNATURE`.
        folder: the base of a relative path.

    Raises:
        ValidationError: it names no storage.
        ConfigError: `AWS_SKIP_SIGNATURE` says neither yes nor no, or a variable's endpoint is malformed.
    """
    adapter = TypeAdapter[LakeStorage](Storage)
    storage: LakeStorage = adapter.validate_python(place, context=below(folder, environment))
    if isinstance(storage, S3Storage) and is_true(environment, "AWS_SKIP_SIGNATURE", default=False):
        return storage.model_copy(update={"anonymous": True})
    return storage
