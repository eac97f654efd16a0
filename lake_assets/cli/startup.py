"""What makes a short command shorter."""

import atexit
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec

_REFUSALS = 2_000  # each takes 10 µs, so that together they take less than the import


def collect_seldom() -> None:
    """Let Python collect garbage after 50,000 new objects instead of 700, and not when the process ends.

    What a command imports are 100,000 objects that stay; they are looked through again and again, for 0.2 s.
    """
    gc.set_threshold(50_000)
    atexit.register(gc.freeze)


@contextmanager
def without_pandas() -> Iterator[None]:
    """Keep DuckDB from importing pandas to compare each bound value with `pandas.NaT`: half of a short command.

    No module of this package imports it, so an import that one of them makes is DuckDB's. Spark and transforms, which
    do need it, import it themselves; once it is there, no finder is asked.
    """
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Finder:
    """Refuses pandas to DuckDB."""

    def __init__(self) -> None:
        self._refused = 0

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        """Return None, for the next finder, unless DuckDB imports pandas, which is refused up to 2,000 times."""
        if name == "pandas" and self._refused < _REFUSALS and _importer().startswith("lake_assets."):
            self._refused += 1
            raise ModuleNotFoundError(name)
        return None


def _importer() -> str:
    """Return the name of the module that imports, of which C code has no frame."""
    frame = sys._getframe(2)  # noqa: SLF001 - inspect.stack() reads the source of each frame
    while frame.f_back is not None and frame.f_globals["__name__"].startswith("importlib."):
        frame = frame.f_back
    return str(frame.f_globals["__name__"])
