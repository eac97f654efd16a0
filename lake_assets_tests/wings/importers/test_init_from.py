"""`lake-assets init --from`: the config of a landing zone that exists is valid, and its first partition is ingested."""

import datetime as dt
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from dev.servers.s3 import S3Server
from lake_assets.cli import main
from lake_assets.config.models import LakeConfig
from lake_assets.config.storages import LocalStorage, S3Storage, storage_at
from lake_assets.orchestration.build import build_definitions
from lake_assets.storage.store import Store
from lake_assets.streams.load import load_config, parse_config
from lake_assets.wings.importers.proposals import Proposal, config_text, propose
from lake_assets.wings.importers.sampler import MOST_FOOTERS, Sampler
from lake_assets_tests.tiers import more
from lake_assets_tests.world_fixtures import bucket_on

pytestmark = pytest.mark.usefixtures("sessions")

SALES = pa.table({"id": [1, 2], "total": [1.0, 2.0]})
STOCK = pa.table({"sku": ["a"], "pieces": [1]})
EVENTS = pa.table({"at": pa.array([dt.datetime(2026, 3, 1, 5, tzinfo=dt.UTC)], pa.timestamp("us")), "value": [1]})


def parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def land(store: Store) -> None:
    """Six tables, each with a layout of its own, and what is none."""
    tables = {
        "sales": ([f"region={r}/date=2026-02-{d}" for r in ("NW", "SW", "NO") for d in (11, 12)], SALES),
        "stock": ([f"2026/02/{d}" for d in (11, 12)], STOCK),
        "clicks": (["dt=20260211", "dt=20260212"], SALES),
        "deep": ([f"country=DE/store={n}/date=2026-01-0{n}" for n in (1, 2)], STOCK),
        "events": ([""], EVENTS),
    }
    for name, (folders, table) in tables.items():
        for folder in folders:
            store.put_new("/".join(part for part in (name, folder, "part-0.parquet") if part), parquet(table))
    store.put_new("sales/_SUCCESS", b"")
    store.put_new("sales/region=NW/date=2026-02-11/notes.csv", b"a,b")
    store.put_new("notes/readme.txt", b"x")


def init(folder: Path, *options: str) -> Result:
    return CliRunner().invoke(main, ["init", str(folder), *options])


def proposed(config: LakeConfig) -> dict[str, Any]:
    """The streams in short: the layout, the partition columns, and the first of them that is a date."""
    return {
        name: (
            stream.template.text,
            {column: field.type for column, field in stream.partitions.items()},
            str(next(field.start for field in stream.partitions.values() if field.start)),
        )
        for name, stream in config.streams.items()
    }


EXPECTED = {
    "clicks": ("dt={dt,,YYYY}{dt,,MM}{dt,,DD}", {"dt": "date"}, "2026-02-11"),
    "deep": (
        "country={country}/store={store}/date={date}",
        {"country": "string", "store": "integer", "date": "date"},
        "2026-01-01",
    ),
    "events": ("", {"date": "date"}, "2026-03-01"),
    "sales": ("region={region}/date={date}", {"region": "string", "date": "date"}, "2026-02-11"),
    "stock": ("{date,,YYYY}/{date,,MM}/{date,,DD}", {"date": "date"}, "2026-02-11"),
}


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    folder = tmp_path / "landing"
    folder.mkdir()
    land(Store(LocalStorage(path=str(folder))))
    return folder


