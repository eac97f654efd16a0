"""Encrypted lakes for tests, and checks of every stored byte."""

import random
import string
from collections.abc import Iterator
from typing import NoReturn

import pyarrow as pa
import pytest

from lake_assets.storage.store import Store
from lake_assets_tests.world import World

NULL = "region=__HIVE_DEFAULT_PARTITION__,date=2026-02-11"
ODD = "region=O'Hare %2F x,date=2026-02-11"
ENCRYPTED = {"attach_options": {"encrypted": True}}


@pytest.fixture
def encrypted(world: World) -> World:
    world.lake_options = ENCRYPTED
    return world


@pytest.fixture
def local_encrypted(local_world: World) -> World:
    local_world.lake_options = ENCRYPTED
    return local_world


def telling(rows: int, seed: int = 1) -> pa.Table:
    """Rows with random texts, which any unencrypted file contains as they are, compressed or not."""
    chosen = random.Random(seed)
    texts = ["".join(chosen.choices(string.ascii_letters, k=40)) for _ in range(rows)]
    return pa.table({"id": range(rows), "total": [float(n) for n in range(rows)], "text": texts})


def stored(world: World) -> Iterator[tuple[str, bytes]]:
    """Every object below the lake's storage, hidden ones too, and its bytes."""
    storage = world.config.lakes["test"].own_storage
    for page in Store(storage).pages(tree=True):
        for item in page:
            with Store(storage).open(item.key) as file:
                yield item.key, file.read()


def staged(world: World) -> list[str]:
    return [key for key, _ in stored(world) if "_staging" in key]


def assert_secret(world: World, *tables: pa.Table) -> None:
    """No file can be read without its key, and none has a value of these rows, were it compressed or not."""
    texts = [text.encode() for table in tables for text in table["text"].to_pylist()]
    for key, body in stored(world):
        assert body[:4] == body[-4:] == b"PARE", key
        assert not any(text in body for text in texts), key


def rows_of(world: World) -> list[tuple[object, ...]]:
    return world.query("SELECT id, total, text, region, date::VARCHAR FROM lake.sales ORDER BY region, id")


def nobody() -> NoReturn:
    pytest.fail("Spark was asked for")
