"""`on_bad_object: quarantine`: damaged and misfitting objects are left out, the others are committed."""

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake_assets.base.errors import LakeAssetsError, StorageError
from lake_assets.spark import spark_jobs
from lake_assets.storage.formats.any_format import LandingZone
from lake_assets.upkeep.checks.check_run import checks_of
from lake_assets.upkeep.checks.facts import Scope
from lake_assets.upkeep.report.state import read_stream_state
from lake_assets_tests.ingest.batches import ingest_texts
from lake_assets_tests.tiers import more
from lake_assets_tests.upkeep.checks.checked import by_partition, check
from lake_assets_tests.world import NW, SW, World, sales

GOOD, BAD = "a_good.parquet", "bad.parquet"  # the first object makes the table
WRONG_TYPE = pa.table({"id": pa.array([7], pa.int64()), "total": ["seven"]})
LACKING = pa.table({"id": pa.array([7], pa.int64())})
OTHER_ROWS = sales(7).append_column("region", pa.array(["SW"]))


def spoiled() -> bytes:
    """A Parquet file whose footer is right and whose first page is not."""
    buffer = io.BytesIO()
    pq.write_table(sales(*range(1000)), buffer, compression="zstd", use_dictionary=False)
    body = bytearray(buffer.getvalue())
    body[30:60] = bytes(30)
    return bytes(body)


BADS: dict[str, Any] = {
    "empty": b"",
    "no Parquet": b"x" * 100,
    "a damaged page": spoiled(),
    "another type": WRONG_TYPE,
    "a missing column": LACKING,
    "rows of another partition": OTHER_ROWS,
}


@pytest.fixture
def local(local_world: World) -> World:
    local_world.options = {"on_bad_object": "quarantine"}
    return local_world


def reasons(world: World) -> dict[str, str]:
    """The reasons of all objects in the manifest, by the last part of their names."""
    rows = world.query("SELECT uri, reason FROM lake.ingest_files WHERE reason IS NOT NULL")
    return {uri.rpartition("/")[2]: reason for uri, reason in rows}


def test_a_bad_object_is_left_out_and_the_others_and_other_partitions_are_committed(world: World) -> None:
    world.options = {"on_bad_object": "quarantine"}
    world.land(NW, sales(1, 2), GOOD)
    uri = world.land(NW, b"x" * 100, BAD)
    world.land(SW, sales(3), GOOD)

    outcomes = ingest_texts(world, [NW, SW])

    row = outcomes[NW].row
    assert (row.status, row.row_count, row.files_quarantined, row.source_files) == ("committed", 2, 1, 2)
    assert (outcomes[SW].status, outcomes[SW].row.files_quarantined) == ("committed", 0)
    assert world.totals() == [1, 2, 3]
    assert world.query("SELECT count(*) FROM lake.ingest_files") == [(3,)]
    (reason,) = reasons(world).values()
    assert reason.startswith(f"the object {uri} cannot be read as Parquet: ")
    assert world.ingest(NW).row.status == "skipped"


@pytest.mark.parametrize(
    ("name", "mode"), [("a.parquet", "replace"), ("z.parquet", "append"), *more([("z.parquet", "replace")])]
)
def test_an_object_that_is_left_out_changes_no_column(local: World, name: str, mode: str) -> None:
    local.options |= {"schema_policy": "evolve", "mode": mode}
    local.commit(NW, 1, name="good.parquet")
    columns = [column for column, *_ in local.query("DESCRIBE lake.sales")]
    local.land(NW, WRONG_TYPE.append_column("more", pa.array(["x"])), name)
    local.land(NW, sales(2).append_column("other", pa.array(["y"])), "other.parquet")

    assert local.ingest(NW).row.files_quarantined == 1
    assert [column for column, *_ in local.query("DESCRIBE lake.sales")] == [*columns, "other"]
    assert local.totals() == [1, 2]
    assert list(reasons(local)) == [name]


