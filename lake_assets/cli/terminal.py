"""What the environment says of the terminal: `NO_COLOR` and `COLUMNS`, which hold for everything that is printed."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def is_plain() -> bool:
    """Whether no escape codes are to be printed: `NO_COLOR` is set, to any text (https://no-color.org)."""
    return bool(os.environ.get("NO_COLOR"))


def wanted_width() -> int | None:
    """How many characters wide tables are to be: `COLUMNS`; None where it does not say."""
    text = os.environ.get("COLUMNS", "")
    return int(text) if text.isascii() and text.isdigit() and int(text) > 0 else None


def console(*, stderr: bool = False, width: int | None = None) -> "Console":
    """A console of rich's; where it is plain, it prints neither colours nor weights."""
    from rich.console import Console

    return Console(stderr=stderr, width=width, color_system=None if is_plain() else "auto")
