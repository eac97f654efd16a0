"""What Dagster does not document is used in `orchestration/dagster_private.py` alone."""

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import dagster as dg
from dagster._annotations import is_public

import lake_assets

PACKAGE = Path(lake_assets.__file__).parent
PRIVATE = PACKAGE / "orchestration" / "dagster_private.py"
# Modules whose names have a page in Dagster's reference.
DOCUMENTED = {"dagster", "dagster_aws.pipes", "dagster_msteams", "dagster_pipes", "dagster_pyspark", "dagster_slack"}
OBJECTS = (
    *(dg.DagsterInstance, dg.JobDefinition, dg.PartitionsDefinition, dg.AssetKey, dg.AssetCheckKey, dg.AssetCheckSpec),
    *(dg.AssetExecutionContext, dg.AssetCheckExecutionContext, dg.OpExecutionContext),
    *(dg.SensorEvaluationContext, dg.ScheduleEvaluationContext),
)
"""The classes of Dagster's objects that the package calls."""


def modules_of_dagster(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        names = (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom) and not node.level
            else []
        )
        yield from (name for name in names if re.match(r"dagster(_[a-z]+)?(\.|$)", name))


@cache
def undocumented_attributes() -> frozenset[str]:
    """Methods and properties that Dagster's classes have and do not mark as public; arguments of classes are public."""
    is_documented: dict[str, bool] = {}
    for owner in OBJECTS:
        for name, member in inspect.getmembers(owner):
            function = member.fget if isinstance(member, property) else member
            if not name.startswith("_") and (inspect.isroutine(function) or isinstance(member, property)):
                is_public_here = is_public(member) or is_public(function)
                is_documented[name] = is_documented.get(name, False) or is_public_here
    classes = [value for value in vars(dg).values() if inspect.isclass(value)]
    arguments = {name for owner in classes for name in inspect.signature(owner.__new__).parameters}
    arguments |= {name for owner in classes for name in inspect.signature(owner.__init__).parameters}
    return frozenset({name for name, documented in is_documented.items() if not documented} - arguments)


def undocumented(path: Path) -> list[str]:
    """Return what a file uses of Dagster that has no page in its reference."""
    tree = ast.parse(path.read_text())
    modules = set(modules_of_dagster(tree))
    if not modules:
        return []
    attributes = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and not (isinstance(node.value, ast.Name) and node.value.id in {"self", "cls", "dg"})
    ]
    found = [
        ast.unparse(node)
        for node in attributes
        if node.attr in undocumented_attributes() or re.match("_(?!_)", node.attr)
    ]
    return [*sorted(modules - DOCUMENTED), *found]


def test_a_file_uses_only_what_dagster_documents() -> None:
    used = {str(path.relative_to(PACKAGE)): undocumented(path) for path in PACKAGE.rglob("*.py") if path != PRIVATE}
    assert len(used) > 200
    assert {file: names for file, names in used.items() if names} == {}
    assert "dagster._core.events" in undocumented(PRIVATE)


def test_what_dagster_does_not_document_is_used_in_few_lines() -> None:
    """Each is work at an upgrade of Dagster, of which `pyproject.toml` excludes none."""
    text = PRIVATE.read_text()
    texts = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and node.end_lineno is not None
        for line in range(node.lineno, node.end_lineno + 1)
    }
    lines = enumerate(text.splitlines(), 1)
    code = [
        line for number, line in lines if number not in texts and line.strip() and not line.lstrip().startswith("#")
    ]

    assert len(code) <= 120
