"""What the environment says about the terminal: `NO_COLOR` and `COLUMNS`, for everything that is printed."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def is_plain() -> bool:
    """Whether escape codes are off: `NO_COLOR` is set to any text (https://no-color.org)."""
    return bool(os.environ.get("NO_COLOR"))


def table_width() -> int | None:
    """The width of tables in characters, from `COLUMNS`; None if it is not set to a number."""
    text = os.environ.get("COLUMNS", "")
    return int(text) if text.isascii() and text.isdigit() and int(text) > 0 else None


def console(*, stderr: bool = False, width: int | None = None) -> "Console":
    """A rich console, without colours and bold text if `NO_COLOR` is set."""
    from rich.console import Console

    return Console(stderr=stderr, width=width, color_system=None if is_plain() else "auto")
