"""Ids of the cases of a test: short words that a person would type after `-k`, the same in every process.

Pytest's own are the texts of the values, which are bytes, addresses, times and sentences as well.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

MOST = 60  # characters of all ids of a case
COLLECTED = pytest.StashKey[list[str]]()  # the names of all tests that this process collected, in that order


def give_short_ids(metafunc: pytest.Metafunc) -> None:
    """Let each `parametrize` of a test have ids by `case_ids`."""
    fixtures = (metafunc._arg2fixturedefs.get(name) for name in metafunc.fixturenames)
    count = len(list(metafunc.definition.iter_markers("parametrize")))
    count += sum(1 for defs in fixtures if defs and defs[-1].params is not None)
    parametrize, most = metafunc.parametrize, max(8, (MOST + 1) // max(count, 1) - 4)

    def with_short_ids(
        names: str | Sequence[str], cases: Any, *positional: Any, ids: Any = None, **options: Any
    ) -> None:
        words = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
        cases = list(cases)
        short = case_ids(words, cases, ids, most)
        unnamed = [case._replace(id=None) if isinstance(case, type(pytest.param())) else case for case in cases]
        parametrize(names, unnamed, *positional, ids=short, **options)

    metafunc.parametrize = cast("Any", with_short_ids)  # type: ignore[method-assign]


def case_ids(names: Sequence[str], cases: Sequence[Any], ids: Any, most: int) -> list[str]:
    """Return the ids of the cases of one `parametrize`; pytest numbers those that occur twice.

    Args:
        names: of the parameters.
        cases: their values, as `parametrize` takes them.
        ids: None, a function of a value, or one for each case.
        most: characters of an id.
    """
    given = list(ids) if ids is not None and not callable(ids) else [None] * len(cases)
    return [
        _cut(_of_case(names, case, one, ids if callable(ids) else None), most)
        for case, one in zip(cases, given, strict=True)
    ]


def _of_case(names: Sequence[str], case: Any, given: object, by_value: Callable[[Any], object] | None) -> str:
    values = case
    if isinstance(case, type(pytest.param())):
        given = case.id if isinstance(case.id, str) else given
        values = case.values if len(names) > 1 else case.values[0]
    if given is not None:
        return _words(str(given)) or names[0]
    parts = [values] if len(names) == 1 else list(values)
    return "-".join(_of_value(name, value, by_value) for name, value in zip(names, parts, strict=True))


def _of_value(name: str, value: object, by_value: Callable[[Any], object] | None) -> str:
    """Return the words of a value; the parameter's name for bytes and objects, which have none."""
    told = by_value(value) if by_value else None
    if isinstance(told, str):
        return _words(told) or name
    if value is None or isinstance(value, (str, bool, int, float)):
        return _words(str(value)) or name
    if isinstance(value, (tuple, list, dict)) and value and all(isinstance(part, str) for part in value):
        return _words("-".join(value)) or name
    return _words(getattr(value, "__name__", "")) or name


def _words(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.-]+", "_", text).strip("_.-")


def _cut(words: str, most: int) -> str:
    """Return as many whole words as fit."""
    return words if len(words) <= most else re.sub(r"[_-]+[^_-]*$", "", words[: most + 1])[:most]
