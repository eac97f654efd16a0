"""Texts of a run's errors: an error that several partitions share is reported once."""

import re
from collections.abc import Mapping

from lake_assets.errors import LakeAssetsError
from lake_assets.ingest.outcome import error_text
from lake_assets.layout.texts import first_lines, several

_OBJECT = re.compile(r"\bobject (\S.*?\.\w+)(?=[\s:,]|$)")  # as errors name it: `the object s3://…/a.parquet cannot be`


def facts_of(error: Exception) -> dict[str, str]:
    """What a person has to know of a failed partition: the error, the object if it is one's fault, and the fix."""
    if not isinstance(error, LakeAssetsError):
        return {"status": "failed", "error": error_text(error)}
    facts = {"status": "failed", "error": error.problem.removesuffix(":")}
    if (named := _OBJECT.search(error.problem)) is not None:
        facts["object"] = named[1]
    return facts | ({"fix": error.fix} if error.hint else {})


def lines_by_text(texts: Mapping[str, str], most: int, elsewhere: str) -> list[str]:
    """Return a line for each error, which begins with the names that it belongs to.

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
