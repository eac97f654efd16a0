"""The dry run takes the same decision as ingest, and writes nothing."""

import os

import pytest

from lake_assets.ingest.stream_plan import plan
from lake_assets_tests.world import NW, World, sales


def test_a_plan_is_what_ingest_then_does_and_writes_nothing(local_world: World) -> None:
    local_world.land(NW, sales(1, 2))
    before = plan(local_world.stream, local_world.partition(NW))
    assert not local_world.data_files()
    assert (before.action, before.table_exists, before.rows_before) == ("replace the partition", False, 0)

    result = local_world.ingest(NW)

    assert before.rows_after == result.row.row_count
    assert result.manifest == before.manifest
    assert result.row.source_fingerprint == before.fingerprint
    assert result.row.files_written == before.files_written
    assert result.destination == before.destination
    after = plan(local_world.stream, local_world.partition(NW))
    assert after.action.startswith("skip")
    assert (after.rows_before, after.rows_after) == (2, None)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({}, 3),
        ({"transform": {"sql": "select * from source"}}, "the stream has a transform"),
        ({"mode": "index"}, 3),
    ],
)
def test_a_plan_says_how_many_rows_there_will_be_where_footers_tell(
    local_world: World, options: dict[str, object], why: int | str
) -> None:
    local_world.options = options
    local_world.land(NW, sales(1, 2))
    local_world.land(NW, sales(3), "batch_2.parquet")

    assert plan(local_world.stream, local_world.partition(NW)).rows_after == why


def test_a_plan_of_a_damaged_object_says_which(local_world: World) -> None:
    uri = local_world.land(NW, b"no parquet")

    assert (
        f"fail: the object {uri} cannot be read as Parquet"
        in plan(local_world.stream, local_world.partition(NW)).action
    )


def test_a_plan_clears_no_table_that_is_not_there(local_world: World) -> None:
    local_world.options["on_empty"] = "clear"
    local_world.landing  # noqa: B018 - makes the folder

    assert plan(local_world.stream, local_world.partition(NW)).action.startswith("skip")
    assert local_world.ingest(NW).row.status == "skipped"


def test_a_plan_estimates_the_files_for_all_cores(local_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    local_world.options = {"on_bad_object": "quarantine"}
    for number in range(4):
        os.truncate(local_world.land(NW, b"no parquet", f"{number}.parquet"), 25 * 2**20)
    for cores, files in ((1, 1), (4, 4), (64, 12)):
        monkeypatch.setattr("os.cpu_count", lambda cores=cores: cores)
        assert plan(local_world.stream, local_world.partition(NW)).files_written == files
