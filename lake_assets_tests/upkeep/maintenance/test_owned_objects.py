"""Landed objects: maintenance deletes those that were registered and that the lake owns, and no other."""

from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest

from lake_assets.ingest.index.index_run import index_all
from lake_assets.ingest.index.verify import repair_indexed
from lake_assets.orchestration.build import build_definitions
from lake_assets.orchestration.metadata import markdown
from lake_assets.storage.store import Store
from lake_assets.upkeep.checks.check_run import checks_of
from lake_assets.upkeep.maintenance.cleaning import KeptObject
from lake_assets_tests.tiers import more
from lake_assets_tests.upkeep.checks.checked import check
from lake_assets_tests.world import NW, SW, World, sales

WORLDS = pytest.mark.parametrize("world", [("sqlite", "local"), *more([(("postgres", "s3"),)])], indirect=True)
ANOTHER = "it is not the object that was registered"
BACK = "it exists again after it vanished and was removed from the table"
UNKNOWN = "it is unknown whether it is the object that was registered"


def owning(world: World) -> World:
    """Two registered objects in each of two partitions."""
    world.options = {"mode": "index", "owns_source": True}
    for text in (NW, SW):
        world.land(text, sales(1, 2), "a.parquet")
        world.land(text, sales(3), "b.parquet")
    assert all(outcome.error is None for outcome in index_all(world.stream))
    return world


@pytest.fixture
def owner(local_world: World) -> World:
    return owning(local_world)


def delete_rows(world: World) -> None:
    """As another client does."""
    world.execute("DELETE FROM lake.sales WHERE region = 'NW'")


def landed(world: World) -> set[str]:
    return {landed.uri for landed in Store(world.config.streams["sales"].source).list(files="*.parquet")}


def test_registered_objects_are_kept_if_the_lake_does_not_own_its_source(local_world: World) -> None:
    local_world.options = {"mode": "index"}
    uri = local_world.land(NW, sales(1, 2))
    local_world.ingest(NW)
    delete_rows(local_world)

    cleaned = local_world.tidy(30).cleaned

    assert (cleaned.deleted, cleaned.kept) == ((), (uri,))
    assert landed(local_world) == {uri}


@pytest.mark.more
@WORLDS
def test_an_object_under_the_name_of_a_registered_one_is_kept(world: World) -> None:
    owning(world)
    delete_rows(world)
    other = world.land(NW, sales(7, 8, 9), "a.parquet")
    before = landed(world)
    world.execute("CALL ducklake_expire_snapshots('lake', older_than => now())")
    registered = other.replace("/a.parquet", "/b.parquet")

    dry = world.tidy(30, dry_run=True)
    assert landed(world) == before
    done = world.tidy(30)

    assert dry.cleaned == done.cleaned
    assert done.cleaned.others == (KeptObject(other, ANOTHER),)
    assert done.cleaned.deleted == (registered,)
    assert landed(world) == before - {registered}
    # Nor will any other client's clean-up delete it: the catalog has forgotten it.
    world.execute("CALL ducklake_cleanup_old_files('lake', cleanup_all => true)")
    assert other in landed(world)
    assert world.tidy(30).cleaned.others == ()
    assert world.totals() == [1, 2, 3]


@WORLDS
def test_an_unchanged_object_that_exists_again_after_a_repair_is_kept(world: World) -> None:
    owning(world)
    store = Store(world.config.streams["sales"].source)
    (registered,) = (stored for stored in store.list() if stored.key.endswith("a.parquet") and "NW" in stored.key)
    body = bytes(store.get(registered.key, registered.etag))
    world.unland(NW, "a.parquet")
    assert not repair_indexed(world.stream).errors
    uri = world.land(NW, body, "a.parquet")

    (outcome,) = index_all(world.stream)
    done = world.tidy(30)

    assert f"the object {uri} has landed again after it vanished" in str(outcome.error)
    assert done.cleaned.others == (KeptObject(uri, BACK),)
    assert (done.cleaned.deleted, uri in landed(world)) == ((), True)


def of_another_client(owner: World) -> None:
    uri = owner.land(NW, sales(5), "c.parquet")
    owner.execute(f"CALL ducklake_add_data_files('lake', 'sales', '{uri}', hive_partitioning => true)")
    delete_rows(owner)


def read_by_a_replacement(owner: World) -> None:
    """Their rows are then in the lake's own files, and they are their source."""
    owner.options = {}
    owner.ingest(NW, force=True)
    owner.options = {"mode": "index", "owns_source": True}


def repaired(owner: World) -> None:
    owner.land(NW, sales(10, 20, 30), "a.parquet")
    assert not repair_indexed(owner.stream).errors
    delete_rows(owner)


def missing(owner: World) -> None:
    delete_rows(owner)
    owner.unland(NW, "a.parquet")


def without_a_row_of(table: str) -> Callable[[World], None]:
    def happens(owner: World) -> None:
        owner.execute(f"DELETE FROM lake.{table}")
        delete_rows(owner)

    return happens


@pytest.mark.parametrize(
    ("happens", "deleted", "kept"),
    [
        pytest.param(without_a_row_of("ingest_files"), 0, [UNKNOWN] * 2, id="without-manifest"),
        pytest.param(without_a_row_of("ingest_runs"), 0, [UNKNOWN] * 2, id="without-ledger"),
        (delete_rows, 2, []),
        *more([(of_another_client, 2, [UNKNOWN]), (read_by_a_replacement, 0, [UNKNOWN] * 2)]),
        *more([(repaired, 2, []), (missing, 2, [])]),
    ],
)
def test_an_ended_object_is_deleted_if_ledger_and_manifest_prove_that_it_is_the_one(
    owner: World, happens: Callable[[World], None], deleted: int, kept: list[str]
) -> None:
    happens(owner)
    before, totals = landed(owner), owner.totals()

    cleaned = owner.tidy(30).cleaned

    assert [other.why for other in cleaned.others] == kept
    assert len(cleaned.deleted) == deleted
    assert landed(owner) == before - set(cleaned.deleted)
    assert owner.totals() == totals
    if happens is delete_rows:
        assert [name for name in checks_of(owner.stream) if not check(owner, name).passed] == []


def test_a_landed_object_in_the_tables_own_folder_is_no_orphan(local_world: World) -> None:
    local_world.source = {"type": "local", "path": str(Path(local_world.storage["path"], "main", "sales"))}
    owner = owning(local_world)
    refused = owner.land(NW, b"no Parquet yet", "late.parquet")

    done = owner.tidy(30)

    assert (done.orphans, Path(refused).exists()) == ((), True)
    assert owner.totals() == [1, 1, 2, 2, 3, 3]


@pytest.mark.more
def test_a_dagster_run_names_kept_objects(owner: World) -> None:
    delete_rows(owner)
    other = owner.land(NW, sales(7), "a.parquet")
    data = owner.config.model_dump(by_alias=True, exclude_unset=True)
    rules = {"expire_older_than": 1e-9, "delete_older_than": 1e-9}
    data["lakes"]["test"]["maintenance"] = rules
    job = build_definitions(type(owner.config).model_validate(data)).resolve_job_def("maintain_test")

    job.execute_in_process()  # the snapshots expire
    done = job.execute_in_process()

    (event,) = [event for event in done.all_events if event.is_successful_output]
    metadata = event.step_output_data.metadata
    assert metadata["objects_kept"].value == 1
    assert metadata["objects_kept_are"] == dg.MarkdownMetadataValue(f"- {markdown(other)}: {ANOTHER}")
    assert Path(other).exists()
