"""Something that happens once in the middle of a run: another process lands, ingests, restores or holds."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import pytest

from lake_assets.ingest.replace import replace_run
from lake_assets.ingest.replace.replace_run import StreamSteps

Moment = Literal["verify", "commit", "transaction"]
Happening = Callable[[Any], object]


@contextmanager
def before(moment: Moment, happening: Happening) -> Iterator[None]:
    """Let something happen before the first partitions are verified, before they are committed, or when it is decided.

    Args:
        moment: `transaction` is after the last decision on the partition, `commit` is before it.
        happening: gets the partition runs, of the transaction its changes.

    Raises:
        AssertionError: it did not happen within the context.
    """
    happenings = [happening]
    places: dict[Moment, tuple[Any, str]] = {
        "verify": (StreamSteps, "verify"),
        "commit": (replace_run.ReplaceRun, "commit"),
        "transaction": (replace_run, "commit"),
    }
    owner, name = places[moment]
    step = getattr(owner, name)

    def overtaken(first: Any, items: Any) -> Any:
        if happenings and items and not getattr(items[0], "error", None):
            happenings.pop()(items)
        return step(first, items)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, overtaken)
        yield
    assert not happenings, f"nothing happened before the {moment}"
