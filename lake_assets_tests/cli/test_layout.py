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


def test_options_say_how_the_template_is_read_and_wrong_ones_what_to_write(tmp_path: Path) -> None:
    damaged = tmp_path / "rows.parquet"
    damaged.write_bytes(b"no Parquet")
    for arguments, code, told in (
        (["{a}/{b}", "--nested", "--time-zone", "Europe/Berlin"], 0, "Europe/Berlin; `/` in a value makes folders."),
        (["{title},,}"], 2, "        ^ write {title,,}"),
        (["{a}", "--time-zone", "Mars"], 2, "no time zone 'Mars'"),
        (["{a}", "--compat", "olake", "--time-zone", "Europe/Berlin"], 2, "leave it out"),
        (["{a}", "--sample", "pyproject.toml"], 2, "pyproject.toml ends in none of .parquet"),
        (["{a}", "--sample", str(damaged)], 2, "cannot be read"),
        (["{city}", "--sample", sample(tmp_path, "csv")], 1, "the rows have no column 'city'"),
    ):
        result = CliRunner().invoke(main, ["layout", "explain", *arguments])

        assert (result.exit_code, told in result.output) == (code, True), (arguments, result.output)