def test_each_table_is_a_stream_whose_partition_is_ingested(
    landing: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    result = init(tmp_path / "shop", "--from", "landing")

    assert result.exit_code == 0, result.output
    file = tmp_path / "shop" / "lake.yaml"
    config = load_config(file)
    assert proposed(config) == EXPECTED
    assert config.streams["sales"].partitions["region"].values == ("NO", "NW", "SW")
    assert config.streams["events"].partitions["date"].source == "at"
    assert config.streams["sales"].source.root == str(landing / "sales")
    assert {path.name for path in file.parent.iterdir()} == {
        ".gitignore", "README.md", "dagster_home", "lake.schema.json", "lake.yaml", "workspace.yaml"
    }  # fmt: skip
    for name, partition in [
        ("sales", "region=NO,date=2026-02-12"),
        ("stock", "date=2026-02-11"),
        ("clicks", "dt=2026-02-12"),
        ("deep", "country=DE,store=2,date=2026-01-02"),
        ("events", "date=2026-03-01"),
    ]:
        done = CliRunner().invoke(main, ["--config", str(file), "ingest", name, "--partition", partition, "--outside"])
        assert "committed" in done.output, done.output


@pytest.mark.parametrize("kind", [pa.date32(), *more([pa.timestamp("ns", "UTC")])], ids=str)
def test_flat_files_are_ingested_by_the_dates_of_their_rows_once(tmp_path: Path, kind: pa.DataType) -> None:
    store = Store(LocalStorage(path=str(tmp_path / "landing" / "sales")))
    (tmp_path / "landing" / "sales").mkdir(parents=True)
    for number, days in enumerate([(5, 6), (8, 12), (12,)]):
        dates = pa.array([dt.date(2026, 11, day) for day in days])
        table = pa.table({"id": range(len(days)), "at": dates.cast(pa.timestamp("us")).cast(kind)})
        store.put_new(f"{number}.parquet", parquet(table))

    result = init(tmp_path / "shop", "--from", str(tmp_path / "landing" / "sales"))

    assert "lake-assets ingest sales --partition" in result.output, result.output
    file = str(tmp_path / "shop" / "lake.yaml")
    (column,) = load_config(file).streams["sales"].partitions.values()
    assert column.start == dt.date(2026, 11, 5)
    readme = (tmp_path / "shop" / "README.md").read_text(encoding="utf-8")
    assert "lake-assets ingest sales --waiting" in readme
    first, second = (CliRunner().invoke(main, ["--config", file, "ingest", "sales", "--waiting"]) for _ in range(2))
    assert first.exit_code == second.exit_code == 0, first.output
    assert first.output.count("committed  ") == 4
    assert "3 without data" in first.output  # of the days between 8 and 12, which the footer allows
    assert "nothing to do" in second.output
    assert "committed" not in second.output


def test_the_first_date_is_that_of_the_footers_that_were_read(tmp_path: Path) -> None:
    (tmp_path / "sales").mkdir()
    store = Store(LocalStorage(path=str(tmp_path / "sales")))
    days = [dt.date(1, 1, 1), dt.date(2025, 3, 1), *(dt.date(2025, 6, 1) + dt.timedelta(n) for n in range(70))]
    for number, day in enumerate(days):
        store.put_new(f"{number:03}.parquet", parquet(pa.table({"d": pa.array([day])})))

    (proposal,) = propose(look := Sampler(store.storage))

    assert proposal.config["partitions"] == {"d": {"type": "date", "in": "rows", "start": dt.date(2025, 3, 1)}}
    assert look.footers == MOST_FOOTERS
    notes = "; ".join(proposal.notes)
    assert "d has 0001-01-01: times before 2025-03-01 are left out" in notes
    assert "start is the first date of the footers that were read: earlier ones may exist" in notes


DAYS = ("2026-02-11", "2026-02-12")


def test_flat_files_of_two_tables_are_two_streams_and_one_table_is_one(tmp_path: Path) -> None:
    def land_tables(folder: Path, **tables: pa.Table) -> dict[str, str]:
        folder.mkdir()
        for name, table in tables.items():
            for day in DAYS:
                Store(LocalStorage(path=str(folder))).put_new(f"{name}_{day}.parquet", parquet(table))
        return {p.name: p.config["files"] for p in propose(Sampler(LocalStorage(path=str(folder))))}

    two = land_tables(tmp_path / "two", sales=SALES, stock=STOCK)
    assert two == {"sales": "sales_{date}.parquet", "stock": "stock_{date}.parquet"}
    one = land_tables(tmp_path / "one", emea=SALES, apac=SALES)
    assert one == {"one": "{name_1}_{date,,YYYY}-{date,,MM}-{date,,DD}.parquet"}


def look(folder: Path, *keys: str) -> dict[str, Proposal]:
    """The proposals for a folder with these objects, by name."""
    store = Store(LocalStorage(path=str(folder)))
    folder.mkdir()
    for key in keys:
        store.put_new(key, parquet(SALES) if key.endswith(("parquet", "pq")) else b"")
    return {proposal.name: proposal for proposal in propose(Sampler(store.storage))}


# Keys below the folder of a table, what is proposed for them, and a note.
LOOKS: dict[str, tuple[list[str], dict[str, Any], str]] = {
    "another time of the path": (
        ["region=NW/date=2026-02-11/synced=2026-02-12/a.parquet"],
        {"path_columns": {"synced": "date"}},
        "synced in the path is a column of the rows, by which no partition is refreshed",
    ),
    "folders without names": (
        ["NW/2026-02-11/a.parquet", "SW/2026-02-11/a.parquet"],
        {"layout": "{folder_1}/{date}"},
        "the folders NW, SW are read as values of a column",
    ),
    "another suffix": (
        ["date=2026-02-11/a.pq", "date=2026-02-11/b.pq", "date=2026-02-11/c.parquet"],
        {"files": "*.pq"},
        "1 object of those seen are not *.pq: the stream ignores them",
    ),
    "no leading zeros": (
        ["year=2026/month=2/day=1/a.parquet"],
        {
            "partitions": {
                "year": {"type": "year", "start": dt.date(2026, 1, 1)},
                "month": {"type": "integer"},
                "day": {"type": "integer"},
            }
        },
        "others follow in time",
    ),
    "a date that stands for none": (
        ["date=0001-01-01/a.parquet", "date=2026-02-11/a.parquet"],
        {"partitions": {"date": {"type": "date", "start": dt.date(2026, 2, 11)}}},
        "date has a folder of 0001-01-01: times before 2026-02-11 are left out",
    ),
    "a number that is no date": (["part-20261310.parquet"], {"partitions": {}}, "no partition columns and the rows no"),
    "a name": (["sales.parquet"], {"partitions": {}}, "no partition columns and the rows no date"),
    "no such date": (["sales_20260230.parquet"], {"partitions": {}}, "no partition columns and the rows no date"),
    "objects that no run reads": (
        ["region=A/a.parquet", "region=Zo%c3%ab/a.parquet", "region=/a.parquet"],
        {},
        "2 objects of those seen are not read, the first because the path",
    ),
    "only such objects": (["region=Zo%c3%ab/a.parquet"], {}, ": the path has the values of partition region=Zoë"),
    "a log of Delta": (
        ["_delta_log/00000000000000000000.json", "date=2026-02-11/a.parquet"],
        {},
        "is of the Delta table",
    ),
    "a log of Hudi": ([".hoodie/hoodie.properties", "2026/02/11/a.parquet"], {}, "is of the Hudi table"),
}


@pytest.mark.parametrize("case", LOOKS)
def test_what_is_proposed_for_a_table_and_what_is_not_certain(tmp_path: Path, case: str) -> None:
    keys, config, note = LOOKS[case]

    sales = look(tmp_path / "sales", *keys)["sales"]

    assert {name: sales.config[name] for name in config} == config
    assert any(note in told for told in sales.notes), sales.notes


def test_the_data_of_an_iceberg_table_are_named(tmp_path: Path) -> None:
    found = look(tmp_path / "landing", "orders/metadata/v1.metadata.json", "orders/data/date=2026-02-11/a.parquet")

    assert any("is of the Iceberg table orders/" in note for note in found["data"].notes)


def test_the_partition_in_the_next_command_has_landed_and_can_be_ingested(tmp_path: Path) -> None:
    for number, (example, folders) in enumerate(
        {
            "region=SW,date=2026-02-11": ["region=NW/date=2026-02-12", "region=SW/date=2026-02-11"],
            "region=a%2Cb,date=2026-02-11": ["region=a,b/date=2026-02-11"],
            "date=2026-02-11": ["date=2026-02-11", "date=9999-12-31"],  # the other is in the future
            "region=A": ["region=A", "region=Zo%c3%ab"],  # no run lists an encoding that no writer has
        }.items()
    ):
        proposals = look(tmp_path / f"sales{number}", *(f"{folder}/part-0.parquet" for folder in folders))

        assert proposals[f"sales{number}"].example == example


def test_it_says_what_it_looked_at_and_what_is_not_certain_and_the_start_may_be_given(
    landing: Path, tmp_path: Path
) -> None:
    one = init(tmp_path / "one", "--from", str(landing / "sales"), "--start", "2025-06-01")
    result = init(tmp_path / "shop", "--from", str(landing))

    assert one.exit_code == 0
    assert proposed(load_config(tmp_path / "one" / "lake.yaml")) == {"sales": (*EXPECTED["sales"][:2], "2025-06-01")}
    text = (tmp_path / "shop" / "lake.yaml").read_text(encoding="utf-8")
    for note in (
        "1 object of those seen are not *.parquet: the stream ignores them.",
        "the paths have no partition columns, so the rows' at is the partition.",
        "no Parquet, CSV, JSON, Avro or ORC was seen: the stream is left out.",
        "notes.csv are of another format beside Parquet: `format: auto` and `files: '*.*'` read them too.",
    ):
        assert f"unsure: {note}" in result.output
        assert f"# unsure: {note}" in text
    assert re.search(rf"looked  {landing}: 15 objects read with \d listings, \d footers", result.output)
    assert f"none    {landing}/notes" in result.output


def test_the_first_object_may_be_broken(tmp_path: Path) -> None:
    store = Store(LocalStorage(path=str(tmp_path)))
    for day, body in {10: b"", 11: parquet(SALES)}.items():
        store.put_new(f"date=2026-02-{day}/a.parquet", body)

    (sales,) = propose(Sampler(store.storage))

    assert sales.schema is not None
    assert (sales.schema.names, sales.notes) == (["id", "total"], ())


NULL = "__HIVE_DEFAULT_PARTITION__"


@pytest.mark.parametrize(
    ("folders", "layout", "partitions"),
    [
        (["_draft", ".NET", "Books"], "{folder_1}", {"folder_1": {"values": [".NET", "Books", "_draft"]}}),
        *more(
            [
                (
                    ["_draft/2026-02-11", ".NET/2026-02-12", f"{NULL}/2026-02-12"],
                    "{folder_1}/{date}",
                    {"date": {"type": "date", "start": dt.date(2026, 2, 11)}, "folder_1": {"type": "string"}},
                ),
                (
                    ["region=NW/_a", "region=NW/.b", "region=SW/c"],
                    "region={region}/{folder_2}",
                    {"folder_2": {"values": [".b", "_a", "c"]}, "region": {"values": ["NW", "SW"]}},
                ),
            ]
        ),
    ],
)
def test_folders_that_begin_as_hidden_ones_are_values_and_every_row_is_ingested(
    tmp_path: Path, folders: list[str], layout: str, partitions: dict[str, Any]
) -> None:
    landing = tmp_path / "landing" / "sales"
    landing.mkdir(parents=True)
    store = Store(LocalStorage(path=str(landing)))
    for folder in folders:
        store.put_new(f"{folder}/a.parquet", parquet(SALES))
    for reserved in ("_temporary", ".hive-staging_1", "_delta_log"):
        store.put_new(f"{reserved}/a.parquet", parquet(SALES))

    assert init(tmp_path / "shop", "--from", str(landing)).exit_code == 0

    file = tmp_path / "shop" / "lake.yaml"
    (proposal,) = propose(Sampler(store.storage))
    assert (proposal.config.get("layout", layout), proposal.config["partitions"]) == (layout, partitions)
    done = CliRunner().invoke(main, ["--config", str(file), "ingest", "sales", "--all"])
    assert done.exit_code == 0, done.output
    query = CliRunner().invoke(main, ["--config", str(file), "query", "select count(*) from sales"])
    assert query.output.split()[-1] == str(2 * len(folders))


def test_a_hidden_folder_beside_folders_of_another_form_is_no_value_and_is_named(tmp_path: Path) -> None:
    store = Store(LocalStorage(path=str(tmp_path)))
    for folder in ("day/2026-02-11", "day/_old", "named/region=NW", "named/.tmp", "_staging/x"):
        store.put_new(f"{folder}/a.parquet", parquet(SALES if folder < "n" else STOCK))

    proposals = {proposal.folder: proposal for proposal in propose(Sampler(store.storage))}

    assert {name: proposal.config.get("partitions") for name, proposal in proposals.items()} == {
        "_staging": None,
        "day": {"date": {"type": "date", "start": dt.date(2026, 2, 11)}},
        "named": {"region": {"values": ["NW"]}},
    }
    for name in ("day", "named"):
        assert any("1 object of those seen are not read" in note for note in proposals[name].notes), proposals
    assert "not taken for a table" in proposals["_staging"].notes[0]


def test_few_values_are_listed_and_more_are_not_and_a_comment_says_what_becomes_of_new_ones(tmp_path: Path) -> None:
    store = Store(LocalStorage(path=str(tmp_path)))
    for number in (1, 2, 10):
        store.put_new(f"landing/few/no={number}/a.parquet", parquet(SALES))
    for number in range(51):
        store.put_new(f"landing/many/shop=s{number}/date=2026-02-11/a.parquet", parquet(SALES))

    result = init(tmp_path / "shop", "--from", str(tmp_path / "landing"))

    assert "unsure: shop has no list of values, because there are more than 50: each value" in result.output
    config = load_config(tmp_path / "shop" / "lake.yaml")
    assert config.streams["few"].partitions["no"].values == ("1", "2", "10")
    assert config.streams["many"].partitions["shop"].values is None
    text = (tmp_path / "shop" / "lake.yaml").read_text(encoding="utf-8")
    comment, _, few = text.partition("      'no':\n")
    assert "outside the config until it is in this list" in comment
    assert "# Each value that lands is accepted. `sensor: {type: objects}` adds" in few

    # What the comment proposes is valid, and takes a new value.
    text = text.replace("type: integer\n        values: [1, 2, 10]", "type: integer")
    changed = parse_config(text, tmp_path / "lake.yaml", {}).streams["few"]
    assert "`'no': {type: integer}` and `sensor: {type: objects}`" in text
    assert changed.partitions["no"].values is None


@pytest.mark.more
def test_the_number_of_requests_does_not_grow_with_the_objects(tmp_path: Path) -> None:
    (tmp_path / "flat").mkdir()
    for number in range(2500):
        (tmp_path / "flat" / f"{number}.parquet").write_bytes(b"")
    propose(flat := Sampler(LocalStorage(path=str(tmp_path / "flat"))))
    assert flat.listings <= 2

    looks = {}
    for days in (50, 500):
        for region in ("NE", "NW", "SW"):
            for day in range(days):
                folder = tmp_path / str(days) / f"region={region}" / f"date={dt.date(2024, 1, 1) + dt.timedelta(day)}"
                folder.mkdir(parents=True)
                for number in range(3):
                    (folder / f"{number}.parquet").write_bytes(b"")
        looks[days] = look = Sampler(LocalStorage(path=str(tmp_path / str(days))))
        (proposal,) = propose(look)
        assert proposal.config["partitions"] == {
            "region": {"values": ["NE", "NW", "SW"]},
            "date": {"type": "date", "start": dt.date(2024, 1, 1)},
        }
    assert looks[50].listings == 1
    assert looks[500].listings <= 4
    assert looks[500].footers == 3  # of the first, a middle and a late object, because none is Parquet


@pytest.mark.more
@pytest.mark.parametrize(
    ("layout", "is_certain"), [("date={day}/store={store}", True), ("country=DE/store={store}/date={day}", False)]
)
def test_a_start_that_may_not_be_the_first_is_named(tmp_path: Path, layout: str, *, is_certain: bool) -> None:
    for store in range(3):
        for day in range(400):
            folder = tmp_path / layout.format(store=store, day=dt.date(2024, 1, 1) + dt.timedelta(day))
            folder.mkdir(parents=True)
            (folder / "a.parquet").write_bytes(b"")

    (proposal,) = propose(Sampler(LocalStorage(path=str(tmp_path))))

    assert proposal.config["partitions"]["date"]["start"] == dt.date(2024, 1, 1)
    note = "date begins at the first of those seen: earlier ones may exist"
    assert (note not in proposal.notes) is is_certain


@pytest.mark.parametrize(
    ("place", "root"),
    [
        ("s3://landing/x", "s3://landing/x/sales"),
        ("gs://landing", "gs://landing/sales"),
        ("r2://account1/landing/x", "s3://landing/x/sales"),
        ("abfss://landing@account1.dfs.core.windows.net/x", "az://landing/x/sales"),
    ],
)
def test_the_source_of_a_stream_is_a_folder_of_the_storage(place: str, root: str) -> None:
    keys = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "hunter2"}
    look = Sampler(storage_at(place, {"AWS_REGION": "eu-central-1", **keys}))
    proposal = Proposal("sales", "sales", {"partitions": {"region": {}}, "destination": {"table": "sales"}})

    text = config_text(look, [proposal])
    config = parse_config(text, Path("/etc/lake.yaml"), {})

    assert "hunter2" not in text
    source = config.streams["sales"].source
    assert (source.type, source.root) == (look.storage.type, root)
    assert look.listings == 0


