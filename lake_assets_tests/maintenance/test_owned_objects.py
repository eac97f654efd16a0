"""Landed objects: maintenance deletes those that were registered and that the lake owns, and no other."""

from pathlib import Path

import dagster as dg
import pytest

from lake_assets.checks.check_run import checks_of
from lake_assets.ingest.index.index_run import index_all
from lake_assets.ingest.index.verify import repair_indexed
from lake_assets.maintenance.cleaning import KeptObject
from lake_assets.orchestration.build import build_definitions
from lake_assets.orchestration.metadata import markdown
from lake_assets.storage.store import Store
from lake_assets_tests.checks.checked import check
from lake_assets_tests.ingest.index.indexing import strategy
from lake_assets_tests.world import NW, SW, World, sales

__all__ = ["strategy"]

WORLDS = pytest.mark.parametrize(
    "world", [("sqlite", "local"), ("duckdb", "local"), ("postgres", "s3")], indirect=True, ids="-".join
)
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
    body = store.get(registered.key, registered.etag).to_bytes()
    world.unland(NW, "a.parquet")
    assert not repair_indexed(world.stream).errors
    uri = world.land(NW, body, "a.parquet")

    (outcome,) = index_all(world.stream)
    done = world.tidy(30)

    assert f"the object {uri} has landed again after it vanished" in str(outcome.error)
    assert done.cleaned.others == (KeptObject(uri, BACK),)
    assert (done.cleaned.deleted, uri in landed(world)) == ((), True)


def test_checks_pass_after_the_objects_of_a_partition_were_deleted(owner: World) -> None:
    delete_rows(owner)
    owner.tidy(30)

    assert [r for name in checks_of(owner.stream) if not (r := check(owner, name)).passed] == []


@pytest.mark.parametrize("table", ["ingest_files", "ingest_runs"])
def test_an_object_without_a_row_in_ledger_or_manifest_is_kept(owner: World, table: str) -> None:
    before = landed(owner)
    owner.execute(f"DELETE FROM lake.{table}")
    delete_rows(owner)

    done = owner.tidy(30)

    assert {kept.why for kept in done.cleaned.others} == {UNKNOWN}
    assert len(done.cleaned.others) == 2
    assert (landed(owner), done.cleaned.deleted) == (before, ())


def test_an_object_that_another_client_registered_is_kept(owner: World) -> None:
    uri = owner.land(NW, sales(5), "c.parquet")
    owner.execute(f"CALL ducklake_add_data_files('lake', 'sales', '{uri}', hive_partitioning => true)")
    delete_rows(owner)

    done = owner.tidy(30)

    assert done.cleaned.others == (KeptObject(uri, UNKNOWN),)
    assert len(done.cleaned.deleted) == 2


def test_an_object_that_a_later_replacement_read_is_kept(owner: World) -> None:
    """Its rows are then in the lake's own files, and it is their source."""
    owner.options = {}
    owner.ingest(NW, force=True)
    owner.options = {"mode": "index", "owns_source": True}
    before = landed(owner)

    done = owner.tidy(30)

    assert {kept.why for kept in done.cleaned.others} == {UNKNOWN}
    assert (len(done.cleaned.others), done.cleaned.deleted) == (2, ())
    assert landed(owner) == before
    assert owner.totals(NW) == [1, 2, 3]


def test_a_repaired_file_is_deleted_if_it_is_unchanged(owner: World) -> None:
    corrected = owner.land(NW, sales(10, 20, 30), "a.parquet")
    assert not repair_indexed(owner.stream).errors
    delete_rows(owner)

    assert corrected in owner.tidy(30).cleaned.deleted


def test_both_strategies_record_etag_and_size(local_world: World, strategy: str) -> None:
    assert strategy
    owner = owning(local_world)
    delete_rows(owner)
    other = owner.land(NW, sales(7), "a.parquet")

    cleaned = owner.tidy(30).cleaned

    assert (len(cleaned.deleted), cleaned.others) == (1, (KeptObject(other, ANOTHER),))


def test_a_missing_object_is_no_error(owner: World) -> None:
    delete_rows(owner)
    owner.unland(NW, "a.parquet")

    cleaned = owner.tidy(30).cleaned

    assert (len(cleaned.deleted), cleaned.others) == (2, ())


def test_a_landed_object_in_the_tables_own_folder_is_no_orphan(local_world: World) -> None:
    local_world.source = {"type": "local", "path": str(Path(local_world.storage["path"], "main", "sales"))}
    owner = owning(local_world)
    refused = owner.land(NW, b"no Parquet yet", "late.parquet")

    done = owner.tidy(30)

    assert (done.orphans, Path(refused).exists()) == ((), True)
    assert owner.totals() == [1, 1, 2, 2, 3, 3]


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
