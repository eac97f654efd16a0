"""A page's commands with the outputs that it shows, and a terminal on which they are run.

In an indented block, a line after `$ ` is a command, and what follows is its output. A block without `$ ` has commands
whose output is not shown. In an output, `…` is any text, and a line of `…` any lines, or none. A Python block is a
script if its first line is a comment with the name of its file.
"""

import io
import os
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from textwrap import dedent
from unittest import mock

from lake_assets_tests.cli.terminals import on_a_screen

DOCS = Path(__file__).parents[2] / "docs"
PROGRAMS = ("lake-assets ", "cd ")  # of blocks without `$ `
SERVES = "lake-assets dev"
_INDENT = "    "
# What differs from run to run: times, seconds, sizes, ids, snapshots; and so the widths of columns.
_VARYING = [
    (re.compile(pattern), text)
    for pattern, text in {
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d": "TIME",
        r"\b[0-9a-f]{8}\b": "RUN",
        r"\d[\d,.]* [kMG]?B\b": "SIZE",
        r"\d[\d,.]* (?:s|min)\b": "SECONDS",
        r"\bsnapshot \d+": "snapshot N",
        r"─+": "─",
        r" +": " ",
    }.items()
]


@dataclass(frozen=True)
class Shown:
    """A command of a page."""

    place: str
    command: str
    output: str | None
    """None: the page does not show it."""


def shown(page: Path) -> list[Shown]:
    """The commands of a page, in its order, without those that serve until Ctrl-C."""
    return [each for each in _commands(page) if each.command != SERVES]


def section(page: Path, title: str) -> str:
    """The text of a page below a title, up to the next title of any level."""
    _, mark, rest = page.read_text(encoding="utf-8").partition(f"# {title}\n")
    assert mark, f"{page.name} has no title {title!r}"
    return re.split(r"^#+ ", rest, maxsplit=1, flags=re.MULTILINE)[0]


