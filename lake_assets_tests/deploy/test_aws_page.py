"""`deploy/aws.md`: the commands, parameters and outputs that it names exist, by the models of AWS's services."""

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore import xform_name

from lake_assets_tests.deploy.test_aws_template import TEMPLATE

DEPLOY = Path(__file__).parents[2] / "deploy"
PAGES = [DEPLOY / "aws.md", DEPLOY / "one-vm.md", DEPLOY.parent / "docs/sensors.md"]
TEXT = (DEPLOY / "aws.md").read_text("utf-8")
GLOBAL = {"--query", "--output", "--region"}
# Commands of the tool itself, which no service has. Source: the AWS CLI's reference.
OWN: Mapping[tuple[str, str], set[str]] = {("s3", "cp"): set(), ("s3", "sync"): set()}
SUPPLIED = {"--min-count", "--max-count"}  # by the tool, which has --count for both
SESSION = botocore.session.Session()


def aws_commands() -> Iterator[tuple[str, ...]]:
    """The words of each `aws` command of the pages; a backslash continues a line."""
    for page in PAGES:
        text = page.read_text("utf-8").replace("\\\n", " ")
        yield from (tuple(shlex.split(line)) for line in re.findall(r"^ {4,}aws (.+)$", text, re.MULTILINE))
        yield from (tuple(shlex.split(line)) for line in re.findall(r"`aws ([a-z0-9-]+ [a-z-]+ --[^`]+)`", text))


def options_of(service: str, operation: str) -> tuple[set[str], set[str]]:
    """The options of a command, and those without which it fails.

    Raises:
        KeyError: the service has no such operation.
    """
    model = SESSION.get_service_model(service)
    names = {xform_name(name, "-"): name for name in model.operation_names}
    shape: Any = model.operation_model(names[operation]).input_shape
    members = {f"--{xform_name(name, '-')}": member for name, member in shape.members.items()}
    flags = {f"--no-{name[2:]}" for name, member in members.items() if member.type_name == "boolean"}
    return {*members, *flags}, {f"--{xform_name(name, '-')}" for name in shape.required_members}


@pytest.mark.parametrize("words", sorted(set(aws_commands())), ids=" ".join)
def test_each_command_and_its_options_exist(words: tuple[str, ...]) -> None:
    service, operation, *rest = words
    given = {word for word in rest if word.startswith("--")} - GLOBAL
    if (service, operation) in OWN:
        assert given <= OWN[service, operation]
        return
    if operation == "wait":
        model = SESSION.get_waiter_model(service)
        (waiter,) = (name for name in model.waiter_names if xform_name(name, "-") == rest[0])
        operation = xform_name(model.get_waiter(waiter).operation, "-")
    known, required = options_of({"s3api": "s3"}.get(service, service), operation)

    assert given - known == set()
    assert "wait" in words or required - SUPPLIED <= given


def test_the_page_deploys_backs_up_and_restores() -> None:
    named = {words[:2] for words in aws_commands()}

    assert {
        ("cloudformation", "create-stack"),
        ("rds", "create-db-instance"),
        ("rds", "restore-db-instance-to-point-in-time"),
        ("secretsmanager", "create-secret"),
    } <= named


def test_each_parameter_and_output_that_the_page_names_is_one_of_the_template() -> None:
    known = {*TEMPLATE["Parameters"], *TEMPLATE["Outputs"]}
    named = set(re.findall(r"`([A-Z][a-z]+(?:[A-Z][a-z]+)+)`", TEXT)) - {"AbortIncompleteMultipartUpload"}
    given = set(re.findall(r'"ParameterKey": "(\w+)"', TEXT))

    assert {"KeepDeletedDays", "HostRoleArn"} <= named
    assert {name for name in named - known if not name.startswith("Amazon")} == set()
    assert given == {name for name, parameter in TEMPLATE["Parameters"].items() if "Default" not in parameter}


def test_the_catalog_and_the_bucket_keep_as_many_days() -> None:
    (days,) = re.findall(r"--backup-retention-period (\d+)", TEXT)

    assert TEMPLATE["Parameters"]["KeepDeletedDays"]["Default"] == int(days)
