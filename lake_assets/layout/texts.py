"""Texts that came as bytes which are not UTF-8: Python keeps such a byte as half a surrogate pair."""


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
