"""Users who may do less: the modes of files bind them, also where the tests run as root."""

import ctypes
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from click.testing import CliRunner

from lake_assets.cli import main
from lake_assets_tests.world import NW

COMMAND = (sys.executable, "-c", "from lake_assets.cli import main; main()")
BOUND_BY_MODES = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search") if os.geteuid() == 0 else ()
READS = {
    "doctor": ["doctor", "--as", "reader"],
    "query": ["query", "SELECT sum(total) FROM sales"],
    "report": ["report"],
    "history": ["history", "sales", "--partition", NW],
    "plan": ["plan", "sales", "--waiting"],
    "ledger": ["ledger", "sales"],
}


@contextmanager
def bound_by_modes() -> Iterator[None]:
    """Let the modes of files bind this thread, also of root."""
    libc, header = ctypes.CDLL(None, use_errno=True), (ctypes.c_uint32 * 2)(0x20080522, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted and inheritable ones, of two words
    assert libc.capget(header, sets) == 0
    before, sets[0] = sets[0], sets[0] & ~0b110  # to override modes, and to read and search
    assert libc.capset(header, sets) == 0
    try:
        yield
    finally:
        sets[0] = before
        assert libc.capset(header, sets) == 0


def unprivileged(verb: Callable[[], object]) -> Callable[[], object]:
    """What a user does whom the modes of files bind."""

    def do() -> object:
        with bound_by_modes():
            return verb()

    return do


@contextmanager
def only_readable(*folders: Path) -> Iterator[None]:
    """Nobody may write in these folders and below, this thread neither."""
    paths = [path for folder in folders for path in (folder, *folder.rglob("*"))]
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in paths}
    for path, mode in modes.items():
        path.chmod(mode & ~0o222)
    try:
        with bound_by_modes():
            yield
    finally:
        for path, mode in modes.items():
            if path.exists():
                path.chmod(mode)


def contents(folder: Path) -> dict[str, tuple[int, int]]:
    """The files and folders below one, with their sizes and the times of their last changes."""
    return {
        str(path.relative_to(folder)): (status.st_size, status.st_mtime_ns)
        for path in folder.rglob("*")
        if (status := os.lstat(path))
    }


def run(config: Path, *arguments: str, code: int = 0) -> str:
    """Run a command of lake-assets; returns what it prints."""
    result = CliRunner().invoke(main, ["--config", str(config), *arguments])
    assert result.exit_code == code, result.output
    return result.output


def reads_all(config: Path) -> dict[str, str]:
    """Run all commands that read; returns what each prints."""
    return {name: run(config, *arguments) for name, arguments in READS.items()}
