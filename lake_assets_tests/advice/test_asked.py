"""Advice about what a user writes and types: the config, variables, selections, commands and their files."""

import importlib.metadata
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from click.testing import CliRunner

from dev.servers.inbox import Inbox, inbox
from dev.servers.s3 import S3Server
from dev.servers.web import plain_web_server
from lake_assets import connect
from lake_assets.base.duckdb_engine import open_engine
from lake_assets.base.errors import LakeAssetsError, SourceChangedError
from lake_assets.cli import main
from lake_assets.config.fields import validation_context
from lake_assets.config.models import LakeConfig
from lake_assets.ingest.ingest_all import ingest
from lake_assets.ingest.outcome import IngestOptions
from lake_assets.storage.store import Store
from lake_assets.streams.load import load_config
from lake_assets.streams.select import Wanted, only_partition, select
from lake_assets.streams.stream import open_streams
from lake_assets.upkeep import doctor
from lake_assets.wings.importers.flight import flight_config
from lake_assets.wings.templates.demo.demo_run import prepare
from lake_assets.wings.templates.starter.project import start_with
from lake_assets_tests.advice.cases import Case, Cases, Steps, follow
from lake_assets_tests.base.test_duckdb_engine import repository
from lake_assets_tests.cli.conftest import named as each_command
from lake_assets_tests.config.test_contract import CONTRACT
from lake_assets_tests.config.test_load import GOOD
from lake_assets_tests.storage.test_refusals import as_plain_user, root
from lake_assets_tests.test_rooms import PACKAGE
from lake_assets_tests.world import NW, STREAM, SW, World, sales

__all__ = ["inbox", "repository", "root"]

case = Cases()
slow = Cases(pytest.mark.more)


def folder_of(world: World) -> Path:
    return Path(world.source["path"]).parent


def typed(*arguments: str, stdin: str | None = None) -> str:
    """Return what a command prints; what it says when it fails is raised as advice."""
    result = CliRunner().invoke(main, arguments, input=stdin)
    if result.exit_code:
        raise LakeAssetsError("the command failed:", result.output)
    return result.output


def command(world: World, *arguments: str) -> str:
    """Return what a command on the world's config prints, as `typed`."""
    return typed("--config", str(world.config_file(folder_of(world))), *arguments)


def loads(folder: Path, text: str) -> LakeConfig:
    """Load the text of a config; what is said of a wrong one is raised as advice."""
    file = folder / "lake.yaml"
    file.write_text(text, encoding="utf-8")
    try:
        return load_config(file, {})
    except LakeAssetsError as error:
        raise LakeAssetsError("the config is not valid:", str(error)) from error


def diagnosed(findings: Callable[[], Iterator[doctor.Finding]]) -> None:
    """Raise what the doctor advises."""
    for finding in findings():
        if finding.hint:
            raise LakeAssetsError(finding.text, finding.hint)


# Selections.


def chosen(world: World, *texts: str) -> list[str]:
    """Return the partitions that texts select."""
    return [partition.option for partition in select(world.stream, Wanted(texts)).partitions]


@case
def a_selection_is_written_by_its_grammar(local_world: World) -> Steps:
    local_world.land(NW, sales(1))
    choose = partial(partial, chosen, local_world)
    yield choose("NW"), "write conditions such as region=NW,date=2026-02-11, each column once"
    assert chosen(local_world, "region=NW,date=2026-02-11") == [NW]
    yield choose("area=NW,date=2026-02-11"), "its columns are"
    assert chosen(local_world, "region=NW,date=2026-02-11") == [NW]
    yield choose("region=NW/date=2026-02-11"), "(a slash inside a value as %2F)"
    assert chosen(local_world, "region=NW,date=2026-02-11") == [NW]
    yield choose("region=NW,date=.."), "=* for every value"
    assert chosen(local_world, "region=NW,date=*") == chosen(local_world, "date=2026-01-01..2026-02-28") == [NW]
    yield choose("date=2026-02-12..2026-02-10"), "write the smaller value first"
    assert chosen(local_world, "date=2026-02-10..2026-02-12") == [NW]
    yield choose("date=last:x"), "write one from 1 on, such as"
    assert chosen(local_world, "region=NW,date=last:1000") == [NW]
    local_world.ingest(NW)
    return [1]


