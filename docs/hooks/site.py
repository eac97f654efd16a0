"""MkDocs' hook of the site: adds the generated pages, and treats links to files that are no page of it.

The reference is generated from the code at each build, so it cannot say anything else than the code does.
"""

import posixpath
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import lake_assets
from docs.hooks.cli_reference import cli_page
from docs.hooks.config_reference import config_page
from docs.hooks.json_reference import json_page
from lake_assets.api import stream
from lake_assets.cli import main
from lake_assets.cli.documents import output_schema
from lake_assets.cli.output import COMMANDS
from lake_assets.config.models import LakeConfig

ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((\.\.?/[^)\s]+)\)")

_PYTHON = f"""# Python reference

    from lake_assets import open_stream

These names are the public interface of the package. [From Python](../python.md) shows how to use them.

::: lake_assets
    options:
      members: [{", ".join(lake_assets.__all__)}]
      show_root_heading: false
      show_root_toc_entry: false

## Arguments and results

    from lake_assets.api.stream import IngestResult

::: lake_assets.api.stream
    options:
      members: [{", ".join(sorted(set(stream.__all__).difference(lake_assets.__all__)))}]
      show_root_heading: false
      show_root_toc_entry: false
"""


PAGES: Mapping[str, Callable[[], str]] = {
    "reference/config.md": lambda: config_page(LakeConfig),
    "reference/cli.md": lambda: cli_page(main),
    "reference/json.md": lambda: json_page({command: output_schema(command) for command in COMMANDS}),
    "reference/python.md": lambda: _PYTHON,
    "reference/changelog.md": lambda: (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").replace("](docs/", "](../"),
}
"""The generated pages: each path in the site, and the function that gives its Markdown."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are generated from the code."""
    for path, page in PAGES.items():
        files.append(File.generated(config, path, content=page()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - MkDocs' signature
    """Show links to files of the repository that are no page of the site as plain text."""
    folder = posixpath.dirname(page.file.src_uri)

    def shown(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[2].partition("#")[0]))
        return link[1] if target.startswith("../") else link[0]

    return _LINK.sub(shown, markdown)
