"""Which command runs a case.

`make test` runs those without a mark, `make test-all` these and `more`, and `make soak` those of `soak`.
"""

from collections.abc import Iterable
from typing import Any

import pytest


def more(cases: Iterable[Any]) -> list[Any]:
    """Return the cases of a table, marked for `make test-all`.

    Args:
        cases: values, or tuples of the values of several parameters.
    """
    return [_marked(case, pytest.mark.more) for case in cases]


def soak(cases: Iterable[Any]) -> list[Any]:
    """Return the cases of a table, marked for `make soak`.

    Args:
        cases: as of `more`.
    """
    return [_marked(case, pytest.mark.soak) for case in cases]


def _marked(case: Any, mark: pytest.MarkDecorator) -> Any:
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=mark)
