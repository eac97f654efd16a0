"""The commands, targets, variables and files that the documentation names exist; `deploy/` has tests of its own."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from opentelemetry.sdk import environment_variables

import lake_assets
from lake_assets_tests.deploy.commands import PROGRAMS, parse

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
GLOBAL = re.compile(r"^(--config \S+|--debug|--log-format \S+|-q|-v) ")
VARIABLE = re.compile(r"(?<![\w.])[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b")
NO_VARIABLES = {"FAILED_READ_FILE"}  # a class of Spark's errors


def commands() -> Iterator[tuple[str, str]]:
    """The program and the arguments of each command that a page shows in a block."""
    for page in PAGES:
        text = page.read_text("utf-8").replace("\\\n", " ")
        for line in re.findall(rf"^ {{4,}}((?:{'|'.join(PROGRAMS)}) [^\n]+)$", text, re.MULTILINE):
            program, _, arguments = re.sub(r"\s+#.*| [|>&].*|;.*", "", line).partition(" ")
            while found := GLOBAL.match(arguments):
                arguments = arguments[found.end() :]
            if arguments != "--help" and not re.search(r"…|\[|\bCOMMAND\b", arguments):
                yield program, arguments


def test_each_command_and_its_options_exist() -> None:
    found = sorted(set(commands()))

    for program, arguments in found:
        parse(program, shlex.split(arguments))
    assert len(found) > 40


def sources() -> str:
    """The text of all that is not documentation."""
    folders = ("lake_assets", "lake_assets_tests", "dev", "deploy", "examples", ".ci")
    files = [*(file for name in folders for file in (ROOT / name).rglob("*")), ROOT / "Makefile", ROOT / "dagster.yaml"]
    suffixes = {".py", ".yaml", ".env", ".service", ".conf", ".sql", ".json", ".j2", ""}
    texts = [file for file in files if file.is_file() and file.suffix in suffixes and file != Path(__file__)]
    return "\n".join(file.read_text("utf-8", errors="replace") for file in texts)


def test_each_variable_that_a_page_names_is_one_of_the_code_or_of_its_tests() -> None:
    known = set(VARIABLE.findall(sources())) | set(vars(environment_variables)) | NO_VARIABLES
    texts = {page.name: page.read_text("utf-8") for page in PAGES}
    own = {name for text in texts.values() for name in re.findall(r"\$\{(\w+)\}", text)}  # the reader's, of a config
    named = {name: page for page, text in texts.items() for name in VARIABLE.findall(text)}

    assert {"LAKE_CONFIG", "SPARK_REMOTE", "OPENLINEAGE_URL"} <= named.keys()
    assert {name: page for name, page in named.items() if name not in known | own} == {}


def test_each_target_of_make_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    texts = [page.read_text("utf-8") for page in PAGES]
    named = {name for text in texts for name in re.findall(r"(?:`|^ {4,})make ([a-z-]+)", text, re.MULTILINE)}

    assert {"demo", "test", "stack"} <= named
    assert named <= targets


def test_files_that_the_contributing_guide_names_exist() -> None:
    """A path in backticks is relative to the project, and in the table of places to the package or its tests."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    named = [path for path in re.findall(r"`([\w./-]+)`", text) if "/" in path or path.endswith((".py", ".lock"))]
    named += re.findall(r"(?<= )(?:lake_assets_tests|examples)/\S+", text)  # of a command
    roots = (ROOT, Path(lake_assets.__file__).parent, ROOT / "lake_assets_tests")
    assert len(named) > 15
    assert [path for path in named if not any((root / path).exists() for root in roots)] == []
