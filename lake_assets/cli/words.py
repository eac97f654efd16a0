"""Numbers with their units, for people."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick


def count(number: int, noun: str) -> str:
    """`1 row`, `1,095 rows`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def size(number: int) -> str:
    """Bytes in decimal units: `12.7 kB`."""
    from rich.filesize import decimal

    return decimal(number)
