"""Registrations by the direct strategy and by the extension make the same catalog."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lake_assets.lake.commit.direct import register_directly
from lake_assets.lake.commit.extension import register_by_extension
from lake_assets_tests.lake.commit.test_differential import agree, catalog
from lake_assets_tests.lake.commit.twins import NOTHING, Twins, empty_twins, row

__all__ = ["catalog"]

NULL = "region=__HIVE_DEFAULT_PARTITION__,date=2026-02-12"
ODD = "region=a%2Fb O'Hare,date=2026-02-12"
NW = "region=NW,date=2026-02-11"


@pytest.fixture
def twins(catalog: Callable[[str], dict[str, Any]], tmp_path: Path) -> Twins:
    """Two lakes with an empty table."""
    return empty_twins(catalog, tmp_path)


def both(twins: Twins, files: dict[str, Any]) -> None:
    direct, extension = twins
    ours = direct.register(files, register_directly)
    theirs = extension.register(files, register_by_extension)
    assert [(r.rows_before, r.snapshot_id) for r in ours] == [(r.rows_before, r.snapshot_id) for r in theirs]


def differing(twins: Twins) -> None:
    """The manifests name files of either lake's own folder."""
    for twin in twins:
        twin.execute("DELETE FROM lake.ingest_files")
    agree(twins)


def test_the_first_files_of_a_table_and_more_of_many_partitions(twins: Twins) -> None:
    both(twins, {NW: [row(1), row(100)], NULL: [row(2), NOTHING], ODD: [row(3)]})
    both(twins, {NW: [row(7)], ODD: [NOTHING]})
    differing(twins)


def test_a_replacement_after_a_registration(twins: Twins) -> None:
    both(twins, {NW: [row(1)], ODD: [row(2)]})
    for twin in twins:
        assert twin.replace(NW, [row(3)]).rows_before == 1
    both(twins, {NW: [row(4)]})
    differing(twins)
