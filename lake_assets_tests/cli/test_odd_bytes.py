"""Words, texts and files with bytes that are not UTF-8 are refused in one clear sentence, by every command."""

import os
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from lake_assets.cli import main
from lake_assets.config.load import load_config
from lake_assets.errors import ConfigError, LakeAssetsError, PartitionError, StorageError
from lake_assets.layout.partition import Partition
from lake_assets.storage.store import Store
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
        local_world.stream.ingest([Partition(local_world.stream.config.columns, ("\udcff", None))])


def test_a_failure_that_names_such_a_file_has_its_row(local_world: World) -> None:
    local_world.land(NW, sales(1))
    folder = Path(local_world.source["path"]) / "region=NW" / "date=2026-02-11"
    (folder / os.fsdecode(b"\xff.parquet")).write_bytes(b"no Parquet")

    refused = r"%FF\.parquet is not UTF-8 \(%XX is a byte of it\): rename it"
    with pytest.raises(StorageError, match=refused):
        Store(local_world.config.streams["sales"].source).probe()
    with pytest.raises(LakeAssetsError, match=refused):
        local_world.ingest(NW)

    (row,) = local_world.ledger()
    assert (row.status, row.error is not None and "%FF.parquet is not UTF-8" in row.error) == ("failed", True)


def test_the_texts_of_every_command_are_checked() -> None:
    texts = [
        parameter
        for command in (main, *dict(named()).values())
        for parameter in command.params
        if isinstance(parameter.type, click.types.StringParamType)
    ]
    assert len(texts) > 20
    assert all(parameter.callback is not None for parameter in texts)
