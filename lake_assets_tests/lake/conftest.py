"""Catalogs for tests that open lakes of their own. Ingests run without Spark: it does not matter where tasks ran."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lake_assets_tests.faults.without_spark import sessions
from lake_assets_tests.world_fixtures import database_on

__all__ = ["catalog", "sessions"]

_MORE = [
    pytest.param("duckdb", marks=pytest.mark.soak),
    pytest.param("postgres", marks=[pytest.mark.more, pytest.mark.servers]),
]


@pytest.fixture(params=["sqlite", *_MORE])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], dict[str, Any]]:
    """Returns the config of a new catalog by a name; a test may choose the types (`indirect=True`)."""
    if request.param != "postgres":
        return lambda name: {"type": request.param, "path": str(tmp_path / f"{name}.{request.param}")}
    server = request.getfixturevalue("postgres")
    return lambda _: database_on(server)
