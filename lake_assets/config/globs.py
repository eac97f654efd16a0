"""A glob as a source: a folder, the layout's folders below it, and a pattern of file names."""

import re
from collections.abc import Sequence

from lake_assets.layout.grammar import Static
from lake_assets.layout.template import Template

_WILDCARD = re.compile(r"[*?\[]")


def is_glob(text: str) -> bool:
    """Return whether it has a wildcard."""
    return _WILDCARD.search(text) is not None


def has_query(url: str) -> bool:
    """Return whether it is a URL of a web server with a query, which may have a signature."""
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