NOWHERE = {
    "https://example.com/data": "--from names a web server, which cannot be listed",
    "ftp://host/data": "ftp:// is not a known storage",
    "": "--from is empty: name a folder, or a URI such as s3://bucket/prefix.",
    "s3://B/data": "--from 's3://B/data' names no landing zone: its bucket has the wrong form: write the bucket's",
    "nowhere": "/nowhere does not exist: correct it, or create it and land files.",
    ".": "--from '.': there are no objects in",
    "s3://no-such-bucket-here/x": "--from 's3://no-such-bucket-here/x': the bucket 'no-such-bucket-here' does",
}


@pytest.fixture
def on_s3(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The server that the environment names."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3.secret_key)
    return s3


@pytest.mark.usefixtures("on_s3")
def test_a_place_without_streams_is_an_error_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for place, message in NOWHERE.items():
        result = init(tmp_path / "shop", "--from", place)

        assert result.exit_code != 0
        assert message in result.output
        assert list(tmp_path.iterdir()) == []


def test_a_bucket_is_read_by_the_environment_and_its_keys_are_not_written(on_s3: S3Server, tmp_path: Path) -> None:
    storage = S3Storage.model_validate(bucket_on(on_s3))
    land(Store(storage))

    result = init(tmp_path / "shop", "--from", storage.root)

    assert result.exit_code == 0, result.output
    written = [file.read_text(encoding="utf-8") for file in (tmp_path / "shop").rglob("*") if file.is_file()]
    assert not any(on_s3.secret_key in text for text in [result.output, *written])
    config = load_config(tmp_path / "shop" / "lake.yaml")
    assert proposed(config)["sales"] == EXPECTED["sales"]
    source = config.streams["sales"].source
    assert isinstance(source, S3Storage)
    assert (source.root, source.endpoint) == (f"{storage.root}/sales", on_s3.endpoint)


@pytest.mark.parametrize("name", ["z*", "{z}", "z\a=1"], ids=["star", "braces", "control"])
def test_a_folder_that_no_layout_can_have_is_named_with_what_to_do(tmp_path: Path, name: str) -> None:
    for number in (1, 2):
        folder = tmp_path / "landing" / "sales" / f"a={number}" / name / "date=2026-01-01"
        folder.mkdir(parents=True)
        (folder / "part.parquet").write_bytes(parquet(SALES))

    result = init(tmp_path / "shop", "--from", str(tmp_path / "landing"))

    output = " ".join(result.output.split())
    shown = name.replace("\a", "\\x07")
    assert f"unsure: the folder sales/a=1/{shown} has a character that no layout can have (one of {{ }} [ ]" in output
    assert "rename it, or move its objects, and run the command again." in output
    assert "no stream was found" in output
    assert "template" not in output


def test_a_stream_has_no_name_that_the_lake_or_another_stream_has_for_its_own(tmp_path: Path) -> None:
    tables = ("ingest_runs", "lake_ledger", "sales", "sales_landing", "sales_report")
    (tmp_path / "landing").mkdir()
    for table in tables:
        column = pa.table({table: [1]})
        Store(LocalStorage(path=str(tmp_path / "landing"))).put_new(
            f"{table}/date=2026-02-11/a.parquet", parquet(column)
        )

    result = init(tmp_path / "shop", "--from", str(tmp_path / "landing"))

    assert result.exit_code == 0, result.output
    config = load_config(tmp_path / "shop" / "lake.yaml")
    build_definitions(config)
    assert set(config.streams) == {"ingest_runs_2", "lake_ledger_2", "sales", "sales_landing_2", "sales_report_2"}
