"""The documentation: every page is in the navigation, every link resolves, and tables stay readable."""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from docs.hooks.site import PAGES as GENERATED
from docs.hooks.site import fenced, labelled
from lake_assets.config.models import LakeConfig

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
WRITTEN = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "deploy").glob("*.md")),
    *PAGES,
]
LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")
MAX_CELL = 200  # characters
MAX_README = 120  # lines


def site() -> dict[str, object]:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    result = yaml.safe_load(text)
    assert isinstance(result, dict)
    return result


def navigated(entry: object) -> Iterator[str]:
    match entry:
        case str():
            yield entry
        case dict():
            for value in entry.values():
                yield from navigated(value)
        case list():
            for value in entry:
                yield from navigated(value)


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def cells(text: str) -> Iterator[str]:
    for line in without_code(text).splitlines():
        if line.startswith("|"):
            yield from (cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|")))


def test_every_page_is_in_the_navigation_once() -> None:
    nav = list(navigated(site()["nav"]))

    assert sorted(nav) == sorted([*(str(page.relative_to(DOCS)) for page in PAGES), *GENERATED])


def test_every_link_of_a_page_resolves() -> None:
    generated = {f"docs/{path}" for path in GENERATED}
    targets = {
        posixpath.normpath(page.parent.relative_to(ROOT) / link): str(page)
        for page in WRITTEN
        for link in LINK.findall(without_code(page.read_text("utf-8")))
    }

    absent = targets.keys() - generated
    assert {target: targets[target] for target in absent if not (ROOT / target).exists()} == {}


def test_no_text_installs_the_package_from_an_index() -> None:
    """No index has it; from its clone it is `.[extra]`."""
    kinds = (".md", ".py", ".j2", ".yaml", ".toml")
    folders = ("docs", "deploy", "examples", "lake_assets")
    files = [file for name in folders for file in (ROOT / name).rglob("*") if file.suffix in kinds]

    assert [
        file for file in (*WRITTEN, *files) if re.search(r"install [^\n`]*lake-assets\[", file.read_text("utf-8"))
    ] == []


def test_no_cell_of_a_table_is_long() -> None:
    texts = {str(page): page.read_text("utf-8") for page in WRITTEN}
    texts |= {path: re.sub(r"\]\([^)]*\)", "]", generate()) for path, generate in GENERATED.items()}

    assert {page: cell for page, text in texts.items() for cell in cells(text) if len(cell) > MAX_CELL} == {}


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) < MAX_README


def test_the_site_loads_nothing_from_elsewhere() -> None:
    theme = site()["theme"]
    assert isinstance(theme, dict)
    assert theme["font"] is False
    assert "repo_url" not in site()  # the theme asks its host for the number of stars


def test_the_config_reference_has_every_key_with_a_description() -> None:
    page = GENERATED["reference/config.md"]()
    definitions = LakeConfig.model_json_schema()
    keys = [key for model in (definitions, *definitions["$defs"].values()) for key in model.get("properties", {})]
    rows = [line for line in page.splitlines() if line.startswith("| `")]

    assert len(keys) > 100
    assert {key for key in keys if f"| `{key}` |" not in page} == set()
    assert [row for row in rows if row.endswith("|  |")] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Text.\n\n    $ lake-assets\n    done\n", "Text.\n\n```console\n$ lake-assets\ndone\n```\n"),
        ("Text.\n\n    lake-assets ingest sales\n", "Text.\n\n```text\nlake-assets ingest sales\n```\n"),
        ("```\nx\n```\n\n    a\n\n    b\n", "```\nx\n```\n\n```text { .no-copy }\na\n\nb\n```\n"),
        ("1. item\n\n    $ a command\n", "1. item\n\n    $ a command\n"),
        ("```yaml\na:\n\n    b: 1\n```\n", "```yaml\na:\n\n    b: 1\n```\n"),
    ],
)
def test_an_indented_block_gets_the_language_of_its_content_which_decides_what_a_button_copies(
    text: str, expected: str
) -> None:
    assert fenced(text) == expected


def test_each_cell_has_the_name_of_its_column() -> None:
    table = "<table><thead><tr><th>key</th></tr></thead><tbody><tr><td align='x'>b</td></tr></tbody></table>"

    assert "<td data-label=\"key\" align='x'>b</td>" in labelled(table)
