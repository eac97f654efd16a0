"""What is printed for people: its colours and widths, by `NO_COLOR` and `COLUMNS`, without control characters."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

import os
import re
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from lake_assets.cli.log_format import is_json, is_quiet
from lake_assets.escapes import visible
from lake_assets.events import report
from lake_assets.layout.texts import count

if TYPE_CHECKING:
    from rich.console import Console

    from lake_assets.lake.commit.deltas import DeltaFile

_SGR = re.compile("\x1b\\[([0-9]{1,2})m")  # a code of colour or weight
_CODES = re.compile("\ufdd0([012]|3[1-7])\ufdd1")  # noncharacters of Unicode


def style(text: str, *, fg: str | None = None, bold: bool = False, dim: bool = False) -> str:
    """Return the text in a colour or weight, for `echo`."""
    before, after = click.style("\0", fg=fg, bold=bold or None, dim=dim or None).split("\0")
    return _SGR.sub("\ufdd0\\1\ufdd1", before) + text + _SGR.sub("\ufdd0\\1\ufdd1", after)


def echo(text: object = "", *, err: bool = False) -> None:
    """Print lines, with the colours of `style`; control characters of names and foreign texts are escaped.

    Lines for standard error are an event `message` if the log is JSON.
    """
    if err and is_json():
        report("message", message=_CODES.sub("", str(text)).strip())
        return
    parts = _CODES.split(str(text))
    codes = [f"\x1b[{number}m" for number in parts[1::2]] + [""]
    stream = sys.stderr if err else sys.stdout
    # While a progress bar is shown, the stream is one of rich's. It has no encoding, so click would write around it.
    above_a_bar = stream if hasattr(stream, "rich_proxied_file") else None
    text = "".join(visible(part) + code for part, code in zip(parts[::2], codes, strict=True))
    # In a thread of a run, click does not find the context, whose colours are off.
    click.echo(text, file=above_a_bar, err=err, color=False if is_plain() else None)


def info(text: object = "", *, err: bool = False) -> None:
    """Print lines about what a command has done or is about to do, as `echo` does; nothing if it is quiet."""
    if not is_quiet():
        echo(text, err=err)


def is_plain() -> bool:
    """Return whether escape codes are off: `NO_COLOR` is set to any text (https://no-color.org)."""
    return bool(os.environ.get("NO_COLOR"))


def table_width() -> int | None:
    """Return the width of tables in characters: that of the terminal, or of `COLUMNS`; None if there is neither."""
    if sys.stdout.isatty():
        return shutil.get_terminal_size().columns
    text = os.environ.get("COLUMNS", "")
    return int(text) if text.isascii() and text.isdigit() and int(text) > 0 else None


def console(*, stderr: bool = False, width: int | None = None) -> "Console":
    """Return a rich console, without colours and bold text if `NO_COLOR` is set."""
    from rich.console import Console

    return Console(stderr=stderr, width=width, color_system=None if is_plain() else "auto")


def exported_text(deltas: "Sequence[DeltaFile]") -> str:
    """Return how many changes a commit exported, and in how many files."""
    if not deltas:
        return "no row changed, so none was exported"
    inserted, deleted = sum(file.rows_inserted for file in deltas), sum(file.rows_deleted for file in deltas)
    return f"exported {count(inserted, 'insert')} and {count(deleted, 'delete')} in {count(len(deltas), 'file')}"
