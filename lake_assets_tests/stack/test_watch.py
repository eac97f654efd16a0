"""Components of a stack that have not answered for a minute are started again, if all that they need answer."""

from functools import partial

import pytest

from dev.stack.components import Component
from dev.stack.supervised import RUNNING, Process, Program
from dev.stack.watch import PATIENCE_SECONDS, START_SECONDS, silent

NOW = 1_000_000.0


def after_a_minute(states: dict[str, bool], *, started: float = NOW - START_SECONDS - 1) -> list[str]:
    """Of a server, a client that needs it, and one that needs nothing: which are silent at two looks."""
    needs: dict[str, list[str]] = {"server": [], "client": ["server"], "other": []}
    known = {
        name: Component(name, "", [], partial(states.__getitem__, name), lambda: Program("", []), after=after)
        for name, after in needs.items()
    }
    processes = {name: Process(name, RUNNING, 1, started) for name in known}
    since: dict[str, float] = {}
    assert silent(known, processes, since, NOW) == []
    assert silent(known, processes, since, NOW + PATIENCE_SECONDS - 1) == []
    return silent(known, processes, since, NOW + PATIENCE_SECONDS)


@pytest.mark.parametrize(
    ("answer", "started_again"),
    [
        ({"server", "client", "other"}, []),
        ({"server", "other"}, ["client"]),
        ({"other"}, ["server"]),
        ({"server", "client"}, ["other"]),
    ],
)
def test_what_is_silent_for_a_minute_is_started_again_but_nothing_that_waits_for_it(
    answer: set[str], started_again: list[str]
) -> None:
    assert after_a_minute({name: name in answer for name in ("server", "client", "other")}) == started_again


def test_a_process_that_begins_is_given_time() -> None:
    assert after_a_minute(dict.fromkeys(("server", "client", "other"), False), started=NOW + PATIENCE_SECONDS) == []
