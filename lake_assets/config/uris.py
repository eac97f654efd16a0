"""URIs in the config that name one object, or a folder of a bucket, without credentials."""

import re
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import AfterValidator, Field

from lake_assets.config.editor_schema import VARIABLE

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_S3 = re.compile(r"s3://([a-z0-9][a-z0-9.\-]{1,61}[a-z0-9])(?:/(.*))?", re.DOTALL)


def is_uri(text: str) -> bool:
    """Return whether a text is a URI with an authority, such as `s3://bucket/lake.yaml`, and no path."""
    return _SCHEME.match(text) is not None


def bucket_and_key(uri: str) -> tuple[str, str]:
    """Return the bucket and the key of an S3 URI; the key has no slash at its ends."""
    match = _S3.fullmatch(uri)
    if match is None or ".." in (match[2] or "").split("/"):
        raise ValueError("not of the form s3://bucket/key: write the bucket's name, and no '..'")
    return match[1], (match[2] or "").strip("/")


def _s3_folder(uri: str) -> str:
    bucket, key = bucket_and_key(uri)
    return f"s3://{bucket}/{key}".rstrip("/")


def _s3_object(uri: str) -> str:
    if not bucket_and_key(uri)[1] or uri.endswith("/"):
        raise ValueError("not the URI of an object: write s3://bucket/key")
    return uri


def _on_the_driver(place: str) -> str:
    if not is_uri(place) and not PurePosixPath(place).is_absolute():
        raise ValueError("a relative path: write an absolute path on the driver, or s3://bucket/lake.yaml")
    return place


_PATTERN = {"pattern": rf"{VARIABLE}|^s3://"}

S3Folder = Annotated[str, AfterValidator(_s3_folder), Field(json_schema_extra=_PATTERN)]
"""A bucket, or a folder of one."""

S3Object = Annotated[str, AfterValidator(_s3_object), Field(json_schema_extra=_PATTERN)]
"""One object of a bucket."""

DriverPath = Annotated[str, AfterValidator(_on_the_driver), Field(json_schema_extra={"pattern": rf"{VARIABLE}|^/|://"})]
"""A config where the driver reads it: an absolute path there, or a URI."""
