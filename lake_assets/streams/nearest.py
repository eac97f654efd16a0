"""Which of some texts a mistyped one is nearest to."""

import difflib
from collections.abc import Iterable


def nearest(text: str, among: Iterable[str], *, most: int = 3) -> list[str]:
    """The texts most alike, the nearest first; letters of the other case are the same. None if nothing is alike."""
    by_fold: dict[str, str] = {}
    for other in among:
        by_fold.setdefault(other.casefold(), other)
    return [by_fold[found] for found in difflib.get_close_matches(text.casefold(), by_fold, n=most, cutoff=0.5)]


def has_wildcard(text: str) -> bool:
    """Whether somebody may have meant several values by this one; it names one all the same."""
    return "*" in text or "?" in text