@case
def values_of_a_selection_are_named(local_world: World) -> Steps:
    null, text = "__HIVE_DEFAULT_PARTITION__", "last:7"
    for region in (null, text):
        local_world.land(f"region={region.replace(':', '%3A')},date=2026-02-11", sales(1))
    yield partial(chosen, local_world, f"region=A..{null}"), "name NULL beside a range"
    assert len(chosen(local_world, f"region=A..C|{null}")) == 1
    yield partial(chosen, local_world, "region=last:7"), "name its values | write last%3A"
    assert chosen(local_world, f"region={null}")
    assert chosen(local_world, "region=last%3A7,date=2026-02-11")
    return None


@case
def every_partition_is_selected_alone(local_world: World) -> Steps:
    local_world.land(NW, sales(1))
    yield partial(Wanted, texts=(NW,), every=True), "give it without --partition, --waiting and --failed"
    yield partial(command, local_world, "plan", "--all", "--failed"), "give it without --partition, --waiting"
    command(local_world, "ingest", "--all")
    return [1]


# Commands.


@case
def a_backup_is_restored_by_its_name(local_world: World, tmp_path: Path) -> Steps:
    local_world.commit(NW, 1)
    elsewhere = str(tmp_path / "elsewhere")
    command(local_world, "catalog", "backup", "--to", elsewhere)
    yield partial(command, local_world, "catalog", "restore", "--replace"), "name the folder of the backups with --to"
    of_folder = partial(command, local_world, "catalog", "restore", "--replace", "--to", elsewhere)
    yield partial(of_folder, "none-3"), "the backups are"
    (name,) = [file.stem for file in Path(elsewhere).rglob("*.json")]
    of_folder(name)
    return [1]


@slow
def the_sql_of_a_transform_is_one_statement(local_world: World) -> Steps:
    local_world.land(NW, sales(1))
    local_world.options = {"transform": {"sql": "SELECT * FROM source; SELECT 1"}}
    yield partial(command, local_world, "validate"), "write one statement of Spark SQL"
    local_world.options = {"transform": {"sql": "SELECT * FROM source"}}
    command(local_world, "validate")
    return None


