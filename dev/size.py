"""How large the product is, and how much of it one refresh enters: `make size`.

Lines are those of the files, as they are formatted. Branches are the places where the code goes one of several ways, as
McCabe counts them. Parameters are those of the functions, without `self` and `cls`.
"""

import ast
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

ROOT = Path(__file__).parents[1]
SMALL = 60  # lines of a file
MANY = 4  # parameters of a function
_BRANCHES = (ast.If, ast.For, ast.While, ast.IfExp, ast.ExceptHandler, ast.match_case, ast.comprehension, ast.Assert)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass
class Size:
    """The sizes of some Python files."""

    files: int = 0
    lines: int = 0
    small: int = 0  # files
    functions: int = 0
    branches: int = 0
    parameters: int = 0
    long: int = 0  # functions with more than `MANY` parameters

    def add(self, path: Path) -> None:
        """Count one file."""
        text = path.read_text(encoding="utf-8")
        nodes = list(ast.walk(ast.parse(text)))
        functions = [node for node in nodes if isinstance(node, _FUNCTIONS)]
        parameters = [_parameters(node) for node in functions]
        self.files += 1
        self.lines += (lines := text.count("\n"))
        self.small += lines < SMALL
        self.functions += len(functions)
        self.branches += sum(isinstance(node, _BRANCHES) for node in nodes)
        self.branches += sum(len(node.values) - 1 for node in nodes if isinstance(node, ast.BoolOp))
        self.parameters += sum(parameters)
        self.long += sum(number > MANY for number in parameters)

    @classmethod
    def of(cls, paths: Iterator[Path]) -> "Size":
        """The size of some files together."""
        size = cls()
        for path in paths:
            size.add(path)
        return size


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    arguments = function.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return sum(name not in ("self", "cls") for name in names)


@dataclass
class Trace:
    """The functions of the package that a call enters, in all threads."""

    package: str
    calls: int = 0
    changes: int = 0  # of the file, from one call to the next
    functions: set[CodeType] = field(default_factory=set)
    _last: str = ""

    @property
    def files(self) -> int:
        """The number of files with such a function."""
        return len({code.co_filename for code in self.functions})

    @contextmanager
    def running(self) -> Iterator[None]:
        """Note the calls of what runs inside."""
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(self.package) or code.co_name.startswith("<"):
            return
        self.calls += 1
        self.changes += code.co_filename != self._last
        self._last = code.co_filename
        self.functions.add(code)


def trace_ingest() -> Trace:
    """The trace of one refresh that replaces a day, after the same has been done with its earlier rows."""
    from lake_assets import open_stream  # noqa: PLC0415 - counting lines needs no DuckDB

    trace = Trace(str(ROOT / "lake_assets"))
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "lake.yaml")
        config.write_text(yaml.safe_dump(_CONFIG, sort_keys=False), encoding="utf-8")
        partition = open_stream(config, "sales").partition("region=NW,date=2026-02-11")
        landed = Path(folder, "landing/region=NW/date=2026-02-11/part-0.parquet")
        landed.parent.mkdir(parents=True)
        for rows in (1000, 2000):
            pq.write_table(pa.table({"id": range(rows), "total": [n / 7 for n in range(rows)]}), landed)
            partition.ingest()
        pq.write_table(pa.table({"id": range(3000), "total": [n / 7 for n in range(3000)]}), landed)
        with trace.running():
            partition.ingest()
    return trace


_CONFIG: dict[str, Any] = {
    "lakes": {"lake": {"catalog": {"type": "sqlite", "path": "catalog.sqlite"}, "storage": "lake/"}},
    "streams": {
        "sales": {
            "source": "landing/",
            "partitions": {"region": {}, "date": {"type": "date", "start": "2026-01-01"}},
            "destination": {"table": "sales"},
        }
    },
}


def _row(name: str, size: Size) -> str:
    return (
        f"{name:<32}{size.files:>6,}{size.lines:>9,}{size.small:>7,}{size.functions:>11,}{size.branches:>10,}"
        f"{size.parameters:>12,}{size.long:>7,}"
    )


def main() -> None:
    """Print the sizes of each room, of the tests and of this folder, and the trace."""
    print(f"{'':<32} files    lines  small  functions  branches  parameters  long")
    package = ROOT / "lake_assets"
    for room in sorted(path for path in package.iterdir() if (path / "__init__.py").exists()):
        print(_row(f"  {room.name}/", Size.of(room.rglob("*.py"))))
    print(_row("  *.py", Size.of(package.glob("*.py"))))
    for name in ("lake_assets", "lake_assets_tests", "dev"):
        print(_row(name, Size.of((ROOT / name).rglob("*.py"))))
    names = Counter(path.name for path in package.rglob("*.py") if path.name != "__init__.py")
    twice = ", ".join(f"{name} {number}" for name, number in names.most_common() if number > 1)
    print(f"\nsmall: files of fewer than {SMALL} lines; long: functions of more than {MANY} parameters")
    print(f"file names in several rooms: {twice}")
    trace = trace_ingest()
    print(
        f"one warm refresh: {len(trace.functions):,} functions in {trace.files:,} files, "
        f"{trace.calls:,} calls, {trace.changes:,} changes of file"
    )


if __name__ == "__main__":
    main()
