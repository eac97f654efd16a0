"""Columns whose type is known keep it, however few records `land` infers from, and the next ingest works."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake_assets.landing.known_columns import as_known
from lake_assets_tests.cli.conftest import Run, run, sessions
from lake_assets_tests.landing.streams import files, rejects
from lake_assets_tests.world import NW, World, sales

__all__ = ["run", "sessions"]

CSV = "region,date,id,total\n" + "".join(f"NW,2026-02-11,{value},{value}\n" for value in ("n/a", 7))


def records(*values: object) -> str:
    return "".join(json.dumps({"region": "NW", "date": "2026-02-11", "id": n, "total": n}) + "\n" for n in values)


@pytest.mark.parametrize(
    ("form", "text", "is_ingested"), [("csv", CSV, True), ("jsonl", records("n/a", 7), False)], ids=["table", "file"]
)
def test_a_value_that_does_not_fit_a_known_column_is_rejected_and_the_others_are_ingested(
    local_world: World, run: Run, tmp_path: Path, form: str, text: str, *, is_ingested: bool
) -> None:
    local_world.land(NW, sales(1.5))
    if is_ingested:
        local_world.ingest(NW)

    landed = run("land", "sales", "--format", form, stdin=text)

    assert landed.exit_code == 0, landed.output
    assert "landed  1 record in 1 file" in landed.stdout
    (reject,) = rejects(tmp_path / "landing")
    assert "n/a" in reject["record"]
    done = run("ingest", "sales", "--all")
    assert done.exit_code == 0, done.output
    assert local_world.totals() == [1.5, 7]
    none = run("land", "sales", stdin=records("n/a", "none"))
    assert (none.exit_code, "no record fits the stream sales" in none.stderr) == (1, True)


@pytest.mark.parametrize(
    ("bad", "good", "place", "count"),
    [("bad", 1, 0, 3), (1, "good", 3, 3), ({"a": 1}, 1, 0, 3), (1, True, 3, 3), pytest.param("n/a", 7, 0, 1, id="tie")],
)
def test_without_a_known_type_most_values_of_json_decide_and_numbers_among_as_many_texts(
    run: Run, tmp_path: Path, bad: object, good: object, place: int, count: int
) -> None:
    values = [good] * count
    values.insert(place, bad)

    done = run("land", "sales", stdin=records(*values))

    assert done.exit_code == 0, done.output
    (file,) = files(tmp_path / "landing")
    assert pq.read_table(file, partitioning=None)["total"].to_pylist() == [good] * count
    (reject,) = rejects(tmp_path / "landing")
    assert json.loads(reject["record"])["total"] == bad


@pytest.mark.parametrize(
    ("options", "inferred", "settled"),
    [
        ({}, {"id": pa.int64(), "total": pa.int64()}, {"id": pa.int64(), "total": pa.float64()}),
        ({}, {"ID": pa.int32(), "new": pa.string()}, {"ID": pa.int32(), "new": pa.string()}),  # both fit
        ({}, {"region": pa.int64(), "date": pa.string()}, {"region": pa.int64(), "date": pa.string()}),  # of the path
        ({"transform": {"sql": "SELECT * FROM rows"}}, {"total": pa.string()}, {"total": pa.string()}),
    ],
)
def test_the_known_type_replaces_one_that_the_table_does_not_hold(
    local_world: World, options: dict[str, Any], inferred: dict[str, pa.DataType], settled: dict[str, pa.DataType]
) -> None:
    local_world.commit(NW, 1.5)
    local_world.unland(NW)
    local_world.options = options

    assert as_known(pa.schema(inferred), local_world.stream) == pa.schema(settled)


@pytest.mark.parametrize(("policy", "kind"), [("strict", pa.int32()), ("evolve", pa.int64())])
def test_a_wider_type_stays_where_the_stream_widens_its_table(
    local_world: World, policy: str, kind: pa.DataType
) -> None:
    local_world.options = {"schema_policy": policy}
    local_world.land(NW, pa.table({"n": pa.array([1], pa.int32())}))

    assert as_known(pa.schema({"n": pa.int64()}), local_world.stream) == pa.schema({"n": kind})


def test_a_lake_and_an_output_that_cannot_be_read_leave_columns_as_they_are_inferred(local_world: World) -> None:
    local_world.land(NW, b"no Parquet")
    Path(local_world.catalog["path"]).write_bytes(b"no catalog")

    assert as_known(pa.schema({"total": pa.string()}), local_world.stream) == pa.schema({"total": pa.string()})
