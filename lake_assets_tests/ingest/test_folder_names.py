"""Every folder that a layout can produce is read, and every spelling of a value that a writer has for it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from lake_assets.checks.check_run import checks_of, run_check
from lake_assets.checks.result import Scope
from lake_assets.ingest.api import ingest_all
from lake_assets.ingest.dry_run import plan_stream
from lake_assets.landing.writer import LandingWriter
from lake_assets.layout.partition import Partition
from lake_assets.report.state import read_state
from lake_assets.streams.landing_zone import list_landed, list_landed_in
from lake_assets_tests.tiers import more
from lake_assets_tests.world import World, sales

VALUES = [
    "a b",
    "é",
    "(1)",
    "a+b",
    "x;y",
    "10:30",
    "a=b",
    "50%",
    "%41",
    "it's",
    "[x]",
    "plain",
    "漢 {字}",
    "~a@b!",
    "A&B",
]
ROWS = pa.table({"id": list(range(len(VALUES))), "k": VALUES})


def by_duckdb(folder: str, rows: pa.Table) -> None:
    _ = rows  # which DuckDB finds by the name
    duckdb.sql(f"COPY rows TO '{folder}' (FORMAT parquet, PARTITION_BY (k), OVERWRITE_OR_IGNORE)")


def by_pyarrow(folder: str, rows: pa.Table) -> None:
    ds.write_dataset(
        rows,
        folder,
        basename_template="of_pyarrow_{i}.parquet",
        format="parquet",
        partitioning=ds.partitioning(pa.schema([("k", pa.string())]), flavor="hive"),
        existing_data_behavior="overwrite_or_ignore",
    )


def by_pandas(folder: str, rows: pa.Table) -> None:
    rows.to_pandas().to_parquet(folder, partition_cols=["k"])


def by_polars(folder: str, rows: pa.Table) -> None:
    frame = pl.from_arrow(rows)
    assert isinstance(frame, pl.DataFrame)
    frame.write_parquet(folder, partition_by="k", mkdir=True)


def by_nothing_encoded(folder: str, rows: pa.Table) -> None:
    for row in rows.to_pylist():
        target = Path(folder) / f"k={row['k']}"
        target.mkdir(parents=True, exist_ok=True)
        duckdb.sql(f"COPY (SELECT {row['id']} AS id) TO '{target}/raw.parquet'".replace("it's", "it''s"))


WRITERS: dict[str, Callable[[str, pa.Table], None]] = {
    "duckdb": by_duckdb,
    "pyarrow": by_pyarrow,
    "pandas": by_pandas,
    "polars": by_polars,
    "raw": by_nothing_encoded,
}


def of_text(world: World) -> World:
    world.options = {"partitions": {"k": {}}}
    return world


def refresh(world: World) -> dict[str, str | None]:
    """Ingest every landed partition, each as a refresh of its own prefix; returns the errors."""
    wanted = list(list_landed(world.stream)[0])
    return {
        str(o.partition): str(o.error) if o.error else None for o in ingest_all(world.stream, wanted, world.sessions)
    }


def in_lake(world: World) -> list[tuple[Any, ...]]:
    return world.query("SELECT id, k FROM lake.sales ORDER BY ALL")


def failed_checks(world: World) -> dict[str, str]:
    results = [run_check(world.stream, name, Scope()) for name in checks_of(world.stream)]
    return {result.name: result.description for result in results if not result.passed}


@pytest.mark.parametrize("mode", ["replace", *more(["append", "index"])])
@pytest.mark.parametrize("writer", WRITERS)
def test_what_each_writer_lands_is_read_back(local_world: World, writer: str, mode: str) -> None:
    of_text(local_world).options["mode"] = mode
    refused = {"raw": {"%41", "a=b"} if mode == "index" else {"%41"}}.get(writer, set())  # raw, %41 is A
    rows = ROWS.filter(pa.array([value not in refused for value in VALUES]))
    WRITERS[writer](local_world.source["path"], rows)

    assert set(refresh(local_world).values()) == {None}

    assert in_lake(local_world) == sorted((row["id"], row["k"]) for row in rows.to_pylist())
    assert failed_checks(local_world) == {}


@pytest.mark.parametrize("mode", ["replace", *more(["append", "index"])])
def test_two_spellings_of_a_partition_are_one_partition(local_world: World, mode: str) -> None:
    of_text(local_world).options["mode"] = mode
    for number, writer in enumerate(WRITERS):
        rows = pa.table({"id": [number], "k": ["é 10:30 (1)"]})
        WRITERS[writer](local_world.source["path"], rows)
    assert len(list(Path(local_world.source["path"]).iterdir())) == 3
    partition = Partition.from_values(local_world.stream.config.columns, {"k": "é 10:30 (1)"})

    landed, left_out = list_landed(local_world.stream)
    assert (list(landed), left_out.objects) == ([partition], ())
    assert landed == list_landed_in(local_world.stream, [partition])
    (planned,) = plan_stream(local_world.stream, [partition]).partitions
    assert len(planned.reads.objects) == len(WRITERS)
    assert refresh(local_world) == {str(partition): None}
    assert [number for number, _ in in_lake(local_world)] == list(range(len(WRITERS)))
    (state,) = read_state(local_world.stream).partitions
    assert (state.state, state.is_waiting, state.objects) == ("committed", False, len(WRITERS))
    assert failed_checks(local_world) == {}


def test_a_refresh_lists_once_for_a_value_that_every_writer_spells_alike(local_world: World) -> None:
    stream = of_text(local_world).stream

    for value, prefixes in {
        "NW": ["k=NW/"],
        "2026-02-11": ["k=2026-02-11/"],
        "a b": ["k=a b/", "k=a%20b/"],
    }.items():
        assert stream.prefixes(Partition.from_values(stream.config.columns, {"k": value})) == prefixes


@pytest.mark.parametrize(
    ("layout", "options"),
    [
        ({"template": "{title,,}/{now(),2025,YY}-{now(),,MM}"}, {}),
        ({"template": "{title}/v={n}"}, {"path_columns": {"n": "integer"}}),
        ({"template": "{title}"}, {}),
        ({"template": "a={title}", "nested": True}, {}),
        ({"template": "{title,,}", "compat": "olake"}, {}),
    ],
    ids=lambda value: value.get("template"),
)
def test_what_land_writes_is_read_whatever_its_folders_begin_with(
    local_world: World, layout: dict[str, Any], options: dict[str, Any]
) -> None:
    compat = "compat" in layout
    local_world.options = {"layout": layout, "partitions": {"title": {}}} | options
    titles = ["_draft", ".NET", "plain", "a/_b", "a/.c", None, "_delta_log", "_temporary", ".", ".hive-staging_1"]
    if compat:
        titles = titles[:6]
    rows = [{"id": n, "title": title, "n": 1} for n, title in enumerate(titles)]
    with LandingWriter("sales", local_world.config.streams["sales"]) as writer:
        writer.write(pa.Table.from_pylist(rows))

    assert set(refresh(local_world).values()) == {None}

    expected = {None if title is None and not compat else title for title in titles}
    assert {title for (title,) in local_world.query("SELECT title FROM lake.sales")} == expected
    assert read_state(local_world.stream).left_out.unmatched == ()


def test_folders_of_engines_are_no_partitions(local_world: World) -> None:
    local_world.options = {"layout": "{region}/{date}"}
    path = Path(local_world.source["path"])
    local_world.landing  # noqa: B018 - makes the folder
    for folder in ("_temporary/0", "_delta_log", ".hive-staging_x", "NW/2026-02-11/_temporary", "_dead_letters/sales"):
        (path / folder).mkdir(parents=True)
        duckdb.from_arrow(sales(1)).to_parquet(f"{path / folder}/a.parquet")
    duckdb.from_arrow(sales(1)).to_parquet(f"{path}/NW/2026-02-11/a.parquet")

    landed, left_out = list_landed(local_world.stream)

    assert [str(p) for p in landed] == ["region=NW/date=2026-02-11"]
    assert (left_out.counts["hidden"], len(left_out.objects), left_out.listed) == (5, 5, 6)
