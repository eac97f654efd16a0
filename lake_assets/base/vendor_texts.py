"""Tables of the texts that identify errors of other programs, one table for each vendor."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Generic, TypeVar

_Meaning = TypeVar("_Meaning", bound=Enum)


@dataclass(frozen=True, slots=True)
class VendorText(Generic[_Meaning]):
    """A text that a vendor's program or server says."""

    pattern: str
    means: _Meaning  # what it says
    when: str  # the vendor says it
    is_provoked: bool = True  # whether a test provokes it
    advice: str = ""  # how to fix it, where this text says more than its meaning


class VendorTexts(Generic[_Meaning]):
    """The texts of some vendors."""

    def __init__(
        self, vendors: Mapping[str, Sequence[VendorText[_Meaning]]], ignoring_case: Collection[_Meaning] = ()
    ) -> None:
        self.vendors = vendors
        self._ignoring_case = ignoring_case  # the meanings in whose texts upper and lower case do not count
        self._pattern = cache(self._compiled)

    def of(self, means: _Meaning) -> tuple[VendorText[_Meaning], ...]:
        """Return the texts of all vendors that say this."""
        return tuple(text for vendor in self.vendors.values() for text in vendor if text.means is means)

    def find(self, error: object, means: _Meaning) -> re.Match[str] | None:
        """Return where the text of an error says this."""
        return self._pattern(means).search(str(error))

    def _compiled(self, means: _Meaning) -> re.Pattern[str]:
        flags = re.IGNORECASE if means in self._ignoring_case else 0
        return re.compile("|".join(f"(?:{text.pattern})" for text in self.of(means)) or r"(?!)", flags)
