r"""Control characters in names and foreign texts, made visible: a terminal would obey them, and a reader would not see.

They are those of terminals (C0, C1, DEL), those that change the direction of a text or have no width, and separators of
lines that only some programs know. A byte that is not UTF-8 is for `layout/texts.py`.
"""

import re

_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufdd0-\ufdef\ufeff\U000e0000-\U000e007f]"
)
_BREAKS = re.compile("[\t\n]")


def visible(text: str) -> str:
    r"""Return the text with escapes for its control characters; line breaks and tabs stay.

    >>> print(visible("\x1b[2Jdone\u202e"))
    \x1b[2Jdone\u202e
    """
    return _CONTROLS.sub(_escape, text.replace("\r\n", "\n"))


def visible_name(text: str) -> str:
    r"""Return the name in one line: with escapes for its control characters, line breaks and tabs.

    >>> print(visible_name("a\nb\r\n"))
    a\nb\r\n
    """
    return _BREAKS.sub(_escape, _CONTROLS.sub(_escape, text))


def _escape(match: re.Match[str]) -> str:
    return ascii(match[0])[1:-1]
