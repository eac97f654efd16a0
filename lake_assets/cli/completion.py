"""The commands `completion show` and `completion install`."""

import os
import sys
from pathlib import Path

import click

from lake_assets.cli.shells import SHELLS
from lake_assets.cli.terminal import info
from lake_assets.errors import StorageError

PROGRAM, VARIABLE = "lake-assets", "_LAKE_ASSETS_COMPLETE"

_shell = click.argument("shell", type=click.Choice(list(SHELLS)), required=False)


@click.group()
def completion() -> None:
    """Complete commands, options, streams and values in a shell."""


@completion.command()
@_shell
def show(shell: str | None) -> None:
    """Print the completion script of a shell. Default: that of $SHELL."""
    sys.stdout.write(script(_named(shell)))


@completion.command()
@_shell
def install(shell: str | None) -> None:
    """Write a completion script, which the shell then reads.

    The default is the shell of $SHELL. For bash and zsh, one line is added to ~/.bashrc or ~/.zshrc, unless it is
    there.
    """
    shell = _named(shell)
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    file = (
        config / "fish" / "completions" / f"{PROGRAM}.fish"
        if shell == "fish"
        else data / PROGRAM / f"completion.{shell}"
    )
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(script(shell), encoding="utf-8")
        info(f"wrote    {file}")
        if shell != "fish":
            _add_line(Path.home() / f".{shell}rc", f'source "{file}"')
    except OSError as error:
        raise StorageError(f"{error.filename} cannot be written: {error.strerror}:", "make it writable.") from error
    info(f"Start a new {shell} to use it.")


def script(shell: str) -> str:
    """Return the completion script of a shell."""
    return SHELLS[shell](click.Command(PROGRAM), {}, PROGRAM, VARIABLE).source()


def _add_line(file: Path, line: str) -> None:
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    if line in text.splitlines():
        return
    start = "" if not text or text.endswith("\n") else "\n"
    with file.open("a", encoding="utf-8") as appended:
        appended.write(f"{start}{line}\n")
    info(f"added to {file}: {line}")


def _named(shell: str | None) -> str:
    name = shell or Path(os.environ.get("SHELL", "")).name
    if name not in SHELLS:
        raise click.UsageError(
            f"$SHELL is {name or 'not set'}: name one of {', '.join(SHELLS)}.", click.get_current_context()
        )
    return name
