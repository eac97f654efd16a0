"""Texts for people and stores: long lists, and bytes that are not UTF-8.

Python keeps a byte that is not UTF-8 as half a surrogate pair.
"""

from collections.abc import Sequence


def several(names: Sequence[str], most: int = 3) -> str:
    """The first names, and how many more there are: `a, b, c and 4 more`."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def first_lines(lines: Sequence[str], most: int, rest: str = "- and {more:,} more") -> list[str]:
    """The first lines, and one that says how many more there are.

    Args:
        lines: all of them.
        most: how many are shown.
        rest: the line about the others, with `{more}` for their number.
    """
    more = len(lines) - most
    return [*lines[:most], *([rest.format(more=more)] if more > 0 else [])]


def is_unicode(text: str) -> bool:
    """Whether the text can be written as UTF-8, as catalogs, stores and Spark have it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def shown(text: str) -> str:
    r"""The text in quotes, with `\xff` for a byte that is not UTF-8, and so fit to be printed and stored.

    >>> print(shown("p=\udcff"))
    'p=\xff'
    """
    return repr(text).replace(r"\udc", r"\x")


def storable(text: str) -> str:
    r"""The text with such bytes as `\xff`; any other as it is."""
    return text if is_unicode(text) else text.encode(errors="backslashreplace").decode().replace(r"\udc", r"\x")