def test_many_bad_objects_are_found_by_one_more_job(local: World, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs: list[str] = []

    def counted(name: str) -> Callable[..., Any]:
        real: Callable[..., Any] = getattr(spark_jobs, name)

        def run(*args: Any, **options: Any) -> Any:
            jobs.append(name)
            return real(*args, **options)

        return run

    local.commit(NW, 1, name=GOOD)
    for number in range(20):
        local.land(NW, WRONG_TYPE, f"{number}.parquet")
    for name in ("pass_through", "bad_objects"):
        monkeypatch.setattr(spark_jobs, name, counted(name))

    assert local.ingest(NW).row.files_quarantined == 20
    assert jobs == ["pass_through", "bad_objects", "pass_through"]
    local.land(SW, sales(5))
    jobs.clear()
    local.ingest(SW)
    assert jobs == ["pass_through"]


def test_an_object_that_is_repaired_while_the_others_are_read_is_not_left_out(
    local: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    local.land(NW, sales(1), GOOD)
    local.land(NW, WRONG_TYPE, BAD)
    real: Callable[..., Any] = spark_jobs.bad_objects

    def repairing(*args: Any, **options: Any) -> Any:
        found = real(*args, **options)
        local.land(NW, sales(2), BAD)
        return found

    local.commit(SW, 9, name=GOOD)
    monkeypatch.setattr(spark_jobs, "bad_objects", repairing)

    assert local.ingest(NW).row.files_quarantined == 0
    assert local.totals(NW) == [1, 2]


def test_on_empty_keep_tries_a_partition_of_bad_objects_only_in_every_run(local: World) -> None:
    local.options |= {"on_empty": "keep"}
    local.commit(NW, 1, name=BAD)
    local.land(NW, WRONG_TYPE, BAD)

    for _ in range(2):
        result = local.ingest(NW)
        assert (result.row.status, result.row.on_empty, result.row.files_quarantined) == ("skipped", "keep", 1)
        assert "column 'total'" in result.manifest.left_out[f"{local.partition(NW).path}/{BAD}"]
        assert reasons(local) == {}  # nothing was committed, so the manifest has no row of the object
        assert check(local, "quarantine").passed
        assert not check(local, "landing_zone").passed
    assert local.commit(NW, 2, name=BAD).status == "committed"


@pytest.mark.more
def test_a_transform_has_the_rows_of_the_other_objects_and_keeps_an_error_of_its_own(local: World) -> None:
    local.options |= {"transform": {"sql": "SELECT id, total * 10 AS total FROM source"}}
    local.land(NW, sales(1), "a.parquet")
    local.land(NW, WRONG_TYPE, "b.parquet")
    local.land(NW, b"x" * 100, "c.parquet")
    local.land(NW, spoiled(), "d.parquet")

    assert local.ingest(NW).row.files_quarantined == 3
    assert local.totals() == [10]
    local.options |= {"transform": {"sql": "SELECT nothing FROM source"}}
    with pytest.raises(LakeAssetsError, match="nothing"):
        local.ingest(NW)


def test_a_copied_partition_leaves_out_an_object_with_a_wrong_checksum(local: World) -> None:
    local.options |= {"copy": "always", "verify": "pages"}
    rows = pa.table({"id": pa.array(range(3), pa.int64()), "total": np.array([1.5, 2.5, 3.5])})
    buffer = io.BytesIO()
    options: dict[str, Any] = {"compression": "none", "use_dictionary": False, "write_page_checksum": True}
    pq.write_table(rows, buffer, **options)
    body = bytearray(buffer.getvalue())
    place = body.index(np.array([2.5]).tobytes())
    body[place] ^= 1
    local.land(NW, sales(1), GOOD, compression="zstd")
    local.land(NW, bytes(body), BAD)

    assert local.ingest(NW).row.files_quarantined == 1
    assert local.totals() == [1]
    assert list(reasons(local)) == [BAD]


def test_a_landing_zone_that_cannot_be_reached_leaves_nothing_out(
    local: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    local.land(NW, sales(1), GOOD)
    local.land(NW, b"x" * 100, BAD)

    def away(*_: object) -> None:
        raise StorageError("the landing zone is away:", "wait.")

    monkeypatch.setattr(LandingZone, "unreadable", away)

    with pytest.raises(StorageError, match="is away"):
        local.ingest(NW)


@pytest.mark.more
@pytest.mark.parametrize("mode", ["replace", "append"])
def test_checks_and_report_name_the_object_while_it_is_there(local: World, mode: str) -> None:
    local.options |= {"mode": mode}
    for text in (NW, SW):
        local.commit(text, 1, name=GOOD)
    local.land(NW, WRONG_TYPE, BAD)
    local.ingest(NW)
    local.land(NW, sales(2), "more.parquet")
    local.ingest(NW)  # in mode append, a later commit that leaves nothing out
    both = Scope("x", (local.partition(NW), local.partition(SW)))

    for scope in (Scope(), both):
        result = check(local, "quarantine", scope)
        assert (result.passed, dict(result.numbers)) == (False, {"objects": 1, "partitions": 1})
        assert BAD in result.named[0]
        assert all(check(local, name, scope).passed for name in checks_of(local.stream) if name != "quarantine")
    assert by_partition(local, "quarantine", both) == {local.partition(NW): False, local.partition(SW): True}
    (state,) = [p for p in read_stream_state(local.stream).partitions if p.quarantined]
    assert (str(state.partition), state.state, state.rows) == ("region=NW/date=2026-02-11", "committed", 2)

    local.unland(NW, BAD)
    local.ingest(NW)
    assert all(check(local, name, scope).passed for scope in (Scope(), both) for name in checks_of(local.stream))
    assert not read_stream_state(local.stream).quarantined


def test_a_run_that_is_repeated_under_its_id_decides_by_its_last_commit(local: World) -> None:
    local.land(NW, sales(1), GOOD)
    local.land(NW, WRONG_TYPE, BAD)
    local.ingest(NW, run_id="same")
    local.land(NW, sales(2), BAD)
    local.ingest(NW, run_id="same")

    assert check(local, "quarantine").passed