@slow
def the_folder_of_dagster_is_named(local_world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Steps:
    local_world.commit(NW, 1)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DAGSTER_HOME", "home")
    yield partial(command, local_world, "sync-dagster"), "to the absolute path of the folder with the dagster.yaml"
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    assert "1 partition reported" in command(local_world, "sync-dagster")
    return [1]


@case
def a_launcher_gets_its_options(local_world: World, monkeypatch: pytest.MonkeyPatch) -> Steps:
    local_world.land(NW, sales(1))
    load = partial(command, local_world, "ingest", "--partition", NW, "--launcher", "emr_serverless")
    yield load, "as docs/how-to/run-by-a-driver.md describes"
    role, place = "arn:aws:iam::123456789012:role/lake", "s3://bucket/lake"
    options = {"application_id": "1", "execution_role": role, "region": "eu-central-1", "config": f"{place}/lake.yaml"}
    local_world.sections = {"runs": {"launcher": "emr_serverless", "entry_point": place, "messages": place} | options}
    started = Mock(side_effect=LakeAssetsError("it is started."))
    monkeypatch.setattr("lake_assets.wings.launch.launcher.launch", started)
    with pytest.raises(LakeAssetsError, match="it is started"):
        load()
    assert started.call_args.args[1].launcher == "emr_serverless"
    return None


@case
def records_that_do_not_fit_are_corrected(local_world: World, tmp_path: Path) -> Steps:
    local_world.options = {"landing": {"columns": {"region": "string", "date": "date", "total": "double"}}}
    file = tmp_path / "a.jsonl"
    file.write_text('{"region": "NW", "date": "soon", "total": 1}\n')
    yield partial(command, local_world, "land", "sales", str(file)), "correct the layout or the records; the folder"
    (letters,) = Path(local_world.source["path"], "_dead_letters").glob("*.jsonl")
    assert "soon" in letters.read_text()
    file.write_text('{"region": "NW", "date": "2026-02-11", "total": 1}\n')
    command(local_world, "land", "sales", str(file))
    local_world.ingest(NW)
    return [1]


@case
def a_plan_is_made_before_it_is_applied(local_world: World, tmp_path: Path) -> Steps:
    local_world.land(NW, sales(1))
    file = tmp_path / "plan.json"
    file.write_text("{}")
    apply = partial(command, local_world, "apply", str(file), "--yes")
    yield apply, "create one with `lake-assets plan STREAM --format json`"
    file.write_text(command(local_world, "plan", "sales", "--format", "json"))
    local_world.options = {"on_empty": "keep"}
    yield apply, "make a new plan: `lake-assets plan "
    file.write_text(command(local_world, "plan", "sales", "--format", "json"))
    local_world.land(NW, sales(2))
    yield apply, "make a new plan: `lake-assets plan "
    file.write_text(command(local_world, "plan", "sales", "--format", "json"))
    apply()
    return [2]


@case
def a_plan_of_other_partition_columns_is_made_again(local_world: World, tmp_path: Path) -> Steps:
    local_world.land(NW, sales(1))
    file, partitions = tmp_path / "plan.json", STREAM["partitions"]
    of_day = {"region": {}, "day": partitions["date"] | {"from": "date"}}
    local_world.options = {"partitions": of_day, "layout": "region={region}/date={date}"}
    file.write_text(command(local_world, "plan", "sales", "--format", "json"))
    local_world.options = {"partitions": partitions}
    apply = partial(command, local_world, "apply", str(file), "--yes")
    yield apply, "make a new plan: `lake-assets plan "
    file.write_text(command(local_world, "plan", "sales", "--format", "json"))
    apply()
    return [1]


@case
def a_query_names_tables(local_world: World) -> Steps:
    local_world.commit(NW, 1)
    yield partial(command, local_world, "query", "FROM 'landing/a.parquet'"), "name tables. `query` opens only files"
    assert "1.0" in command(local_world, "query", "SELECT total FROM sales")
    return [1]


@case
def a_page_goes_into_a_file_that_can_be_written(local_world: World, tmp_path: Path) -> Steps:
    local_world.commit(NW, 1)
    page = partial(command, local_world, "report", "--html")
    yield partial(page, str(tmp_path / "none/a.html")), "choose another file"
    page(str(tmp_path / "a.html"))
    assert "sales" in (tmp_path / "a.html").read_text()
    return [1]


@case
def one_of_several_lakes_is_named(local_world: World, tmp_path: Path) -> Steps:
    local_world.commit(NW, 1)
    command(local_world, "catalog", "backup")
    lake = local_world.document["lakes"]["test"]
    other = {"catalog": {"type": "sqlite", "path": str(tmp_path / "b.sqlite")}, "storage": str(tmp_path / "b")}
    local_world.sections = {"lakes": {"test": lake, "other": other}, "defaults": {"lake": "test"}}
    restore = partial(command, local_world, "catalog", "restore", "--replace")
    yield restore, "name one of "
    yield partial(restore, "--lake", "tset"), "load.py: did you mean "
    restore("--lake", "test")
    return None


@case
def rows_of_a_partition_to_forget_are_removed_by_their_mode(local_world: World) -> Steps:
    local_world.options = {"mode": "append"}
    local_world.commit(SW, 5)
    local_world.commit(NW, 1)
    local_world.unland(NW)
    remove = partial(command, local_world, "forget", "--partition", NW)
    yield remove, "remove them first by SQL, such as DELETE FROM "
    with connect(local_world.config, read_only=False) as connection:
        connection.execute("DELETE FROM main.sales WHERE region = 'NW'")
    remove()
    return [5]


@case
def rows_of_registered_objects_to_forget_are_removed_by_a_repair(local_world: World) -> Steps:
    local_world.options = {"mode": "index"}
    local_world.commit(SW, 5)
    local_world.commit(NW, 1)
    local_world.unland(NW)
    remove = partial(command, local_world, "forget", "--partition", NW)
    yield remove, "--repair` first, which removes rows whose object is gone"
    command(local_world, "index", "sales", "--repair")
    remove()
    return [5]


@case
def a_declared_column_is_added_to_a_table_of_registered_files(local_world: World) -> Steps:
    local_world.options = {"mode": "index"}
    local_world.commit(SW, 5)
    local_world.options = {"mode": "index", "columns": {"note": {"type": "varchar"}}}
    local_world.land(NW, sales(1).append_column("note", pa.array(["a"])))
    load = partial(command, local_world, "ingest", "--partition", NW)
    with pytest.raises(LakeAssetsError) as refused:
        load()
    assert "evolve" not in str(refused.value)  # which this mode has not
    yield load, "add it by ALTER TABLE "
    with connect(local_world.config, read_only=False) as connection:
        connection.execute("ALTER TABLE main.sales ADD COLUMN note VARCHAR")
    load()
    return [1, 5]


# The config, and where it is.


@case
def a_config_is_written_named_or_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Steps:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LAKE_CONFIG", raising=False)
    attempt = partial(typed, "validate")
    yield attempt, "write one with `lake-assets init` | name it with --config | define a stream by SOURCE_GLOB"
    yield partial(diagnosed, partial(doctor._config, None, reads_only=False)), "write one | name it with --config"
    typed("init", "shop")
    named_ = typed("--config", "shop/lake.yaml", "validate")
    with monkeypatch.context() as variables:
        variables.setenv("LAKE_CONFIG", "shop/lake.yaml")
        assert typed("validate") == named_
    with monkeypatch.context() as variables:
        variables.setenv("SOURCE_GLOB", f"{tmp_path}/year=*/*.parquet")
        assert "valid" in typed("validate")
    return None


@slow
def a_config_in_a_bucket_is_copied_there(local_world: World, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Steps:
    keys = {"AWS_ENDPOINT_URL_S3": s3.endpoint, "AWS_ACCESS_KEY_ID": s3.access_key, "AWS_REGION": s3.region}
    bucket, variables = s3.new_bucket(), keys | {"AWS_SECRET_ACCESS_KEY": s3.secret_key}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    load = partial(load_config, f"s3://{bucket}/lake.yaml", variables)
    yield partial(load_config, "http://127.0.0.1/lake.yaml", variables), "s3://bucket/key"
    yield load, "copy one there"
    s3.put(bucket, "lake.yaml", b"#" * (2**20 + 1))
    yield load, "name the file of a config, which is smaller"
    s3.put(bucket, "lake.yaml", yaml.safe_dump(local_world.document).encode())
    with monkeypatch.context() as moving:
        moving.setattr(Store, "get", _changed)
        yield load, "run it again when its writer has ended"
    yield partial(load_config, f"s3://{bucket}/lake.yml", variables), "correct the URI"
    assert load().lakes == local_world.config.lakes
    return None


def _changed(*_: object) -> bytes:
    raise SourceChangedError("it has changed.")


@case
def a_config_is_a_path_or_an_object(local_world: World, tmp_path: Path) -> Steps:
    file = local_world.config_file(tmp_path)
    yield partial(load_config, "http://127.0.0.1/lake.yaml", {}), "Write a path"
    assert load_config(file, {}).lakes == local_world.config.lakes
    file.write_bytes(b"#" * (2**20 + 1))
    yield partial(load_config, file, {}), "name the file of a config, which is smaller"
    assert load_config(local_world.config_file(tmp_path), {})
    return None


@case
def a_config_lies_in_a_folder_whose_name_is_a_text(tmp_path: Path) -> Steps:
    odd = tmp_path / os.fsdecode(b"\xff")
    odd.mkdir()
    (odd / "lake.yaml").write_text(GOOD)
    yield partial(load_config, odd / "lake.yaml", {}), "fields.py: rename it | move the file"
    (odd / "lake.yaml").rename(tmp_path / "lake.yaml")
    assert load_config(tmp_path / "lake.yaml", {})
    odd.rename(tmp_path / "lake")
    assert validation_context(tmp_path / "lake")
    return None


@case
def a_contract_has_types_and_rules_that_a_lake_has(tmp_path: Path) -> Steps:
    def contract(old: str, new: str) -> Callable[[], LakeConfig]:
        (tmp_path / "orders.odcs.yaml").write_text(CONTRACT.replace(old, new, 1))
        (tmp_path / "lake.yaml").write_text(f"{GOOD}    contract: orders.odcs.yaml\n")
        return partial(load_config, tmp_path / "lake.yaml", {})

    kind, rule, late = "logicalType: integer", "metric: rowCount", "now()', mustBe: 0"
    yield contract(kind, "logicalType: money"), "give its physicalType"
    contract(kind, "logicalType: money, physicalType: BIGINT")()
    yield contract(kind, "physicalType: MONEY"), "give its logicalType"
    contract(kind, "physicalType: MONEY, logicalType: integer")()
    yield contract(rule, "metric: freshness"), "write it as a rule of type sql"
    contract(rule, "type: sql, name: fresh, query: SELECT 11")()
    yield contract(late, "now()'"), "add mustBe or another one"
    contract(late, "now()', mustBeLessThan: 1")()
    return None


@case
def a_contract_is_of_the_standard_and_names_the_table(tmp_path: Path) -> Steps:
    contract, text = tmp_path / "orders.odcs.yaml", f"{GOOD}    contract: orders.odcs.yaml\n"
    yield partial(loads, tmp_path, text), "contract.py: correct its path"
    contract.write_text("- no contract")
    yield partial(loads, tmp_path, text), "write it by the Open Data Contract Standard, version 3"
    contract.write_text(CONTRACT)
    assert loads(tmp_path, text).streams["sales"].declared
    twice = yaml.safe_load(CONTRACT)
    twice["schema"] += [twice["schema"][0] | {"name": "more", "physicalName": "more"}]
    contract.write_text(yaml.safe_dump(twice))
    of_orders = text.replace("{table: sales}", "{table: bills}")
    yield partial(loads, tmp_path, of_orders), "correct its names | destination"
    assert loads(tmp_path, text)
    twice["schema"][0]["physicalName"] = "bills"
    contract.write_text(yaml.safe_dump(twice))
    assert loads(tmp_path, of_orders).streams["sales"].declared
    return None


@case
def a_column_of_the_layout_is_one_column(tmp_path: Path) -> Steps:
    columns = "      region: {values: [NW], from: area}\n      shop: {from: area}\n"
    text = GOOD.replace('      region: {values: [NW, "NO"]}\n', columns)
    text += "    layout: '{area}/{date}'\n"
    yield partial(loads, tmp_path, text), "each column of the layout is one column of the table, so remove one of them"
    assert loads(tmp_path, text.replace("      shop: {from: area}\n", ""))
    return None


@case
def a_name_of_files_has_a_partition_column(tmp_path: Path) -> Steps:
    text = f"{GOOD}    files: 'sales_{{batch}}.parquet'\n"
    yield partial(loads, tmp_path, text), "name one of these | write * for text that varies"
    assert loads(tmp_path, text.replace("{batch}", "*"))
    assert loads(tmp_path, text.replace("{batch}", "{date}"))
    return None


# Variables, and catalogs of other systems.


def flown(folder: Path, world: World, **variables: str) -> int:
    """Ingest the one partition of a stream that variables define; returns its rows."""
    (stream,) = open_streams(flight_config({"DESTINATION_TABLE": "stats", **variables}, folder)).values()
    partition = only_partition(stream.config)
    assert partition is not None
    return ingest(stream, partition, world.sessions, IngestOptions(force=True)).row.row_count or 0


@case
def variables_of_a_flight_are_corrected(local_world: World, tmp_path: Path) -> Steps:
    landing = tmp_path / "landing"
    for folder in ("year=2025", "day=2026-02-11"):
        (landing / folder).mkdir(parents=True)
        pq.write_table(pa.table({"total": [1.0], "year": [2025]}), landing / folder / "a.parquet")
    fly, glob = partial(partial, flown, tmp_path, local_world), f"{landing}/year=*/*.parquet"
    days = {"SOURCE_GLOB": f"{landing}/day=*/*.parquet", "PARTITION_COLUMN": "day", "DESTINATION_TABLE": "days"}
    yield fly(**days, LOAD_PARTITION="2026-02-30"), "correct it. Dates are YYYY-MM-DD"
    assert flown(tmp_path, local_world, **days, LOAD_PARTITION="2026-02-11") == 1
    yield fly(SOURCE_GLOB=glob, LOAD_PARTITION="\udcff"), "set it to a text in UTF-8"
    yield fly(SOURCE_GLOB=f"{landing}/year=2025/*.parquet", LOAD_PARTITION="2026"), " in its place"
    yield fly(SOURCE_GLOB=f"{landing}/*.parquet"), "write it as s3://bucket/prefix/"
    assert flown(tmp_path, local_world, SOURCE_GLOB=glob, LOAD_PARTITION="2025") == 1
    assert flown(tmp_path, local_world, SOURCE_GLOB=f"{landing}/year=2025/*.parquet", LOAD_PARTITION="2025") == 1
    in_rows = {"HIVE_PARTITIONING": "perhaps", "LOAD_PARTITION": "2025"}
    yield fly(SOURCE_GLOB=f"{landing}/**/*.parquet", **in_rows), "set it to true, 1, yes or on | to false, 0, no or off"
    assert flown(tmp_path, local_world, SOURCE_GLOB=glob, LOAD_PARTITION="2025", HIVE_PARTITIONING="yes") == 1
    in_rows["HIVE_PARTITIONING"] = "no"
    yield fly(SOURCE_GLOB="*.parquet", **in_rows), "write it as s3://bucket/prefix/*.parquet or /data/**/*.parquet"
    assert flown(tmp_path, local_world, SOURCE_GLOB=f"{landing}/**/*.parquet", **in_rows) == 2
    return None


@case
def a_query_of_a_web_address_is_left_out(local_world: World, tmp_path: Path) -> Steps:
    (tmp_path / "web/year=2025").mkdir(parents=True)
    pq.write_table(sales(1), tmp_path / "web/year=2025/a.parquet")
    with plain_web_server(tmp_path / "web") as web:
        glob, of_year = f"{web.url}/year=*/a.parquet", {"LOAD_PARTITION": "2025"}
        fly = partial(flown, tmp_path, local_world, SOURCE_GLOB=f"{glob}?signed=1", **of_year)
        yield fly, "leave it out. Only public files are read from a web server"
        assert flown(tmp_path, local_world, SOURCE_GLOB=glob, **of_year) == 1
    return None


@case
def a_catalog_of_olake_is_corrected(tmp_path: Path) -> Steps:
    file = tmp_path / "catalog.json"
    convert = partial(typed, "import", "olake", str(file))

    def selected(*regexes: str) -> None:
        entries = [{"stream_name": f"s{n}", "partition_regex": text} for n, text in enumerate(regexes)]
        file.write_text(json.dumps({"selected_streams": {"db": entries}}))

    file.write_text("[]")
    yield convert, "Use the file that `olake discover` writes"
    selected()
    yield convert, "add one to selected_streams"
    selected("{region,,}", "{region}")
    yield convert, "write each placeholder as {column,default,granularity}"
    yield convert, "Correct the catalog | name the streams to import with --stream NAMESPACE.NAME"
    assert "{region,,}" in typed("import", "olake", str(file), "--stream", "db.s0")
    yield partial(typed, "import", "olake", str(file), "--stream", "db.s"), "init.py: did you mean "
    selected("{region,,}", "{region,,}")
    loads(tmp_path, convert())
    return None


# The machine, exports and new projects.


@case
def a_folder_that_cannot_be_written_to_is_corrected(local_world: World, tmp_path: Path) -> Steps:
    local_world.land(NW, sales(1))
    (tmp_path / "file").write_bytes(b"")
    right, local_world.storage = local_world.storage, {"type": "local", "path": str(tmp_path / "file/data")}
    yield partial(command, local_world, "doctor"), "the path in the config"
    local_world.storage = right
    local_world.ingest(NW)
    assert "cannot be written to" not in str(list(doctor.examine(local_world.config_file(tmp_path))))
    return [1]


@case
def a_folder_that_this_user_may_not_write_to_gets_other_permissions(root: Path) -> Steps:
    probe = partial(as_plain_user, partial(doctor._refuse_unwritable, root))
    yield probe, "correct its permissions"
    root.chmod(0o777)
    probe()
    return None


@slow
def an_extension_comes_from_a_wheel_or_another_machine(
    repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Steps:
    open_ = partial(open_engine, ("sqlite_scanner",))
    for machine in ("other", "here"):
        (tmp_path / machine).mkdir()
    with monkeypatch.context() as bare:
        bare.setattr("lake_assets.base.duckdb_engine._wheel_file", lambda _: None)
        bare.setenv("HOME", str(tmp_path / "other"))
        open_().close()  # by the network
        bare.setenv("HOME", str(tmp_path / "here"))
        bare.setattr("lake_assets.base.duckdb_engine._REPOSITORY", " FROM 'http://127.0.0.1:1'")
        yield open_, "pip install 'duckdb-extension- | from a machine with a network, on which DuckDB has run"
        shutil.copytree(tmp_path / "other/.duckdb/extensions", tmp_path / "here/.duckdb/extensions", dirs_exist_ok=True)
        open_().close()
    open_().close()  # by the wheel
    assert repository.exists()
    return None


@case
def packages_of_the_distribution_and_of_its_extras_are_installed(monkeypatch: pytest.MonkeyPatch) -> Steps:
    found, version = importlib.metadata.version, "lake_assets.upkeep.doctor.metadata.version"
    with monkeypatch.context() as old:
        old.setattr(version, lambda name: "0" if name == "duckdb" else found(name))
        yield partial(diagnosed, doctor._packages), "pip install '"
        old.setattr(version, lambda name: "0" if name.startswith("psycopg") else found(name))
        yield partial(diagnosed, doctor._packages), "run `pip install '."
    diagnosed(doctor._packages)
    return None


@case
def a_server_that_answers_too_late_for_the_doctor_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> Steps:
    answers = Event()

    def look() -> doctor.Finding:
        return doctor._limited("catalog of test", lambda: str(answers.wait()))

    with monkeypatch.context() as hurried:
        hurried.setattr(doctor, "LIMIT", 0.05)
        yield partial(diagnosed, lambda: iter([look()])), "run it again when the server or the mount answers"
    answers.set()
    assert look().status == "ok"
    return None


@case
def a_large_catalog_gets_indexes(local_world: World, monkeypatch: pytest.MonkeyPatch) -> Steps:
    local_world.commit(NW, 1)
    monkeypatch.setattr(doctor, "MANY_FILES", 0)
    lake = local_world.config.lakes["test"]

    def look() -> None:
        if "without indexes" in (told := doctor._catalog(lake)):
            raise LakeAssetsError("the doctor:", told)

    yield look, "without indexes: run `lake-assets catalog optimize`"
    command(local_world, "catalog", "optimize")
    look()
    return [1]


@case
def another_python_is_used(monkeypatch: pytest.MonkeyPatch) -> Steps:
    with monkeypatch.context() as old:
        old.setattr("platform.python_version", lambda: "3.8.1")
        yield doctor._python, "create a virtual environment with "
    assert sys.executable in doctor._python()
    return None


@case
def the_receiver_of_lineage_is_named_or_none(
    local_world: World, inbox: Inbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Steps:
    local_world.land(NW, sales(1))
    config = tmp_path / "openlineage.yml"
    config.write_text("{}")
    load = partial(command, local_world, "ingest", "--partition", NW, "--force")

    @contextmanager
    def variables(**texts: str) -> Iterator[None]:
        with monkeypatch.context() as environment:
            for name, text in texts.items():
                environment.setenv(name, text)
            yield

    with variables(OPENLINEAGE_CONFIG=str(config)):
        yield load, "set OPENLINEAGE_URL | `transport` | OPENLINEAGE_DISABLED=true"
        for more_ in ({"OPENLINEAGE_URL": inbox.url}, {"OPENLINEAGE_DISABLED": "true"}):
            with variables(**more_):
                load()
        config.write_text(yaml.safe_dump({"transport": {"type": "http", "url": inbox.url}}))
        load()
    assert len(inbox.letters) >= 2
    return [1]


@case
def the_client_of_lineage_gets_a_config_that_it_takes(
    local_world: World, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> Steps:
    local_world.land(NW, sales(1))
    load = partial(command, local_world, "ingest", "--partition", NW, "--force")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "http")
    yield load, "correct its variables or its file | set OPENLINEAGE_DISABLED=true"
    with monkeypatch.context() as environment:
        environment.setenv("OPENLINEAGE_DISABLED", "true")
        load()
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__URL", inbox.url)
    load()
    assert inbox.letters
    return [1]


@case
def the_extra_of_lineage_is_installed_or_not_needed(local_world: World, monkeypatch: pytest.MonkeyPatch) -> Steps:
    local_world.land(NW, sales(1))
    load = partial(command, local_world, "ingest", "--partition", NW)
    monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:9")
    with monkeypatch.context() as bare:
        bare.setitem(sys.modules, "lake_assets.wings.telemetry.lineage", None)
        yield load, "run `pip install '. | set OPENLINEAGE_DISABLED=true"
        bare.setenv("OPENLINEAGE_DISABLED", "true")
        load()
    command(local_world, "ingest", "--partition", NW, "--force")
    return [1]


@case
def a_demo_gets_a_folder_of_its_own(tmp_path: Path) -> Steps:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/a.txt").write_text("a")
    yield partial(prepare, tmp_path / "mine"), "name another folder with --folder | demo_run.py: move it away"
    assert prepare(tmp_path / "other").exists()
    (tmp_path / "mine").rename(tmp_path / "moved")
    assert prepare(tmp_path / "mine").exists()
    return None


@case
def a_project_gets_a_new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Steps:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("a")
    yield partial(typed, "init", "."), "name a new folder, as in `lake-assets init my-lake`"
    yield partial(typed, "init", "a.txt"), "name another folder"
    yield partial(start_with, Path("a.txt/new"), GOOD, "sales"), "name another folder"
    typed("init", "my-lake")
    assert load_config("my-lake/lake.yaml", {})
    return None


def test_each_command_that_a_text_names_exists_and_has_its_options() -> None:
    options: dict[str, set[str]] = {
        name: {option for parameter in command_.params for option in (*parameter.opts, *parameter.secondary_opts)}
        for name, command_ in each_command()
    }
    sources = "\n".join(path.read_text("utf-8") for path in PACKAGE.rglob("*.py"))
    calls = set(re.findall(r"`lake-assets ([a-z][^`\n]*)`", sources))

    assert len(calls) > 30
    for call in calls:
        words = call.split()
        name = next((name for name in (" ".join(words[:2]), words[0]) if name in options), None)
        assert name is not None, call
        assert set(re.findall(r"(?<!\S)--[a-z][a-z-]*", call)) <= options[name] | {"--help"}, call


@pytest.mark.parametrize("steps", [*case, *slow])
def test_advice_that_is_followed_gives_what_was_wanted(
    steps: Case, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lake_assets.base.errors._in_terms", str)  # which a config of variables replaces
    follow(steps, request)
