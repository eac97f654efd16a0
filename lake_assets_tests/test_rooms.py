"""The rooms are those of the architecture page, and each imports only what stands above it there."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import lake_assets

PACKAGE = Path(lake_assets.__file__).parent
PAGE = PACKAGE.parent / "docs" / "architecture.md"
EVERYWHERE = {"errors", "__init__"}


def ranks() -> dict[str, int]:
    """The rooms by their line on the page; a line may name a second file."""
    text = PAGE.read_text()
    lines = text[text.index("    lake_assets/\n") : text.index("A room imports")].splitlines()[1:]
    named = [re.findall(r"\b([a-z_]+)(?:\.py|/)(?=[ :]|$)", line) for line in lines]
    return {room: rank for rank, rooms in enumerate(named) for room in rooms}


def imports() -> Iterator[tuple[str, str, str]]:
    """Every import of the package by itself: the file, its room, and the room that it imports."""
    for file in PACKAGE.rglob("*.py"):
        name = file.relative_to(PACKAGE)
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == PACKAGE.name:
                inside = node.module.split(".")[1:2] or [alias.name for alias in node.names]
                yield from ((str(name), name.parts[0].removesuffix(".py"), room) for room in inside)


def test_the_page_names_every_room() -> None:
    rooms = {p.stem for p in PACKAGE.iterdir() if (p / "__init__.py").exists() or p.suffix == ".py"}
    assert set(ranks()) == rooms - EVERYWHERE


def test_a_room_imports_only_what_stands_above_it() -> None:
    order = ranks()
    found = [(file, room, other) for file, room, other in imports() if not {room, other} & EVERYWHERE]
    assert len(found) > 500
    assert [(file, other) for file, room, other in found if order[other] > order[room]] == []
