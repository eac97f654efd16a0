"""Registrations by the direct strategy and by the extension make the same catalog."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lake_assets.lake.commit.direct import register_directly
from lake_assets.lake.commit.extension import register_by_extension
from lake_assets_tests.lake.commit.strategy_pair import NOTHING, StrategyPair, empty_pair, row
from lake_assets_tests.lake.commit.test_differential import agree, catalog

__all__ = ["catalog"]

NULL = "region=__HIVE_DEFAULT_PARTITION__,date=2026-02-12"
ODD = "region=a%2Fb O'Hare,date=2026-02-12"
NW = "region=NW,date=2026-02-11"


@pytest.fixture
def pair(catalog: Callable[[str], dict[str, Any]], tmp_path: Path) -> StrategyPair:
    """Two lakes with an empty table."""
    return empty_pair(catalog, tmp_path)


def both(pair: StrategyPair, files: dict[str, Any]) -> None:
    direct, extension = pair
    ours = direct.register(files, register_directly)
    theirs = extension.register(files, register_by_extension)
    assert [(r.rows_before, r.snapshot_id) for r in ours] == [(r.rows_before, r.snapshot_id) for r in theirs]


def differing(pair: StrategyPair) -> None:
    """The manifests name files of either lake's own folder."""
    for side in pair:
        side.execute("DELETE FROM lake.ingest_files")
    agree(pair)


def test_the_first_files_of_a_table_and_more_of_many_partitions(pair: StrategyPair) -> None:
    both(pair, {NW: [row(1), row(100)], NULL: [row(2), NOTHING], ODD: [row(3)]})
    both(pair, {NW: [row(7)], ODD: [NOTHING]})
    differing(pair)


def test_a_replacement_after_a_registration(pair: StrategyPair) -> None:
    both(pair, {NW: [row(1)], ODD: [row(2)]})
    for side in pair:
        assert side.replace(NW, [row(3)]).rows_before == 1
    both(pair, {NW: [row(4)]})
    differing(pair)
