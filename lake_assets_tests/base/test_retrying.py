"""Calls that are repeated: which errors pass, when it ends, and how long the pauses are."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tenacity import RetryCallState, Retrying

from lake_assets.base.retrying import Limit, Pause, pause_around, pause_between, pause_from, pause_up_to, poll, retry

NONE = pause_between(0, 0)
HANGS = 3600  # seconds: longer than a test may take


class Busy:
    """Fails so many times before it returns."""

    def __init__(self, *errors: Exception) -> None:
        self.errors: Iterator[Exception] = iter(errors)
        self.calls = 0

    def __call__(self) -> int:
        self.calls += 1
        for error in self.errors:
            raise error
        return self.calls


def by_kind(error: BaseException) -> Limit:
    return Limit(retries=0) if isinstance(error, KeyError) else Limit(retries=5)


@pytest.mark.parametrize(
    ("errors", "transient", "limit", "calls"),
    [
        pytest.param([OSError(), OSError()], OSError, Limit(retries=2), 3, id="passes"),
        pytest.param([OSError("last")], OSError, Limit(retries=0), 1, id="no retry"),
        pytest.param([*[OSError()] * 3, OSError("last")], OSError, Limit(retries=3), 4, id="limit"),
        pytest.param([KeyError("last")], lambda error: "passes" in str(error), Limit(), 1, id="another error"),
        pytest.param([OSError(), OSError(), KeyError("last")], lambda _: True, by_kind, 3, id="limit by error"),
    ],
)
def test_an_error_that_passes_is_tried_again_up_to_the_limit_and_any_other_is_raised(
    errors: list[Exception], transient: Any, limit: Any, calls: int
) -> None:
    busy = Busy(*errors)
    if calls > len(errors):
        assert retry(busy, transient=transient, limit=limit, pause=NONE) == calls
    else:
        with pytest.raises(type(errors[-1]), match="last"):
            retry(busy, transient=transient, limit=limit, pause=NONE)
    assert busy.calls == calls


def test_seconds_limit_a_call_too() -> None:
    busy = Busy(*[OSError("away")] * 10**4)
    with pytest.raises(OSError, match="away"):
        retry(busy, transient=OSError, limit=Limit(seconds=0.1), pause=pause_between(0.01, 0.02))
    assert busy.calls <= 1 + 0.1 / 0.01


def test_polling_ends_when_it_is_done_the_limit_is_reached_or_its_pause_is_stopped() -> None:
    answers = iter([False, False, True])
    assert poll(lambda: next(answers), pause=NONE)
    assert not poll(lambda: False, pause=NONE, limit=Limit(retries=3))
    stopped, calls = threading.Event(), []

    def is_done() -> bool:
        calls.append(1)
        threading.Timer(0.05, stopped.set).start()
        return False

    assert not poll(is_done, pause=pause_between(HANGS, HANGS), stopped=stopped)
    assert calls == [1]


@pytest.mark.parametrize(
    ("pause", "least", "most"),
    [
        (pause_between(1, 3), lambda _: 1, lambda _: 3),
        (pause_up_to(1, 20), lambda _: 0, lambda bound: bound),
        (pause_from(1, 20), lambda bound: bound, lambda bound: bound + 1),
        (pause_around(1, 20), lambda bound: bound / 2, lambda bound: bound),
    ],
    ids=["between", "up_to", "from", "around"],
)
def test_pauses_have_their_bounds(
    pause: Pause, least: Callable[[float], float], most: Callable[[float], float]
) -> None:
    state = RetryCallState(Retrying(), None, (), {})
    for number in (1, 2, 3, 8, 5000):
        state.attempt_number = number
        bound = min(2.0 ** min(number - 1, 60), 20)
        result = [pause(state) for _ in range(200)]
        assert least(bound) <= min(result) <= max(result) <= most(bound)
        assert len(set(result)) > 1
