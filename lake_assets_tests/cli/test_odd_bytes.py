"""Words, texts and files with bytes that are not UTF-8 are refused in one clear sentence, by every command."""

import os
from pathlib import Path
from typing import NoReturn

import click
import pytest
from click.testing import CliRunner, Result

from lake_assets.cli import main
from lake_assets.config.load import load_config
from lake_assets.config.storages import LocalStorage
from lake_assets.errors import ConfigError, LakeAssetsError, PartitionError, SourceError, StorageError
from lake_assets.ingest.partition_run import PartitionRun
from lake_assets.layout.partition import Partition
from lake_assets.storage.store import Store
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


@pytest.mark.parametrize(
    "arguments",
    [
        ("ingest", "sales", "--partition", ODD),
        ("plan", "sales", "--partition", ODD),
        ("index", "sales", "--partition", ODD),
        ("check", "sales", "--partition", ODD),
        ("ledger", "--partition", ODD),
        ("ledger", ODD),
        ("ingest", ODD),
        ("query", f"SELECT '{ODD}'"),
        ("query", "SELECT 1", "--lake", ODD),
        ("layout", "explain", ODD),
    ],
    ids=" ".join,
)
def test_words_are_refused_as_wrong_use(file: Path, arguments: tuple[str, ...]) -> None:
    result = run(file, *arguments)

    assert result.exit_code == 2
    assert r"p=\xff" in result.stderr
    assert "is not UTF-8: write it in UTF-8." in result.stderr


def test_a_query_on_standard_input_is_refused(file: Path) -> None:
    result = run(file, "query", "-", stdin=b"SELECT '\xff'")

    assert result.exit_code == 2
    assert "the SQL on standard input is not UTF-8" in result.stderr


def test_a_file_to_land_is_refused_by_its_name(file: Path) -> None:
    odd = file.parent / os.fsdecode(b"no\xff.jsonl")
    odd.write_text('{"p": "a"}\n')

    result = run(file, "land", "sales", str(odd))

    assert result.exit_code == 1
    assert "is not UTF-8: rename it, or pipe it in" in result.stderr


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


def test_a_listed_name_that_is_not_utf_8_is_named(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"a\xfe.parquet")).write_bytes(b"x")

    with pytest.raises(StorageError, match=r"the name of .*a%FE\.parquet is not UTF-8 .*: rename it"):
        Store(LocalStorage(path=str(tmp_path))).probe()


def test_a_failure_that_names_such_a_file_has_its_row(local_world: World) -> None:
    local_world.land(NW, sales(1))
    folder = Path(local_world.source["path"]) / "region=NW" / "date=2026-02-11"
    (folder / os.fsdecode(b"\xff.parquet")).write_bytes(b"no Parquet")

    with pytest.raises(LakeAssetsError, match=r"%FF\.parquet is not UTF-8 \(%XX is a byte of it\): rename it"):
        local_world.ingest(NW)

    (row,) = local_world.ledger()
    assert (row.status, row.error is not None and "%FF.parquet is not UTF-8" in row.error) == ("failed", True)


def test_an_error_with_such_a_text_has_its_row_too(local_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> NoReturn:
        raise SourceError("the object a\udcff.parquet is damaged:", "land it again.")

    monkeypatch.setattr(PartitionRun, "set_manifest", refuse)
    local_world.land(NW, sales(1))
    with pytest.raises(SourceError):
        local_world.ingest(NW)

    assert [row.error for row in local_world.ledger()] == [
        r"SourceError: the object a\xff.parquet is damaged: land it again."
    ]


def test_every_command_is_tested() -> None:
    def commands(group: click.Command) -> list[click.Command]:
        below = group.commands.values() if isinstance(group, click.Group) else ()
        return [group, *(item for command in below for item in commands(command))]

    texts = [
        parameter
        for command in commands(main)
        for parameter in command.params
        if isinstance(parameter.type, click.types.StringParamType)
    ]
    assert len(texts) > 20
    assert all(parameter.callback is not None for parameter in texts)
