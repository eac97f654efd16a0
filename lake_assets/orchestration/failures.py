"""Texts of a run's errors: an error that several partitions share is reported once."""

from collections.abc import Mapping

from lake_assets.errors import LakeAssetsError
from lake_assets.escapes import visible
from lake_assets.layout.texts import first_lines, several


def text_of(error: Exception) -> str:
    """The text of an error in Dagster."""
    return str(error) if isinstance(error, LakeAssetsError) else visible(f"{type(error).__name__}: {error}")


def lines_by_text(texts: Mapping[str, str], most: int, elsewhere: str) -> list[str]:
    """A line for each error, which begins with the names that it belongs to.

    Args:
        texts: the error's text by a name.
        most: number of lines; one more counts the other errors.
        elsewhere: names where the others are reported.
    """
    by_text: dict[str, list[str]] = {}
    for name, text in texts.items():
        by_text.setdefault(text, []).append(name)
    lines = [f"{several(names)}: {text}" for text, names in by_text.items()]
    return first_lines(lines, most, f"and {{more:,}} more; {elsewhere}")
