"""The commands `completion show` and `completion install`: scripts of bash, zsh and fish, from click."""

import os
import sys
from pathlib import Path

import click
from click.shell_completion import BashComplete, CompletionItem, add_completion_class, get_completion_class

from lake_assets.cli.terminal import tell
from lake_assets.errors import StorageError

PROGRAM, VARIABLE = "lake-assets", "_LAKE_ASSETS_COMPLETE"
SHELLS = ("bash", "zsh", "fish")
_BREAKS = "=:"  # bash ends a word at these

_BASH = """\
%(complete_func)s() {
    local IFS=$'\\n' completion type value
    for completion in $(env COMP_LINE="${COMP_LINE:0:COMP_POINT}" %(complete_var)s=bash_complete "$1"); do
        IFS=',' read -r type value <<< "$completion"
        case $type in
            dir) COMPREPLY=(); compopt -o dirnames ;;
            file) COMPREPLY=(); compopt -o default ;;
            plain) COMPREPLY+=("$value") ;;
        esac
        [[ $value == *= ]] && compopt -o nospace
    done
    return 0
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""


@add_completion_class
class LineComplete(BashComplete):
    """Completion in bash by the line. Click's own completes by words, which end at each `=` of a selection."""

    source_template = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the cursor's, and the cursor's as far as it is written."""
        from click.shell_completion import split_arg_string  # noqa: PLC0415 - of the same module

        line = os.environ["COMP_LINE"]
        words = split_arg_string(line)
        incomplete = "" if line[-1:].isspace() and not _is_quoted(line) else words.pop()
        self._given = "" if _is_quoted(line) else incomplete
        return words[1:], incomplete

    def format_completion(self, item: CompletionItem) -> str:
        """What replaces the cursor's word: without what bash takes for the words before it."""
        start = max(self._given.rfind(sign) for sign in _BREAKS) + 1
        return f"{item.type},{str(item.value)[start:]}"


def _is_quoted(line: str) -> bool:
    """Whether a quote is open at the end of a line."""
    quote = ""
    for sign in line:
        if sign == quote:
            quote = ""
        elif sign in "'\"" and not quote:
            quote = sign
    return bool(quote)


_shell = click.argument("shell", type=click.Choice(SHELLS), required=False)


@click.group()
def completion() -> None:
    """Completion of commands, options, streams, partition columns and their values in a shell."""


@completion.command()
@_shell
def show(shell: str | None) -> None:
    """Print the completion script of a shell. Default: that of $SHELL."""
    sys.stdout.write(script(_named(shell)))


@completion.command()
@_shell
def install(shell: str | None) -> None:
    """Write the completion script of a shell, and have the shell read it. Default: the shell of $SHELL.

    For bash and zsh, one line is added to ~/.bashrc or ~/.zshrc, unless it is there.
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
        tell(f"wrote    {file}")
        if shell != "fish":
            _add_line(Path.home() / f".{shell}rc", f'source "{file}"')
    except OSError as error:
        raise StorageError(f"{error.filename} cannot be written: {error.strerror}:", "make it writable.") from error
    tell(f"Start a new {shell} to use it.")


def script(shell: str) -> str:
    """The completion script of a shell."""
    found = get_completion_class(shell)
    assert found is not None  # noqa: S101 - click has these shells
    return found(click.Command(PROGRAM), {}, PROGRAM, VARIABLE).source()


def _add_line(file: Path, line: str) -> None:
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    if line in text.splitlines():
        return
    start = "" if not text or text.endswith("\n") else "\n"
    with file.open("a", encoding="utf-8") as appended:
        appended.write(f"{start}{line}\n")
    tell(f"added to {file}: {line}")


def _named(shell: str | None) -> str:
    name = shell or Path(os.environ.get("SHELL", "")).name
    if name not in SHELLS:
        raise click.UsageError(
            f"$SHELL is {name or 'not set'}: name one of {', '.join(SHELLS)}.", click.get_current_context()
        )
    return name
