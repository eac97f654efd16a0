"""MkDocs' hook of the site: generated pages, links to the source, code blocks and tables.

The reference is generated from the code at each build, so it cannot differ from the code.
"""

import posixpath
import re
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import lake_assets
from docs.hooks.cli_reference import cli_page
from docs.hooks.config_reference import config_page
from docs.hooks.figures import with_figures
from docs.hooks.json_reference import json_page
from lake_assets import api
from lake_assets.cli import main
from lake_assets.cli.documents import output_schema
from lake_assets.cli.output import JSON_COMMANDS
from lake_assets.config.models import LakeConfig
from lake_assets.version import VERSION

ROOT = Path(__file__).parents[2]
SOURCE = "https://github.com/lake-assets/lake-assets/blob/main/"
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((\.\.?/[^)\s]+)\)")
_FENCED = re.compile(r"^(```.*?^```$)", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?P<before>\A|^\S[^\n]*)\n\n(?P<code>(?: {4}[^\n]*(?:\n|\Z)|\n(?= {4}))+)", re.MULTILINE)
_COMMAND = re.compile(
    r"(?:CREATE|aws|cd|dagster|dg|export|kill|lake-assets|make|pip|psql|python|[A-Z_]+=\S+|\.venv/\S+|\w+/lake-assets) "
)
_TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)

_PYTHON = f"""# Python reference

    from lake_assets import open_stream

These names are the public interface of the package. [From Python](../python.md) shows how to use them.

::: lake_assets
    options:
      members: [{", ".join(lake_assets.__all__)}]
      show_root_heading: false
      show_root_toc_entry: false

## Arguments and results

    from lake_assets.api import Outcome

::: lake_assets.api
    options:
      members: [{", ".join(sorted(set(api.__all__).difference(lake_assets.__all__)))}]
      show_root_heading: false
      show_root_toc_entry: false
"""


PAGES: Mapping[str, Callable[[], str]] = {
    "reference/config.md": lambda: config_page(LakeConfig),
    "reference/cli.md": lambda: cli_page(main),
    "reference/json.md": lambda: json_page({command: output_schema(command) for command in JSON_COMMANDS}),
    "reference/python.md": lambda: _PYTHON,
    "reference/changelog.md": lambda: (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").replace("](docs/", "](../"),
}
"""The generated pages: each path in the site, and the function that gives its Markdown."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are generated from the code."""
    for path, page in PAGES.items():
        files.append(File.generated(config, path, content=page()))
    return files


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Show the version at the foot of each page."""
    config.copyright = f"lake_assets {VERSION}"
    return config


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - MkDocs' signature
    """Insert generated parts, link files of the repository that are not on the site, and name the language of code."""
    folder = posixpath.dirname(page.file.src_uri)

    def linked(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[2].partition("#")[0]))
        return f"[{link[1]}]({SOURCE}{target.removeprefix('../')})" if target.startswith("../") else link[0]

    return fenced(_LINK.sub(linked, with_figures(page.file.src_uri, markdown)))


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - MkDocs' signature
    """Name the column in each cell of a table, which a narrow screen shows in place of the table's head."""
    return labelled(html)


def fenced(markdown: str) -> str:
    """Markdown with a fence around each indented block of code.

    A block with `$ ` is a console, whose commands alone are copied. A block of commands is copied whole, and any other
    block is an output, without a button.
    """
    pieces = _FENCED.split(markdown)
    pieces[::2] = [_INDENTED.sub(_fence, text) for text in pieces[::2]]
    return "".join(pieces)


def labelled(html: str) -> str:
    """HTML whose tables have the name of the column in each cell."""
    return _TABLE.sub(_labelled, html)


def _fence(block: re.Match[str]) -> str:
    if re.match(r"\s*(?:[-*]|\d+\.) ", block["before"]):
        return block[0]  # a paragraph of a list
    code = textwrap.dedent(block["code"]).strip("\n")
    language = "text" if _COMMAND.match(code) else "text { .no-copy }"
    if re.search(r"^\$ ", code, re.MULTILINE):
        language = "console"
    return f"{block['before']}\n\n```{language}\n{code}\n```\n"


def _labelled(table: re.Match[str]) -> str:
    heads = [re.sub(r"<[^>]*>", "", head) for head in re.findall(r"<th[^>]*>(.*?)</th>", table[0], re.DOTALL)]
    first, *rows = table[0].split("<tr>")
    for number, row in enumerate(rows):
        before, *cells = row.split("<td")
        labels = [*heads, *("" for _ in cells)]
        rows[number] = before + "".join(
            f'<td data-label="{label}"{cell}' for label, cell in zip(labels, cells, strict=False)
        )
    return "<tr>".join([first, *rows])
