"""The lake that tests of checks share; its ingests run without Spark, for checks look at the lake alone."""

import pytest

from lake_assets_tests.faults.without_spark import sessions
from lake_assets_tests.upkeep.checks.checked import fill
from lake_assets_tests.world import World

__all__ = ["filled", "sessions"]


@pytest.fixture
def filled(local_world: World) -> World:
    return fill(local_world)
