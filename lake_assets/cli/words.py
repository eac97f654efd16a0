"""Numbers in words for people."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

from collections.abc import Sequence

SHOWN = 3  # names of a list


def count(number: int, noun: str) -> str:
    """`1 row`, `1,095 rows`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def several(names: Sequence[str], shown: int = SHOWN) -> str:
    """The first few names, and how many more there are: `a, b, c and 4 more`."""
    more = len(names) - shown
    return ", ".join(names[:shown]) + (f" and {more:,} more" if more > 0 else "")


def size(number: int) -> str:
    """Bytes in decimal units: `12.7 kB`."""
    from rich.filesize import decimal

    return decimal(number)
