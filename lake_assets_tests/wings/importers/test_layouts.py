"""Layouts that people have: `init --from` proposes a stream for each, and its starter runs without an edit."""

import gzip
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from click.testing import CliRunner, Result

from lake_assets.cli import main
from lake_assets.config.storages import LocalStorage
from lake_assets.orchestration.build import build_definitions
from lake_assets.orchestration.resources import pyspark_resource
from lake_assets.storage.store import Store
from lake_assets.streams.load import load_config
from lake_assets_tests.tiers import more
from lake_assets_tests.wings.importers.test_init_from import SALES, parquet

pytestmark = pytest.mark.usefixtures("sessions")

# One of each type of column and each place of it; `test_folders.py` has the other forms.
LAYOUTS: dict[str, tuple[str, dict[str, str]]] = {
    "2026/02/11 2026/02/12": ("{date,,YYYY}/{date,,MM}/{date,,DD}", {"date": "date"}),
    "region=NW region=SW": ("region={region}", {"region": "string"}),
    "year=2026/month=2/day=1 year=2026/month=2/day=11": (
        "year={year}/month={month}/day={day}",
        {"year": "year", "month": "integer", "day": "integer"},
    ),
    "202602 202603": ("{month,,YYYY}{month,,MM}", {"month": "month"}),
    "NW/2026/W07 SW/2026/W08": ("{folder_1}/{week,,YYYY}/W{week,,WW}", {"folder_1": "string", "week": "week"}),
    "date=2026-02-11/hour=05 date=2026-02-11/hour=06": (
        "date={hour,,YYYY}-{hour,,MM}-{hour,,DD}/hour={hour,,HH}",
        {"hour": "hour"},
    ),
    "/sales_2026-02-11_NW /sales_2026-02-12_SW": (
        "sales_{date}_{name_2}.parquet",
        {"date": "date", "name_2": "string"},
    ),
    "2026/02/sales-20260211.parquet 2026/02/sales-20260212.parquet": (
        "{date,,YYYY}/{date,,MM}/sales-{date,,YYYY}{date,,MM}{date,,DD}.parquet",
        {"date": "date"},
    ),
    "region=NW/2026-02-11.parquet region=SW/2026-02-12.parquet": (
        "region={region}/{date}.parquet",
        {"region": "string", "date": "date"},
    ),
}


def landed(folder: Path, forms: str) -> None:
    """Write a file for each form: in that folder, or with that name if it begins with a slash or has a suffix."""
    folder.mkdir()
    for form in forms.split():
        key = f"{form}/part-0.parquet"
        if form.startswith("/") or form.endswith(".parquet"):
            key = f"{form.strip('/').removesuffix('.parquet')}.parquet"
        Store(LocalStorage(path=str(folder))).put_new(key, parquet(SALES))


class Starter:
    """A project that `init --from` has written."""

    def __init__(self, folder: Path, landing: Path) -> None:
        result = CliRunner().invoke(main, ["init", str(folder), "--from", str(landing)])
        assert result.exit_code == 0, result.output
        self.output = result.output
        self.file = folder / "lake.yaml"
        self.config = load_config(self.file)
        (self.stream,) = self.config.streams.values()

    def run(self, *words: str) -> Result:
        result = CliRunner().invoke(main, ["--config", str(self.file), *words])
        assert result.exit_code == 0, result.output
        return result

    def materialize(self, key: str) -> bool:
        """Run a key of Dagster, with its checks."""
        definitions = build_definitions(self.config, pyspark_resource(self.config.spark))
        job = definitions.resolve_implicit_global_asset_job_def()
        with dg.DagsterInstance.ephemeral() as instance:
            return job.execute_in_process(
                instance=instance, partition_key=key, asset_selection=[dg.AssetKey("sales")]
            ).success


@pytest.mark.parametrize("forms", [*list(LAYOUTS)[:2], *more(list(LAYOUTS)[2:])])
def test_the_starter_of_a_layout_runs_without_an_edit(tmp_path: Path, forms: str) -> None:
    landed(tmp_path / "sales", forms)

    starter = Starter(tmp_path / "shop", tmp_path / "sales")

    types = {name: field.type for name, field in starter.stream.partitions.items()}
    assert (starter.stream.template.text, types) == LAYOUTS[forms]
    build_definitions(starter.config)
    (named,) = (line.split("--partition ")[1] for line in starter.output.splitlines() if "--partition" in line)
    assert "committed  " in starter.run("ingest", "sales", "--partition", named).output
    assert starter.run("ingest", "sales", "--waiting", "--yes").output.count("committed  ") == 1
    assert "nothing to do" in starter.run("ingest", "sales", "--waiting").output
    for command in ("check", "plan", "report"):
        starter.run(command, "sales")


