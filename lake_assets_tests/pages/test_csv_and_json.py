"""The commands of the page about CSV, JSON, Avro and ORC, each with the output that it shows."""

import re
from pathlib import Path

from lake_assets_tests.pages.transcript import DOCS, fenced, follow, shown

PAGE = DOCS / "how-to" / "csv-and-json.md"


def test_the_page_shows_what_its_commands_print(folder: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    (config,) = fenced(text, "yaml")
    (folder / "lake.yaml").write_text(config, encoding="utf-8")
    for name, body in re.findall(r"^```text (\S+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        file = folder / name
        file.parent.mkdir(parents=True)
        file.write_text(body, encoding="utf-8")

    follow(shown(PAGE))
