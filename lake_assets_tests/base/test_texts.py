"""No control character of a name or a foreign text reaches a terminal, a log, Dagster or the report as it is."""

import re
from dataclasses import replace
from pathlib import Path

import obstore
import pytest
from click.testing import CliRunner
from obstore.exceptions import InvalidPathError
from obstore.store import LocalStore

from lake_assets.base.errors import LakeAssetsError, SourceError
from lake_assets.base.texts import visible, visible_name
from lake_assets.cli.app import main
from lake_assets.ingest.outcome import error_text
from lake_assets.ingest.view import view_partition
from lake_assets.orchestration.metadata import markdown, materialization_metadata, unmatched_metadata
from lake_assets.storage.storage_errors import odd_name
from lake_assets.streams.stream import list_landed
from lake_assets_tests.faults.without_spark import sessions
from lake_assets_tests.world import NW, World, sales

__all__ = ["sessions"]

EVIL = "a\x1b[2Jb\x9b31m\u202e\nc"
SHOWN = r"a\x1b[2Jb\x9b31m\u202e\nc"
GOOD = "b\x9b31m\u202ec"  # which the stores' client accepts
GOOD_SHOWN = r"b\x9b31m\u202ec"
COLOURS = re.compile(r"\x1b\[\d{1,2}m")
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]")
ODD_VALUE = "region=N%1B%5B2JW\u202e\x9b,date=2026-02-11"


@pytest.fixture
def file(local_world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    # Narrower cells fold names, at places that the length of the test's folder decides.
    monkeypatch.setattr("lake_assets.cli.output.CELL_WIDTH", 1000)
    return str(local_world.config_file(tmp_path))


def printed(file: str, *arguments: str) -> str:
    """What a terminal gets, without our own colours."""
    result = CliRunner().invoke(main, ["--config", file, *arguments], color=True)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    text = COLOURS.sub("", result.output)
    assert not CONTROLS.search(text), repr(text)
    return text


def test_texts_and_names_are_escaped() -> None:
    assert visible(EVIL) == SHOWN.replace(r"\nc", "\nc")
    assert visible_name(EVIL) == SHOWN
    assert visible("one\r\ntwo\tthree \U0001f469\u200d\U0001f680 é") == "one\ntwo\tthree \U0001f469\u200d\U0001f680 é"
    error = LakeAssetsError(f"the server says {EVIL}:", EVIL)
    assert not CONTROLS.search(f"{error} {error.problem} {error.hint} {error.args}")
    assert not CONTROLS.search(error_text(ValueError(EVIL)))
    assert markdown(EVIL) == r"a\\x1b\[2Jb\\x9b31m\\u202e c"


def test_a_damaged_objects_name_is_escaped_in_errors_ledger_and_plan(local_world: World, file: str) -> None:
    local_world.land(NW, b"no Parquet", f"{GOOD}.parquet")
    with pytest.raises(SourceError) as raised:
        local_world.ingest(NW)

    assert GOOD_SHOWN in str(raised.value)
    assert GOOD_SHOWN in (local_world.ledger(NW)[0].error or "")
    assert GOOD_SHOWN in printed(file, "ingest", "sales", "--partition", NW)
    assert GOOD_SHOWN in printed(file, "ledger", "sales", "--format", "table")


def test_names_of_objects_and_columns_are_escaped_in_tables_and_lines(local_world: World, file: str) -> None:
    local_world.options = {"on_bad_object": "quarantine", "schema_policy": "evolve"}
    local_world.config_file(Path(file).parent)
    local_world.land(NW, sales(1), f"good {GOOD}.parquet")
    local_world.land(NW, b"no Parquet", f"bad {GOOD}.parquet")
    assert f"good {GOOD_SHOWN}" in printed(file, "plan", "sales", "--partition", NW)
    assert f"bad {GOOD_SHOWN}" in printed(file, "ingest", "sales", "--partition", NW)
    first = local_world.ledger(NW)[0].snapshot_id
    assert first is not None
    local_world.land(NW, sales(2).append_column(EVIL, [[EVIL]]), f"good {GOOD}.parquet")
    assert SHOWN in printed(file, "ingest", "sales", "--partition", NW)

    assert SHOWN in printed(file, "query", "SELECT * FROM sales", "--format", "table")
    assert SHOWN in printed(file, "diff", "sales", "--partition", NW, "--from", str(first))
    assert SHOWN in printed(file, "restore", "sales", "--partition", NW, "--snapshot", str(first), "--dry-run")
    assert f"bad {GOOD_SHOWN}" in printed(file, "check", "sales")
    page = Path(file).parent / "page.html"
    assert f"bad {GOOD_SHOWN}" in printed(file, "report", "sales", "--format", "table")
    printed(file, "report", "sales", "--html", str(page))
    text = page.read_text(encoding="utf-8")
    assert f"bad {GOOD_SHOWN}" in text
    assert not CONTROLS.search(text)


def test_an_object_that_the_client_cannot_name_is_left_out(local_world: World, file: str) -> None:
    local_world.land(NW, sales(1))
    local_world.land(NW, sales(2), f"odd {EVIL}.parquet")

    assert "1 object left out: 1 with odd names" in printed(file, "ingest", "sales", "--waiting")
    assert f"odd {SHOWN}" in printed(file, "plan", "sales", "--left-out")
    assert local_world.totals(NW) == [1]


def test_an_object_that_the_client_cannot_list_is_named(tmp_path: Path) -> None:
    (tmp_path / "odd \x1b[2J.parquet").write_bytes(b"x")
    with pytest.raises(InvalidPathError) as raised:
        obstore.list(LocalStore(str(tmp_path))).collect()

    assert str(odd_name(raised.value, "az://landing", None)) == (
        r"no client reads an object with such a name as az://landing/odd \x1b[2J.parquet: rename it, or move it away."
    )
    assert odd_name(ValueError("another"), "az://landing", None) is None


def test_values_of_partitions_and_folders_are_escaped(local_world: World, file: str) -> None:
    local_world.land(ODD_VALUE, sales(1))
    with local_world.landing.create(f"{EVIL}/x.parquet") as stray:
        stray.write(b"stray")

    assert SHOWN in printed(file, "plan", "sales", "--left-out")
    assert r"N%1B%5B2JW\u202e\x9b" in printed(file, "ingest", "sales", "--partition", ODD_VALUE)
    assert r"\u202e\x9b" in printed(file, "history", "sales", "--format", "table")
    assert r"\u202e\x9b" in printed(file, "report", "sales", "--format", "table")


def test_dagsters_metadata_escapes_names(local_world: World) -> None:
    local_world.options = {"on_bad_object": "quarantine"}
    local_world.land(NW, sales(1).append_column(EVIL, [[EVIL]]))
    local_world.land(NW, b"no Parquet", f"bad {GOOD}.parquet")
    with local_world.landing.create(f"{EVIL}/x.parquet") as stray:
        stray.write(b"stray")
    partition, stream = local_world.partition(NW), local_world.stream
    result = local_world.ingest(NW)
    with stream.lake.open(read_only=True) as lake:
        view = view_partition(lake, stream.table, partition)

    metadata = materialization_metadata(replace(result, view=view)) | unmatched_metadata(list_landed(stream)[1])

    for name, value in metadata.items():
        if name != "dagster/column_schema":  # which must have the columns' own names
            assert not CONTROLS.search(str(value.value)), name
    assert r"bad b\\x9b" in str(metadata["quarantined"].value)
