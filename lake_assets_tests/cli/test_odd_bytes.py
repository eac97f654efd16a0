"""Words, texts and files with bytes that are not UTF-8 are refused in one clear sentence, by every command."""

import os
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from lake_assets.base.errors import ConfigError, PartitionError, StorageError
from lake_assets.cli import main
from lake_assets.config.layout.partition import Partition
from lake_assets.storage.store import Store
from lake_assets.streams.load import load_config
from lake_assets.streams.stream import list_landed
from lake_assets_tests.cli.conftest import named
from lake_assets_tests.world import NW, World, sales

ODD = os.fsdecode(b"p=\xff")
CONFIG = """\
lakes: {test: {catalog: {type: sqlite, path: catalog.sqlite}, storage: data}}
streams: {sales: {source: landing, partitions: {p: {}}, destination: {table: sales}}}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "landing").mkdir()
    path = tmp_path / "lake.yaml"
    path.write_text(CONFIG, encoding="utf-8")
    return path


def run(file: Path, *arguments: str, stdin: bytes | None = None) -> Result:
    result = CliRunner().invoke(main, ["--config", str(file), *arguments], input=stdin)
    assert "bug of lake-assets" not in result.output
    assert "\udcff" not in result.output
    return result


def test_words_and_texts_are_refused_as_wrong_use(file: Path) -> None:
    for arguments in (
        *((command, "sales", "--partition", ODD) for command in ("ingest", "plan", "index", "check")),
        ("ledger", "--partition", ODD),
        ("ledger", ODD),
        ("query", f"SELECT '{ODD}'"),
        ("query", "SELECT 1", "--lake", ODD),
        ("layout", "explain", ODD),
    ):
        result = run(file, *arguments)

        assert result.exit_code == 2, arguments
        assert r"p=\xff" in result.stderr
        assert "is not UTF-8: write it in UTF-8." in result.stderr

    typed = run(file, "query", "-", stdin=b"SELECT '\xff'")
    assert (typed.exit_code, "the SQL on standard input is not UTF-8" in typed.stderr) == (2, True)


def test_a_file_to_land_is_refused_by_its_name(file: Path) -> None:
    odd = file.parent / os.fsdecode(b"no\xff.jsonl")
    odd.write_text('{"p": "a"}\n')

    result = run(file, "land", "sales", str(odd))

    assert (result.exit_code, "is not UTF-8: rename it, or pipe it in" in result.stderr) == (1, True)


def test_a_folder_of_a_config_is_refused(file: Path) -> None:
    folder = file.parent / os.fsdecode(b"\xff")
    folder.mkdir()
    (folder / "lake.yaml").write_text(CONFIG, encoding="utf-8")

    with pytest.raises(ConfigError, match=r"the folder '.*\\xff' of the config is not UTF-8: rename it, or move"):
        load_config(folder / "lake.yaml")
    for command in ("init", "demo"):
        arguments = (command, str(folder / "new")) if command == "init" else (command, "--folder", str(folder / "new"))
        result = run(file, *arguments)
        assert (result.exit_code, "is not UTF-8" in result.stderr) == (1, True), result.output


def test_no_partition_has_such_a_value(local_world: World) -> None:
    with pytest.raises(PartitionError, match=r"region='\\xff' is not UTF-8"):
        local_world.stream.ingest([Partition(local_world.stream.config.partition_columns, ("\udcff", None))])


def test_an_object_with_such_a_name_is_left_out(local_world: World) -> None:
    local_world.land(NW, sales(1))
    folder = Path(local_world.source["path"]) / "region=NW" / "date=2026-02-11"
    (folder / os.fsdecode(b"\xff.parquet")).write_bytes(b"no Parquet")

    with pytest.raises(StorageError, match=r"such a name as .*%FF\.parquet: rename it, or move it away"):
        Store(local_world.config.streams["sales"].source).probe()
    local_world.ingest(NW)

    assert local_world.totals() == [1]
    (item,) = list_landed(local_world.stream)[1].objects
    assert item.kind == "odd"


def test_the_texts_of_every_command_are_checked() -> None:
    texts = [
        parameter
        for command in (main, *dict(named()).values())
        for parameter in command.params
        if isinstance(parameter.type, click.types.StringParamType)
    ]
    assert len(texts) > 20
    assert all(parameter.callback is not None for parameter in texts)
