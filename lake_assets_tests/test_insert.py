"""Encrypted lakes, which take rows by INSERT: the same promises as elsewhere, and no plaintext in any storage."""

import random
import string
from collections.abc import Iterator

import pyarrow as pa
import pytest

from lake_assets.ingest import ingest_all
from lake_assets.storage.arrow import ArrowStore
from lake_assets.storage.store import Store
from lake_assets_tests.world import NW, SW, World, sales

NULL = "region=__HIVE_DEFAULT_PARTITION__,date=2026-02-11"
ODD = "region=O'Hare %2F x,date=2026-02-11"
ENCRYPTED = {"attach_options": {"encrypted": True}}
# Each catalog and each storage; what is told apart by catalog does not depend on the storage.
COMBINATIONS = [("sqlite", "local"), ("duckdb", "local"), ("postgres", "s3"), ("sqlite", "s3")]

everywhere = pytest.mark.parametrize("world", COMBINATIONS, indirect=True, ids="-".join)


@pytest.fixture
def encrypted(world: World) -> World:
    world.lake_options = ENCRYPTED
    return world


@pytest.fixture
def local_encrypted(local_world: World) -> World:
    local_world.lake_options = ENCRYPTED
    return local_world


def telling(rows: int, seed: int = 1) -> pa.Table:
    """Rows whose texts stand in any plain file that has them, compressed or not: they are random."""
    chosen = random.Random(seed)
    texts = ["".join(chosen.choices(string.ascii_letters, k=40)) for _ in range(rows)]
    return pa.table({"id": range(rows), "total": [float(n) for n in range(rows)], "text": texts})


def stored(world: World) -> Iterator[tuple[str, bytes]]:
    """Every object below the lake's storage, hidden ones too, and its bytes."""
    storage = world.config.lakes["test"].own_storage
    for page in Store(storage).pages(tree=True):
        for o in page:
            with ArrowStore(storage).open(o.key) as file:
                yield o.key, file.read()


def staged(world: World) -> list[str]:
    return [key for key, _ in stored(world) if "_staging" in key]


def assert_secret(world: World, *tables: pa.Table) -> None:
    """No file can be read without its key, and none has a value of these rows."""
    texts = [text.encode() for table in tables for text in table["text"].to_pylist()]
    for key, body in stored(world):
        assert body[:4] == body[-4:] == b"PARE", key
        assert not any(text in body for text in texts), key


def rows_of(world: World) -> list[tuple[object, ...]]:
    return world.query("SELECT id, total, text, region, date::VARCHAR FROM lake.sales ORDER BY region, id")


@everywhere
def test_the_rows_are_the_sources_and_no_file_can_be_read_without_its_key(encrypted: World) -> None:
    first, second = telling(1000), telling(500, seed=2)
    encrypted.land(NW, first)
    encrypted.land(SW, second)

    row = encrypted.ingest(NW).row
    encrypted.ingest(SW)

    expected = [
        (*values, region, "2026-02-11")
        for region, table in (("NW", first), ("SW", second))
        for values in zip(*table.to_pydict().values(), strict=True)
    ]
    assert rows_of(encrypted) == expected
    assert_secret(encrypted, first, second)
    assert staged(encrypted) == []
    files = {key: len(body) for key, body in stored(encrypted)}
    assert (row.row_count, row.rows_before, row.files_written) == (1000, 0, 1)
    assert row.bytes_written in files.values()
    assert len(files) == 2


def test_the_reader_of_the_test_would_find_what_is_not_encrypted(local_world: World) -> None:
    table = telling(1000)
    local_world.land(NW, table)
    local_world.ingest(NW)

    ((key, body),) = stored(local_world)

    assert body[:4] == b"PAR1"
    assert any(text.encode() in body for text in table["text"].to_pylist()), key


@everywhere
def test_replaced_skipped_and_forced(encrypted: World) -> None:
    encrypted.land(NW, sales(1, 2))
    encrypted.ingest(NW)
    assert encrypted.ingest(NW).row.status == "skipped"
    forced = encrypted.ingest(NW, force=True).row
    encrypted.land(NW, sales(3), "batch_2.parquet")

    row = encrypted.ingest(NW).row

    assert (forced.status, forced.rows_before) == ("committed", 2)
    assert (row.status, row.rows_before, row.row_count) == ("committed", 2, 3)
    assert encrypted.totals() == [1, 2, 3]
    named = encrypted.query(
        "SELECT r.run_id, s.snapshot_id FROM lake.snapshots() s "
        "JOIN lake.ingest_runs r ON s.commit_message LIKE '%' || r.run_id AND r.status = 'committed'"
    )
    assert dict(named) == {r.run_id: r.snapshot_id for r in encrypted.ledger() if r.status == "committed"}


@everywhere
def test_a_range_with_null_odd_values_and_a_bad_one(encrypted: World) -> None:
    good = (NW, NULL, ODD)
    for text in good:
        encrypted.land(text, sales(1, 2))
    encrypted.land(SW, b"no parquet")
    partitions = [encrypted.partition(text) for text in (*good, SW)]

    outcomes = {o.partition: o for o in ingest_all(encrypted.stream, partitions, encrypted.sessions)}

    assert [outcomes[p].error is None for p in partitions] == [True, True, True, False]
    for text in good:
        assert encrypted.totals(text) == [1, 2]
    assert encrypted.query("SELECT DISTINCT region FROM lake.sales ORDER BY 1 NULLS LAST") == [
        ("NW",),
        ("O'Hare / x",),
        (None,),
    ]
    assert staged(encrypted) == []
    assert outcomes[partitions[-1]].error is not None
    assert [r.status for r in encrypted.ledger(SW)] == ["failed"]
