"""What a user reads of a failure that nobody meant, and the ways to write by `query` that are closed."""

import importlib
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from lake_assets.cli import main
from lake_assets.cli.common import Session
from lake_assets.lake.ducklake import DuckLake
from lake_assets.spark.spark_session import LOG_LEVEL
from lake_assets.streams.load import load_config
from lake_assets.upkeep.doctor import Finding

CONFIG = """\
lakes:
  test: {catalog: {type: sqlite, path: catalog.sqlite}, storage: data}
streams:
  sales:
    source: landing
    partitions: {region: {}}
    destination: {table: sales}
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "lake.yaml"
    path.write_text(CONFIG, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("debug", [False, True])
def test_an_error_that_nobody_meant_says_that_it_is_a_bug(monkeypatch: pytest.MonkeyPatch, *, debug: bool) -> None:
    def fail(path: object) -> None:
        raise ZeroDivisionError(f"first line about {path}\nsecond line")

    monkeypatch.setattr("lake_assets.streams.load.load_config", fail)

    result = CliRunner().invoke(main, [*(["--debug"] if debug else []), "validate"])

    assert result.exit_code == 1
    assert "Error: ZeroDivisionError: first line about None (this is a bug of lake-assets" in result.stderr
    assert ("Traceback" in result.stderr) is debug


def test_a_module_of_another_version_is_named_with_its_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "old.py").write_text("from os import no_such_name")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("lake_assets.streams.load.load_config", lambda _: importlib.import_module("old"))

    text = " ".join(CliRunner().invoke(main, ["validate"]).stderr.split())

    assert text.startswith(f"Error: Python cannot import os as it is in {tmp_path / 'old.py'}: cannot import name 'no_")
    assert text.endswith(": correct PYTHONPATH.")


def test_an_interrupt_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def press(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("lake_assets.streams.load.load_config", press)

    result = CliRunner().invoke(main, ["validate"])

    assert (result.exit_code, result.stderr.strip()) == (130, "Interrupted.")


@pytest.mark.parametrize("name", ["nowhere.yaml", "folder/lake.yaml"])
def test_a_config_that_is_not_there_is_named(tmp_path: Path, name: str) -> None:
    result = CliRunner().invoke(main, ["--config", str(tmp_path / name), "ledger"])

    assert result.exit_code == 1
    assert f"Error: there is no config file {tmp_path / name}: write one" in result.stderr


@pytest.fixture
def moved(file: str, tmp_path: Path) -> str:
    """The config of a lake that was moved, which no command can open."""
    with DuckLake(load_config(Path(file)).lakes["test"]).open(create=True):
        pass
    Path(file).write_text(CONFIG.replace("storage: data", "storage: moved"), encoding="utf-8")
    (tmp_path / "landing").mkdir()
    return file


@pytest.mark.parametrize("command", ["ingest", "index"])
def test_an_error_that_partitions_share_is_printed_once(moved: str, tmp_path: Path, command: str) -> None:
    partitions = [f"--partition=region={letter}" for letter in "ABCDE"]
    if command == "index":
        Path(moved).write_text(Path(moved).read_text(encoding="utf-8") + "    mode: index\n", encoding="utf-8")

    result = CliRunner().invoke(main, ["--config", moved, command, *partitions])

    assert result.exit_code == 1
    assert result.stdout.splitlines()[:2] == [
        "failed     region=A",
        "failed     4 more partitions with the same error as region=A: region=B, region=C, region=D and 1 more",
    ]
    told, *summary = result.stderr.splitlines()
    assert told.count("Error: ") == told.count(str(tmp_path / "moved")) == 1
    if command == "ingest":
        assert told.count("No ledger row") == 1
        assert summary[0].startswith("sales: 0 of 5 partitions committed, 5 failed, in ")


def test_an_error_that_checks_share_is_printed_once(moved: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["--config", moved, "check"])

    assert result.exit_code == 1
    assert result.stderr.count("Error: ") == result.stderr.count(str(tmp_path / "moved")) == 1
    kind, first, *_, last = result.stdout.splitlines()
    assert (kind, first) == ("sales: audit of the whole table", "failed     last_run")
    assert " more checks with the same error as last_run: " in last


def test_a_failure_that_findings_of_the_doctor_share_is_printed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [Finding(f"source of {name}", "failed", "it is away:", "wake it.") for name in ("sales", "orders")]
    monkeypatch.setattr("lake_assets.upkeep.doctor.examine", lambda *_, **__: values)

    result = CliRunner().invoke(main, ["doctor"])

    first, second = result.stdout.splitlines()
    assert first.endswith("it is away: wake it.")
    assert second.endswith(" as source of sales")


@pytest.mark.parametrize(
    ("settings", "debug", "level"),
    [
        ({}, False, "OFF"),
        ({}, True, "ERROR"),
        ({LOG_LEVEL: "INFO"}, False, "INFO"),
    ],
)
def test_spark_logs_its_errors_with_debug_alone_unless_the_settings_say(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], debug: bool, level: str
) -> None:
    started: list[Mapping[str, str]] = []
    monkeypatch.setattr("lake_assets.spark.spark_session.start_session", started.append)

    Session(settings, debug=debug)()

    assert [conf[LOG_LEVEL] for conf in started] == [level]
