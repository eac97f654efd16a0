import json
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from lake_assets.cli import main

ROWS = pa.table({"region": ["NW", "NW", None], "date": ["2026-02-11", "2026-02-11", "2026-02-12"]})


def sample(folder: Path, kind: str) -> str:
    file = folder / f"rows[1].{kind}"
    if kind == "parquet":
        pq.write_table(ROWS, file)
    elif kind == "csv":
        pa.csv.write_csv(ROWS, file)
    else:
        file.write_text("\n".join(json.dumps(row) for row in ROWS.to_pylist()))
    return str(file)


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
def test_the_paths_of_a_sample_are_shown_with_their_counts(tmp_path: Path, kind: str) -> None:
    template = "region={region,none,}/{date,,YYYY}-{date,,MM}-{date,,DD}"

    result = CliRunner().invoke(main, ["layout", "explain", template, "--sample", sample(tmp_path, kind)])

    assert result.exit_code == 0, result.output
    paths = [line.split() for line in result.stdout.splitlines()[-2:]]
    assert paths == [["2", "region=NW/2026-02-11"], ["1", "region=default_none/2026-02-12"]]
    assert "year of column date" in result.stdout


def test_options_say_how_the_template_is_read() -> None:
    result = CliRunner().invoke(main, ["layout", "explain", "{a}/{b}", "--nested", "--time-zone", "Europe/Berlin"])

    assert "Times are in Europe/Berlin; `/` in a value makes folders." in result.stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["{title},,}"], "        ^ write {title,,}"),
        (["{a}", "--time-zone", "Mars"], "no time zone 'Mars'"),
        (["{a}", "--compat", "olake", "--time-zone", "Europe/Berlin"], "leave it out"),
        (["{a}", "--sample", "pyproject.toml"], "pyproject.toml ends in none of .parquet"),
    ],
)
def test_wrong_use_exits_with_2_and_says_what_to_write(arguments: list[str], told: str) -> None:
    result = CliRunner().invoke(main, ["layout", "explain", *arguments])

    assert result.exit_code == 2
    assert told in result.stderr


def test_a_sample_that_is_not_of_its_kind_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    file.write_bytes(b"no Parquet")

    result = CliRunner().invoke(main, ["layout", "explain", "{a}", "--sample", str(file)])

    assert result.exit_code == 2
    assert "cannot be read" in result.stderr


def test_a_sample_without_a_column_of_the_template_is_an_error(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["layout", "explain", "{city}", "--sample", sample(tmp_path, "csv")])

    assert result.exit_code == 1
    assert "the rows have no column 'city'" in result.stderr
