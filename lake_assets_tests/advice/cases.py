"""What an error advises, followed to the letter, ends in the right rows.

A case makes an error, yields words of a fix that it names, and does what they say; of several fixes that it does one
after the other, with ` | ` between them. The words are those of the sentence in the code, without the values that it
gets, so that `test_sentences.py` sees which fixes have a case. A fix such as *run it again*, which many files name, has
the file before it: `register.py: run it again`.
"""

import inspect
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from click.testing import CliRunner

from lake_assets.base.errors import LakeAssetsError
from lake_assets.cli import main
from lake_assets_tests.world import NW, World

Verb = Callable[[], object]
Advice = str | tuple[Verb, str]
"""Words of fixes that an error names, alone if an ingest of NW fails with it, else after what fails."""
Steps = Generator[Advice, None, Sequence[float] | None]
Case = Callable[..., Steps]


def follow(case: Case, request: pytest.FixtureRequest) -> None:
    """Run a case, whose parameters are fixtures, as a test's.

    It may return the totals of its world's table. An ingest of NW then succeeds, if its last error was of one, and the
    table has them. A case that returns None has checked what its advice leads to.
    """
    fixtures = {name: request.getfixturevalue(name) for name in inspect.signature(case).parameters}
    world: World | None = fixtures.get("local_world")
    advice: Advice | None = None
    totals: Sequence[float] | None = None
    with closing(case(**fixtures)) as steps:  # what a case has patched ends with it, also when it fails
        while True:
            try:
                advice = next(steps)
            except StopIteration as end:
                totals = end.value
                break
            verb, words = advice if isinstance(advice, tuple) else (partial(_world(world).ingest, NW), advice)
            with makers() as made, pytest.raises(LakeAssetsError) as refused:
                verb()
            advised = refused.value.fix or str(refused.value)  # a config's error says all in its problem
            for of_fix in words.split(" | "):
                file, _, said = of_fix.rpartition(".py: ")
                assert said in advised, str(refused.value)
                assert not file or file in made.values() or id(refused.value) not in made, made
    assert advice is not None, "the case has no error"
    if totals is not None:
        if not isinstance(advice, tuple):
            _world(world).ingest(NW)
        assert _world(world).totals() == list(totals)


@contextmanager
def makers() -> Iterator[dict[int, str]]:
    """Yield the files, without `.py`, in which errors are made meanwhile, by their identities."""
    made, begin = dict[int, str](), LakeAssetsError.__init__

    def init(error: LakeAssetsError, *arguments: Any, **options: Any) -> None:
        frame = sys._getframe(1)
        while frame.f_code.co_name == "__init__" and frame.f_back:
            frame = frame.f_back
        made[id(error)] = Path(frame.f_code.co_filename).stem
        begin(error, *arguments, **options)

    with mock.patch.object(LakeAssetsError, "__init__", init):
        yield made


def command(world: World, *arguments: str, code: int = 0) -> str:
    """Run a command of lake-assets with the world's config; returns what it prints."""
    file = world.config_file(Path(world.catalog["path"]).parent)
    world._opened = None
    result = CliRunner().invoke(main, ["--config", str(file), *arguments])
    assert result.exit_code == code, result.output
    return result.output


class Cases(list[Any]):
    """The cases of a file, each with its words as its id; as a decorator it takes one.

    Args:
        marks: of each case.
    """

    def __init__(self, *marks: pytest.MarkDecorator) -> None:
        self._marks = marks

    def __call__(self, steps: Case) -> Case:
        self.append(pytest.param(steps, id=steps.__name__.replace("_", " "), marks=self._marks))
        return steps


def _world(world: World | None) -> World:
    assert world is not None, "the case has no parameter local_world"
    return world
