"""The tables of docs/faults.md, which the tests of faults compare with what they find."""

from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "faults.md"


@dataclass(frozen=True)
class Row:
    """The outcomes at a step: `succeeds`, `fails` or `may fail`."""

    step: str
    operations: frozenset[str]
    short: str
    lasting: str


def tables(section: str) -> list[list[list[str]]]:
    """The tables of a section of the page, each a list of rows of cells, without the heads."""
    text = PAGE.read_text("utf-8").split(f"\n## {section}\n")[1].split("\n## ")[0]
    blocks = [block for block in text.split("\n\n") if block.lstrip().startswith("|")]
    return [
        [[cell.strip() for cell in line.strip("|").split("|")] for line in block.strip().splitlines()[2:]]
        for block in blocks
    ]


def faults(section: str) -> list[str]:
    """The faults of a server, in the order of the page."""
    return [fault for fault, _ in tables(section)[0]]


def steps(section: str) -> dict[str, Row]:
    """The steps of a server's section, by their names."""
    rows = tables(section)[1]
    return {step: Row(step, frozenset(of.split(", ")), short, lasting) for step, of, short, lasting in rows}


def tests() -> list[str]:
    """The files of the tests that the page names."""
    return [part for part in PAGE.read_text("utf-8").split("`") if part.endswith(".py")]