def fenced(text: str, language: str) -> list[str]:
    """The fenced blocks of a language in a text."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def indented(text: str) -> list[str]:
    """The indented blocks of a text, without their indent and without fenced blocks."""
    plain = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return [dedent(block).strip() for block in re.findall(r"(?:^    .*\n)+", plain, re.MULTILINE)]


def write_files(page: Path) -> str:
    """Write a page's config, which is returned, and the files of its blocks ```text NAME, into the current folder."""
    text = page.read_text(encoding="utf-8")
    (config,) = fenced(text, "yaml")
    Path("lake.yaml").write_text(config, encoding="utf-8")
    for name, body in re.findall(r"^```text (\S+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        Path(name).parent.mkdir(parents=True)
        Path(name).write_text(body, encoding="utf-8")
    return config


def write_scripts(page: Path) -> None:
    """Write the scripts of a page into the current folder."""
    for block in fenced(page.read_text(encoding="utf-8"), "python"):
        if named := re.match(r"# (\w+\.py)\n", block):
            Path(named[1]).write_text(block, encoding="utf-8")


def follow(commands: list[Shown], before: dict[str, Callable[[], object]] | None = None) -> list[str]:
    """Run commands in the current folder, and compare their outputs with those of the page.

    Args:
        commands: of a page.
        before: what happens before a command, by how it begins.

    Returns:
        The real outputs.
    """
    outputs = []
    for each in commands:
        for beginning, happen in (before or {}).items():
            if each.command.startswith(beginning):
                happen()
        real, code = run(each.command)
        outputs.append(real)
        assert code in (0, 1, 2), f"{each.place}: {each.command}\n{real}"
        if each.output is None:
            assert code == 0, f"{each.place}: {each.command}\n{real}"
        else:
            agree(each.output, real, f"{each.place}: {each.command}")
    return outputs


def agree(expected: str, real: str, place: str) -> None:
    """Compare a text with that of a page.

    Args:
        expected: the page's.
        real: without what differs from run to run, it is the page's.
        place: what an error begins with.
    """
    pattern, found = comparable(expected), comparable(real)
    assert re.fullmatch(_pattern(pattern), f"{found}\n"), f"{place}\nThe page shows:\n{pattern}\nReal is:\n{found}\n"


def run(command: str) -> tuple[str, int]:
    """What a command writes on a terminal without colours, and its exit code.

    A command of this package, a pipe of such ones, and a Python script are run in this process, with its Spark session,
    and all others by bash. A question is answered with no.
    """
    if command.startswith("cd "):
        os.chdir(command.removeprefix("cd "))
        return "", 0
    if command.startswith("python "):
        return _script(shlex.split(command)[1:])
    if re.search(r"\| (?!lake-assets )", command):
        return _bash(command)
    *before, last = (_words(part) for part in command.split(" | "))
    mine, file = (last[:-2], Path(last[-1])) if last[-2:-1] == [">"] else (last, None)
    pipe = [*before, mine]
    if any(words[0] != "lake-assets" or set("|<>&;()") & {word[0] for word in words if word} for words in pipe):
        return _bash(command)
    typed: bytes | None = None
    for words in before:
        with NamedTemporaryFile() as piped:
            screen, code = on_a_screen(*words[1:], file=Path(piped.name), environment={"COLUMNS": "300"})
            assert (screen, code) == ("", 0), command
            typed = Path(piped.name).read_bytes()
    return on_a_screen(*mine[1:], typed=typed, file=file, environment={"COLUMNS": "300"})


def _words(command: str) -> list[str]:
    """The words of a command; those of the shell, as `>`, are words too."""
    words = shlex.shlex(command, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    return list(words)


def _bash(command: str) -> tuple[str, int]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        env=os.environ | {"PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stdout, done.returncode


def _script(arguments: list[str]) -> tuple[str, int]:
    """What a script of the current folder writes; its error is raised here."""
    screen = io.StringIO()
    modules = set(sys.modules)
    with (
        mock.patch.object(sys, "argv", arguments),
        mock.patch.object(sys, "path", [str(Path.cwd()), *sys.path]),
        redirect_stdout(screen),
        redirect_stderr(screen),
    ):
        try:
            runpy.run_path(arguments[0], run_name="__main__")
        finally:
            for name in {path.stem for path in Path.cwd().glob("*.py")} - modules:
                sys.modules.pop(name, None)
    return screen.getvalue(), 0


def comparable(output: str) -> str:
    """An output without what differs from run to run."""
    lines = []
    for line in output.splitlines():
        for pattern, text in _VARYING:
            line = pattern.sub(text, line)  # noqa: PLW2901 - one after the other
        lines.append(line.strip())
    return "\n".join(lines).strip()


def _pattern(expected: str) -> str:
    """The regular expression of an output with `…`."""
    return "".join(
        "(?:.*\n)*" if line == "…" else ".*".join(map(re.escape, line.split("…"))) + "\n"
        for line in expected.split("\n")
    )


def _commands(page: Path) -> Iterator[Shown]:
    lines = page.read_text(encoding="utf-8").splitlines()
    at = 0
    while at < len(lines):
        begin, line = at, lines[at].removeprefix(_INDENT)
        at += 1
        if line == lines[begin]:
            continue
        place = f"{page.name}:{begin + 1}"
        has_output = line.startswith("$ ")
        if not has_output and not line.startswith(PROGRAMS):
            continue
        command = line.removeprefix("$ ")
        while command.endswith(("\\", "|")):
            command = f"{command.removesuffix(chr(92))}{lines[at].strip()}"
            at += 1
        output = []
        while has_output and at < len(lines) and (lines[at].startswith(_INDENT) or not lines[at]):
            if lines[at].startswith(f"{_INDENT}$ "):
                break
            output.append(lines[at].removeprefix(_INDENT))
            at += 1
        yield Shown(place, re.sub(r"\s+#.*", "", command), "\n".join(output).strip() if has_output else None)
