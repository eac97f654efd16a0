"""The storage of a path or URI that a command names, with what the environment says of its server."""

from collections.abc import Mapping
from pathlib import Path

from pydantic import TypeAdapter

from lake_assets.config.fields import below
from lake_assets.config.model import is_true
from lake_assets.config.storages import LakeStorage, S3Storage, Storage


def storage_at(place: str, environment: Mapping[str, str], folder: Path | None = None) -> LakeStorage:
    """The storage of a path or URI; a bucket of S3 has the region and server of AWS's own variables.

    Args:
        place: a path, or a URI such as `s3://bucket/prefix`.
        environment: its `AWS_REGION`, `AWS_ENDPOINT_URL` and `AWS_SKIP_SIGNATURE`, and their other forms.
        folder: the base of a relative path; it stays relative when None.

    Raises:
        ValidationError: it names no storage.
        ConfigError: `AWS_SKIP_SIGNATURE` says neither yes nor no.
    """
    storage: LakeStorage = TypeAdapter[LakeStorage](Storage).validate_python(
        place, context=below(folder) if folder else None
    )
    if not isinstance(storage, S3Storage):
        return storage
    named = {
        "region": environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION"),
        "endpoint": environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL"),
        "anonymous": is_true(environment, "AWS_SKIP_SIGNATURE", default=False),
    }
    written = storage.model_dump(include={"type", "bucket", "prefix"}) | {k: v for k, v in named.items() if v}
    return S3Storage.model_validate(written)
