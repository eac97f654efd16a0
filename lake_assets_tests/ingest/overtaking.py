"""Something that happens once in the middle of a run: another process lands, ingests, restores or holds."""

from collections.abc import Callable
from typing import Any, Literal

import pytest

from lake_assets.ingest.replace import replace_run

Moment = Literal["verify", "commit", "transaction"]
Happening = Callable[[Any], object]


def before(moment: Moment, happening: Happening, patch: pytest.MonkeyPatch) -> list[Happening]:
    """Let something happen before the first partitions are verified, before they are committed, or when it is decided.

    Args:
        moment: `transaction` is after the last decision on the partition, `commit` is before it.
        happening: gets the partition runs, of the transaction its changes.
        patch: undoes it after the test.

    Returns:
        What is still to happen: nothing, when it has happened.
    """
    happenings = [happening]
    owner, name = (replace_run, "commit") if moment == "transaction" else (replace_run.ReplaceRun, moment)
    step = getattr(owner, name)

    def overtaken(first: Any, items: Any) -> Any:
        if happenings and items and not getattr(items[0], "error", None):
            happenings.pop()(items)
        return step(first, items)

    patch.setattr(owner, name, overtaken)
    return happenings
