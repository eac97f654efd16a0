"""Polling in tests, with a limit that a busy machine does not reach."""

from collections.abc import Callable

from lake_assets.base.retrying import Limit, pause_between, poll

SECONDS = 120


def until(is_so: Callable[[], bool], what: str, seconds: float = SECONDS) -> None:
    """Return when something is so.

    Raises:
        AssertionError: it is not so after these seconds; the text is `what`.
    """
    assert poll(is_so, pause=pause_between(0.02, 0.05), limit=Limit(seconds=seconds)), f"{what}: not after {seconds} s"
