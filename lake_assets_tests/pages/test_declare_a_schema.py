"""The commands of the page about declared columns, each with the output that it shows."""

from pathlib import Path

import pytest

from lake_assets.api.stream import open_stream
from lake_assets.config.load import load_config
from lake_assets.errors import SchemaError
from lake_assets_tests.pages.transcript import DOCS, fenced, follow, shown, write_files
from lake_assets_tests.world import NW, plan

PAGE = DOCS / "how-to" / "declare-a-schema.md"


def test_the_page_shows_what_its_commands_print(folder: Path) -> None:
    config = write_files(PAGE)

    follow(shown(PAGE))

    (folder / "lake.yaml").write_text(config.replace("DECIMAL(12,2)", "BIGINT"), encoding="utf-8")
    stream = open_stream(load_config(folder / "lake.yaml"), "sales")
    with pytest.raises(SchemaError) as raised:
        plan(stream, stream.config.partition(NW))
    assert [str(raised.value)] == [error.strip() for error in fenced(PAGE.read_text(encoding="utf-8"), "text")]
