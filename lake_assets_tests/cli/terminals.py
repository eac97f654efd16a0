"""Commands of lake-assets on a terminal."""

import os
import pty
import subprocess
import sys
from pathlib import Path


def command(config: Path, *arguments: str) -> list[str]:
    """The command line of lake-assets, in this environment."""
    return [sys.executable, "-c", "from lake_assets.cli import main; main()", "--config", str(config), *arguments]


def on_a_terminal(config: Path, *arguments: str, answer: str | None = None, **environment: str) -> tuple[str, int]:
    """What a command writes, on standard output and error, where all of its streams are a terminal; and its exit code.

    Args:
        config: the `lake.yaml`.
        arguments: of the command.
        answer: what is typed, without the end of the line; nothing when None.
        environment: variables.
    """
    ours, theirs = pty.openpty()
    plain = {name: text for name, text in os.environ.items() if name not in ("NO_COLOR", "COLUMNS")}
    with subprocess.Popen(
        command(config, *arguments),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=plain | {"TERM": "xterm-256color"} | environment,
    ) as process:
        os.close(theirs)
        if answer is not None:
            os.write(ours, f"{answer}\n".encode())
        written = b""
        try:
            while sample := os.read(ours, 65536):
                written += sample
        except OSError:  # how Linux says that nobody holds the other end any more
            pass
        os.close(ours)
        return written.decode(), process.wait(timeout=60)
