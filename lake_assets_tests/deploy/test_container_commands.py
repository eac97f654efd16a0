"""The commands of Docker, Compose, kubectl and Helm in `deploy/*.md`: each exists, with the options of the page.

Docker's and kubectl's own clients say what they know, without a server. Compose and Helm are compared with their
references, https://docs.docker.com/reference/cli/docker/compose/ and https://helm.sh/docs/helm/.
"""

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

PAGES = sorted((Path(__file__).parents[2] / "deploy").glob("*.md"))
PROGRAMS = ("docker compose", "docker", "kubectl", "helm")
GROUPS = {"docker volume", "helm repo", "kubectl create", "kubectl create secret", "kubectl rollout"}  # of subcommands
REFERENCE: Mapping[str, set[str]] = {
    "docker compose up": {"--detach", "--wait", "--force-recreate", "--scale", "--build", "--no-deps"},
    "docker compose run": {"--rm", "--no-deps"},
    "docker compose exec": {"-T", "--user", "--env"},
    "docker compose stop": {"--timeout"},
    "docker compose rm": {"--stop", "--force"},
    "docker compose ps": {"--all"},
    "docker compose logs": {"--follow", "--tail"},
    "helm repo add": set(),
    "helm upgrade": {
        "--install",
        "--version",
        "--namespace",
        "--values",
        "--set",
        "--set-string",
        "--wait",
        "--timeout",
    },
}


def commands() -> Iterator[str]:
    """Each command of the pages, up to a redirection or the end of a substitution; a backslash continues a line."""
    programs = "|".join(PROGRAMS)
    for page in PAGES:
        text = page.read_text("utf-8").replace("\\\n", " ")
        yield from re.findall(rf"^ {{4,}}(?:\w+=\$\()?((?:{programs}) [^)<>|\n]+)", text, re.MULTILINE)
        yield from re.findall(rf"`((?:{programs}) [a-z][^`]+)`", text)


def parts(command: str) -> tuple[str, set[str]]:
    """The program with its subcommand, and the options before a container's or service's own command."""
    program = next(name for name in PROGRAMS if command.startswith(f"{name} "))
    first, *words = shlex.split(command.removeprefix(program))
    while f"{program} {first}" in GROUPS:
        first, words = f"{first} {words[0]}", words[1:]
    options = set()
    for place, word in enumerate(words):
        is_positional = not word.startswith("-") and not (place and words[place - 1].startswith("-"))
        if is_positional and first in {"run", "exec"}:
            break  # an image or a service; the rest is what it executes
        if word.startswith("-"):
            options.add(word.partition("=")[0])
    return f"{program} {first}", options


@cache
def known(command: str) -> set[str]:
    """The options of a command, by the program itself."""
    words = command.split()
    if shutil.which(words[0]) is None:
        pytest.skip(f"{words[0]} is not installed")
    texts = [subprocess.run([*words, "--help"], capture_output=True, text=True, check=True).stdout]
    if words[0] == "kubectl":
        texts.append(subprocess.run(["kubectl", "options"], capture_output=True, text=True, check=True).stdout)
    assert "unknown command" not in texts[0]
    return set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", "\n".join(texts)))


@pytest.mark.parametrize("command", sorted(set(commands())))
def test_the_command_exists_with_its_options(command: str) -> None:
    name, options = parts(command)

    assert options - (REFERENCE[name] if name.startswith(("docker compose", "helm")) else known(name)) == set()


def test_the_pages_build_start_and_apply() -> None:
    assert {"docker build", "docker compose up", "kubectl apply", "helm upgrade"} <= {parts(c)[0] for c in commands()}
