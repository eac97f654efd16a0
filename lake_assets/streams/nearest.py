"""Which of some texts a mistyped one is nearest to."""

import difflib
from collections.abc import Iterable


def nearest(text: str, among: Iterable[str], *, most: int = 3) -> list[str]:
    """Up to `most` similar texts, the most similar first, regardless of case."""
    by_fold: dict[str, str] = {}
    for other in among:
        by_fold.setdefault(other.casefold(), other)
    return [by_fold[match] for match in difflib.get_close_matches(text.casefold(), by_fold, n=most, cutoff=0.5)]


def has_wildcard(text: str) -> bool:
    """Whether a value looks like a pattern, which is not supported."""
    return "*" in text or "?" in text
