"""URIs in the config that name one object, or a folder of a bucket, without credentials."""

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import AfterValidator, Field

from lake_assets.config.editor_schema import VARIABLE
from lake_assets.config.layout.grammar import Static
from lake_assets.config.layout.template import Template

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


_WILDCARD = re.compile(r"[*?\[]")


def is_glob(text: str) -> bool:
    """Return whether a text has a wildcard."""
    return _WILDCARD.search(text) is not None


def has_query(url: str) -> bool:
    """Return whether a URL is of a web server and has a query, which may have a signature."""
    return url.startswith(("http://", "https://")) and "?" in url


def folder_globs(template: Template) -> list[str]:
    """Return the layout's folders as globs, such as `region=*` and `date=*`."""
    if not template.parts:
        return []
    return "".join(part.text if isinstance(part, Static) else "*" for part in template.parts).strip("/").split("/")


def split_glob(glob: str, folders: Sequence[str]) -> tuple[str, str] | None:
    """Return the source's folder and the pattern of file names; None if the glob has other folders.

    The glob has each folder as in `folders`, which `folder_globs` returns, or as `*`, or one `**` for all of them.
    """
    if not folders:
        return _split_anywhere(glob)
    scheme, separator, path = glob.rpartition("://")
    *above, files = path.split("/")
    if above and above[-1] == "**" and is_glob(folders[0]):
        root, names = above[:-1], list(folders)
    else:
        root, names = above[: -len(folders)], above[-len(folders) :]
    fits = len(names) == len(folders) and all(
        name in {"*", folder} for name, folder in zip(names, folders, strict=True)
    )
    if not fits or not any(root) or is_glob("/".join(root)) or files in {"", "**"}:
        return None
    return f"{scheme}{separator}{'/'.join(root)}", files


def _split_anywhere(glob: str) -> tuple[str, str] | None:
    """Return the folder above the first wildcard, and the rest of the path from its slash on."""
    scheme, separator, path = glob.rpartition("://")
    *above, name = path.split("/")
    depth = next((depth for depth, folder in enumerate(above) if is_glob(folder)), len(above))
    if not any(above[:depth]) or name in {"", "**"}:
        return None
    return f"{scheme}{separator}{'/'.join(above[:depth])}", "/".join(["", *above[depth:], name])
