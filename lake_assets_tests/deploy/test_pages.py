"""The pages of `deploy/`: each path, unit, variable, config key and command that they name exists."""

import re
import shlex
import sysconfig
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lake_assets.config.document import read_document
from lake_assets.config.models import LakeConfig
from lake_assets_tests.deploy.commands import PROGRAMS, parse

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PAGES = sorted(DEPLOY.glob("*.md"))
TEXT = "\n".join(page.read_text("utf-8") for page in PAGES)
SOURCES = [file for file in DEPLOY.rglob("*") if file.is_file() and file.suffix != ".md"]
EXAMPLE = {"LAKE_BUCKET": "example-lake", "LANDING_BUCKET": "example-landing", "LAKE_CATALOG_PASSWORD": "example"}
# Where the pages put files of this folder, and what they make themselves.
INSTALLED = {
    "/etc/lake": (DEPLOY, DEPLOY / "systemd"),
    "/var/lib/lake": (DEPLOY,),
    "/usr/local/bin": (DEPLOY / "systemd",),
}


def code() -> Iterator[str]:
    """The command lines of the pages, each without what is around it; inline ones too."""
    for line in TEXT.splitlines():
        if line.startswith("    "):
            yield line.strip()
        yield from re.findall(r"`([^`]+)`", line)


def test_the_repository_has_each_file_that_a_command_names() -> None:
    named = set(re.findall(r"(?<![\w./])deploy/[\w./*-]+", TEXT))

    made = set(re.findall(r"install -d \S+ \S+ (deploy/\S+)", TEXT))
    assert len(named) > 5
    assert [path for path in named - made if not list(ROOT.glob(path.rstrip("/")))] == []


def test_each_installed_file_is_one_of_this_folder() -> None:
    named = re.findall(r"(/etc/lake|/var/lib/lake|/usr/local/bin)/([\w.-]+)", TEXT)

    assert len(named) > 5
    assert [name for place, name in named if not any((folder / name).exists() for folder in INSTALLED[place])] == []


def test_each_program_of_the_environment_is_installed_by_the_packages() -> None:
    units = "\n".join(file.read_text("utf-8") for file in SOURCES if file.suffix == ".service")
    named = set(re.findall(r"/opt/lake/bin/([\w-]+)", TEXT + units))

    assert {"dagster", "dagster-daemon", "dagster-webserver", "python"} <= named
    assert [name for name in named if not (Path(sysconfig.get_path("scripts")) / name).exists()] == []


def test_each_unit_exists() -> None:
    named = set(re.findall(r"(?<!/)\blake-assets(?:\.target|-[a-z-]*[a-z](?:\.service)?)(?![\w./])", TEXT))
    existing = {file.name for file in (DEPLOY / "systemd").iterdir()}

    assert {"lake-assets.target", "lake-assets-daemon"} <= named
    assert [name for name in named if not {name, f"{name}.service"} & existing] == []


def test_each_variable_is_one_of_the_files() -> None:
    known = set(
        re.findall(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b", "\n".join(file.read_text("utf-8") for file in SOURCES))
    )
    named = set(re.findall(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b", TEXT))

    assert {"LAKE_BUCKET", "AWS_ENDPOINT_URL_S3", "LAKE_CONFIG"} <= named
    # The reader's own, one of Compose, and one of AWS.
    assert named - known == {"BACKUP_BUCKET", "COMPOSE_FILE", "CAPABILITY_IAM"}


def test_each_target_of_make_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = set(re.findall(r"`make ([a-z-]+)", TEXT))

    assert "image-test" in named
    assert named <= targets


def blocks() -> list[str]:
    found = re.findall(r"^( *)```yaml\n(.*?)^\1```$", TEXT, re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(text) for _, text in found]


def merged(base: Any, more: Any) -> Any:
    if isinstance(base, dict) and isinstance(more, dict):
        return base | {key: merged(base.get(key), value) for key, value in more.items()}
    return more


@pytest.mark.parametrize("block", blocks())
def test_each_addition_to_the_config_is_valid(block: str) -> None:
    base = read_document((DEPLOY / "lake.yaml").read_text("utf-8"), EXAMPLE)

    assert base.problems == []
    LakeConfig.model_validate(merged(base.data, yaml.safe_load(block)))


def test_the_pages_add_to_the_config() -> None:
    assert len(blocks()) == 4


def commands() -> list[tuple[str, str]]:
    """The program and the arguments of each command of the pages."""
    lines = (re.sub(r"^(sudo )?(as-lake )?(docker compose run --rm [a-z-]+ )?", "", line) for line in code())
    pairs = (line.partition(" ")[::2] for line in lines)
    return sorted({(program, arguments) for program, arguments in pairs if program in PROGRAMS and arguments})


@pytest.mark.parametrize(("program", "arguments"), commands())
def test_each_command_and_its_options_exist(program: str, arguments: str) -> None:
    parse(program, shlex.split(arguments.partition(" > ")[0]))


def test_the_pages_name_the_commands_of_a_working_life() -> None:
    named = {arguments.split()[0] for program, arguments in commands() if program == "lake-assets"}

    assert {"doctor", "validate", "plan", "ingest", "report", "check", "query"} <= named
