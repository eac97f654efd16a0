"""The lake that tests of checks share."""

import pytest

from lake_assets_tests.checks.checked import fill
from lake_assets_tests.world import World


@pytest.fixture
def filled(local_world: World) -> World:
    return fill(local_world)
