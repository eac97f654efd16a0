import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from click.testing import CliRunner, Result

from lake_assets.cli import main
from lake_assets.config.load import load_config
from lake_assets.ingest import ingest
from lake_assets.stream import open_stream
from lake_assets_tests.world import World, sales

CATALOG: dict[str, Any] = {
    "selected_streams": {
        "shop's db": [
            {"stream_name": "orders", "partition_regex": "/{region,unknown,}/{day,,YYYY}-{day,,MM}-{day,,DD}"},
            {"stream_name": "people"},
            {"stream_name": "places", "partition_regex": "{a,,}/{b,,}/{c,,}"},
        ],
        "other": [{"stream_name": "orders", "partition_regex": "{region,,}"}],
    },
    "streams": [{"stream": {"name": "orders", "namespace": "shop's db", "sync_mode": "cdc"}}],
}


def imported(folder: Path, catalog: object, *options: str) -> Result:
    file = folder / "catalog.json"
    file.write_text(catalog if isinstance(catalog, str) else json.dumps(catalog))
    return CliRunner().invoke(main, ["import", "olake", str(file), *options])


def test_the_output_is_a_valid_config(tmp_path: Path) -> None:
    result = imported(tmp_path, CATALOG)

    assert result.exit_code == 0, result.output
    written = tmp_path / "lake.yaml"
    written.write_text(result.stdout)
    validated = CliRunner().invoke(main, ["--config", str(written), "validate"])
    assert validated.exit_code == 0, validated.output
    streams = load_config(written).streams
    assert list(streams) == ["orders", "other_orders"]
    assert streams["orders"].template.compat == "olake"
    assert [(c.name, c.type) for c in streams["orders"].columns] == [("region", "string"), ("day", "date")]
    assert "sync_mode cdc" in result.stdout


def test_a_columns_type_is_that_of_its_granularities(tmp_path: Path) -> None:
    regexes = {
        "months": "/{at,,YYYY}/{at,,MM}",
        "hours": "/{at,,YYYY}/{at,,MM}/{at,,DD}/{at,,HH}",
        "weeks": "/{at,,YYYY}/{at,,WW}",
    }
    streams = [{"stream_name": name, "partition_regex": regex} for name, regex in regexes.items()]
    (tmp_path / "lake.yaml").write_text(imported(tmp_path, {"selected_streams": {"db": streams}}).stdout)

    found = load_config(tmp_path / "lake.yaml").streams

    assert {name: found[name].columns[0].type for name in regexes} == {
        "months": "month",
        "hours": "hour",
        "weeks": "string",
    }


def test_what_is_left_out_is_said_in_a_comment_and_on_standard_error(tmp_path: Path) -> None:
    result = imported(tmp_path, CATALOG)

    for told in (result.stdout, result.stderr):
        assert "shop's db.people is left out: it has no partition_regex" in told
        assert "shop's db.places is left out: it is partitioned by 3 columns (a, b, c)" in told


def test_files_of_olake_are_ingested_by_the_config(tmp_path: Path, local_world: World) -> None:
    result = imported(tmp_path, CATALOG, "--source", str(tmp_path / "olake"), "--lake", str(tmp_path / "new"))
    (tmp_path / "lake.yaml").write_text(result.stdout)
    config = load_config(tmp_path / "lake.yaml")
    folder = tmp_path / "olake" / "shop's db" / "orders" / "NW" / "2026-02-11"
    folder.mkdir(parents=True)
    pq.write_table(sales(1, 2), folder / "x.parquet")

    stream = open_stream(config, "orders")
    done = ingest(stream, stream.config.partition("region=NW,day=2026-02-11"), local_world.sessions)

    assert done.row.row_count == 2


def test_a_catalog_of_which_nothing_can_be_taken_over_is_an_error(tmp_path: Path) -> None:
    result = imported(tmp_path, {"selected_streams": {"db": [{"stream_name": "people"}]}})

    assert result.exit_code == 1
    assert result.stdout == ""
    assert "db.people: it has no partition_regex" in result.stderr


def test_a_file_that_is_no_catalog_is_an_error(tmp_path: Path) -> None:
    result = imported(tmp_path, "{}")

    assert result.exit_code == 1
    assert "selected_streams" in result.stderr
