"""Random tables by random writers, modes, strategies and catalogs answer as the landed files do.

`make soak ARGS=lake_assets_tests/differential TABLES=2000 SEED=0` tries many; `TABLES=1 SEED=17` tries one again.
Five in a row have files of all annotations and formats.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lake_assets_tests.differential.answers import differences
from lake_assets_tests.differential.life import Life
from lake_assets_tests.tiers import more, soak
from lake_assets_tests.world_fixtures import database_on

TABLES = int(os.environ.get("LAKE_ASSETS_TABLES", "100"))
FIRST = int(os.environ.get("LAKE_ASSETS_SEED", "0"))
SHARE = 10  # tables of a test
CATALOGS = ["sqlite", "postgres", "sqlite", "duckdb", "sqlite", "postgres", "sqlite", "duckdb", "sqlite", "postgres"]
ON_ONE = 20  # tables one after the other that are on one catalog


def shares() -> Iterator[tuple[range, str]]:
    """The seeds of each test, with the catalog that goes with them."""
    for first in range(FIRST - FIRST % SHARE, FIRST + TABLES, SHARE):
        seeds = range(max(first, FIRST), min(first + SHARE, FIRST + TABLES))
        yield seeds, CATALOGS[first // ON_ONE % len(CATALOGS)]


FEW = [(range(4), "sqlite"), *more([(range(20, 25), "postgres"), (range(60, 62), "duckdb")])]


def name(value: object) -> str:
    return f"{value.start}-{value.stop - 1}" if isinstance(value, range) else str(value)


@pytest.mark.parametrize(("seeds", "catalog"), [*FEW, *soak(shares())], ids=name)
def test_a_random_table_answers_as_the_landed_files(
    request: pytest.FixtureRequest, tmp_path: Path, seeds: range, catalog: str
) -> None:
    wrong, committed = [], 0
    for seed in seeds:
        folder = tmp_path / str(seed)
        folder.mkdir()
        path = {"type": catalog, "path": str(folder / f"catalog.{catalog}")}
        life = Life(seed, folder, database_on(request.getfixturevalue("postgres")) if catalog == "postgres" else path)
        if found := life.run(differences):
            wrong.append("\n".join([life.title, *(f"    {line}" for line in [*life.log, "", *found])]))
        committed += life.commits
    assert not wrong, "TABLES=1 SEED=… tries one again:\n\n" + "\n\n".join(wrong)
    assert committed >= len(seeds) // 2