@pytest.mark.more
@pytest.mark.parametrize("mode", ["replace", "append"])
def test_a_folder_of_files_becomes_a_table_that_each_run_replaces_or_adds_to(tmp_path: Path, mode: str) -> None:
    landed(tmp_path / "sales", "/stores /part-1 /part-2")

    starter = Starter(tmp_path / "shop", tmp_path / "sales")

    assert (starter.stream.template.text, starter.stream.partitions) == ("", {})
    assert "stream  sales: " in starter.output
    assert "/sales, without partitions" in starter.output
    assert "lake-assets ingest sales --partition all" in starter.output
    if mode == "append":  # as the config says in a comment
        starter.file.write_text(starter.file.read_text(encoding="utf-8") + "    mode: append\n", encoding="utf-8")
    added = " added" if mode == "append" else ""
    assert f"committed  all  6 rows{added} (before: 0)" in starter.run("ingest", "sales", "--partition", "all").output
    assert "nothing to do" in starter.run("ingest", "sales", "--waiting").output
    Store(LocalStorage(path=str(tmp_path / "sales"))).put_new("new.parquet", parquet(SALES))
    rows = 8 if mode == "replace" else 2
    assert (
        f"committed  all  {rows} rows{added} (before: 6)" in starter.run("ingest", "sales", "--waiting", "--yes").output
    )
    for words in (["check", "sales"], ["plan", "sales"], ["report", "sales"], ["history", "sales"], ["files", "sales"]):
        starter.run(*words)
    assert starter.materialize("all")


CSV, LINES = "id,total\n1,1.5\n2,2.5\n", '{"id": 1, "total": 1.5}\n{"id": 2, "total": 2.5}\n'


@pytest.mark.more
@pytest.mark.parametrize(
    ("keys", "text", "form"),
    [
        (["region=NW/date=2026-02-11/a.csv", "region=SW/date=2026-02-11/a.csv"], CSV, {"type": "csv"}),
        (["2026/02/a.tsv", "2026/03/a.tsv"], CSV.replace(",", "\t"), {"type": "csv", "delimiter": "\t"}),
        (["sales_2026-02-11.csv", "sales_2026-02-12.csv"], CSV, {"type": "csv"}),
        (["date=2026-02-11/a.jsonl", "date=2026-02-12/a.json"], LINES, {"type": "json"}),
        (["a.csv", "b.csv"], CSV, {"type": "csv"}),
    ],
    ids=["csv", "tabs", "names_of_files", "json", "one_table"],
)
def test_landed_texts_have_a_starter_too(tmp_path: Path, keys: list[str], text: str, form: dict[str, Any]) -> None:
    for key in keys:
        (tmp_path / "sales" / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "sales" / key).write_text(text, encoding="utf-8")
        with gzip.open(tmp_path / "sales" / f"{key}.gz", "wt", encoding="utf-8") as file:
            file.write(text)

    starter = Starter(tmp_path / "shop", tmp_path / "sales")

    assert "ignores them" not in starter.output
    assert starter.stream.format.model_dump(include=set(form)) == form
    assert "columns: id BIGINT, total DOUBLE, by one object" in starter.output
    starter.run("ingest", "sales", "--waiting", "--yes")
    counted = starter.run("query", "SELECT count(*) AS n, sum(id) AS ids, sum(total) AS totals FROM sales")
    expected = 4 * len(keys)
    assert f"{expected},{expected * 3 // 2},{expected * 2.0}" in counted.output
    assert "nothing to do" in starter.run("ingest", "sales", "--waiting").output


def test_texts_beside_parquet_are_named(tmp_path: Path) -> None:
    landed(tmp_path / "sales", "date=2026-02-11 date=2026-02-12")
    (tmp_path / "sales" / "date=2026-02-11" / "notes.csv").write_text(CSV, encoding="utf-8")

    starter = Starter(tmp_path / "shop", tmp_path / "sales")

    assert starter.stream.format.type == "parquet"
    assert "notes.csv are of another format beside Parquet: `format: auto`" in starter.output
