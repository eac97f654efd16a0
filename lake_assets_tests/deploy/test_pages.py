"""The pages of `deploy/`: each path, variable, target, config key and command that they name exists."""

import re
import shlex
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from lake_assets.config.document import read_document
from lake_assets.config.models import LakeConfig
from lake_assets_tests.deploy.commands import PROGRAMS, parse

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
TEXT = "\n".join(page.read_text("utf-8") for page in sorted(DEPLOY.glob("*.md")))
EXAMPLE = {"LAKE_BUCKET": "example-lake", "LANDING_BUCKET": "example-landing", "LAKE_CATALOG_PASSWORD": "example"}
# Where the pages put files of this folder.
INSTALLED = {
    "/etc/lake": (DEPLOY, DEPLOY / "systemd"),
    "/var/lib/lake": (DEPLOY,),
    "/usr/local/bin": (DEPLOY / "systemd",),
}


def sources() -> list[Path]:
    return [file for file in DEPLOY.rglob("*") if file.is_file() and file.suffix != ".md"]


def test_each_file_that_is_named_exists_here_or_is_installed() -> None:
    named = set(re.findall(r"(?<![\w./])deploy/[\w./*-]+", TEXT))
    made = set(re.findall(r"install -d \S+ \S+ (deploy/\S+)", TEXT))
    installed = re.findall(r"(/etc/lake|/var/lib/lake|/usr/local/bin)/([\w.-]+)", TEXT)

    assert min(len(named), len(installed)) > 5
    assert [path for path in named - made if not list(ROOT.glob(path.rstrip("/")))] == []
    assert [name for place, name in installed if not any((f / name).exists() for f in INSTALLED[place])] == []


def test_each_variable_is_one_of_the_files_and_each_target_one_of_make() -> None:
    variable = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b")
    known = {name for file in sources() for name in variable.findall(file.read_text("utf-8"))}
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))

    # The reader's own, one of Compose, and one of AWS.
    assert set(variable.findall(TEXT)) - known == {"BACKUP_BUCKET", "COMPOSE_FILE", "CAPABILITY_IAM"}
    assert {"image-test"} <= set(re.findall(r"`make ([a-z-]+)", TEXT)) <= targets


def merged(base: Any, more: Any) -> Any:
    if isinstance(base, dict) and isinstance(more, dict):
        return base | {key: merged(base.get(key), value) for key, value in more.items()}
    return more


def test_each_addition_to_the_config_is_valid() -> None:
    base = read_document((DEPLOY / "lake.yaml").read_text("utf-8"), EXAMPLE)
    blocks = re.findall(r"^( *)```yaml\n(.*?)^\1```$", TEXT, re.MULTILINE | re.DOTALL)

    assert (base.problems, len(blocks)) == ([], 4)
    for _, block in blocks:
        LakeConfig.model_validate(merged(base.data, yaml.safe_load(textwrap.dedent(block))))


def code() -> Iterator[str]:
    """The command lines of the pages, each without what is around it; inline ones too."""
    for line in TEXT.splitlines():
        if line.startswith("    "):
            yield line.strip()
        yield from re.findall(r"`([^`]+)`", line)


def test_each_command_and_its_options_exist() -> None:
    lines = (re.sub(r"^(sudo )?(as-lake )?(docker compose run --rm [a-z-]+ )?", "", line) for line in code())
    commands = {line.partition(" ")[::2] for line in lines}
    commands = {(program, arguments) for program, arguments in commands if program in PROGRAMS and arguments}

    for program, arguments in commands:
        parse(program, shlex.split(arguments.partition(" > ")[0]))
    named = {arguments.split()[0] for program, arguments in commands if program == "lake-assets"}
    assert {"doctor", "validate", "plan", "ingest", "report", "check", "query"} <= named
