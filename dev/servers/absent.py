"""What a test needs and this machine lacks: a skip with the reason, and a failure in CI."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import NoReturn, TypeVar

import pytest

from dev.servers.process import ServerStartError

T = TypeVar("T")
SKIPPED = "left out on this machine: "  # begins the reasons that the end of a run lists


def absent(reason: str) -> NoReturn:
    """End the test: skipped, or failed where `CI=true`.

    Args:
        reason: what is not there, a colon, and how to get it.
    """
    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(f"{reason}; under CI=true nothing is skipped for that", pytrace=False)
    pytest.skip(SKIPPED + reason)


@contextmanager
def started(name: str, server: AbstractContextManager[T]) -> Iterator[T]:
    """The server; where it does not start, the test ends as by `absent`, with the end of its output.

    Args:
        name: what does not start, for the reason.
        server: starts it on entering.
    """
    with ExitStack() as stack:
        try:
            found = stack.enter_context(server)
        except ServerStartError as error:
            absent(f"no {name}: {error}")
        yield found
