"""What a store answers a task of Spark is the error of a run, as without Spark."""

import re
from collections.abc import Iterator

import pytest

from dev.servers.odd_s3 import OddS3, odd_s3
from lake_assets.base.errors import LakeAssetsError
from lake_assets_tests.storage.test_answers import ANSWERS, KEY, body
from lake_assets_tests.world import NW, World, sales

READ = [case for case, (*_, verbs) in ANSWERS.items() if "GET" in verbs and case != "not there"]


@pytest.fixture
def odd(local_world: World) -> Iterator[OddS3]:
    """The bucket of the world's landing zone, with an object."""
    with odd_s3() as server:
        place, server.region = server.source, "eu-central-1"
        local_world.source = place | {"requests": {"retries": 1, "first_wait": 0.01, "longest_wait": 0.02}}
        server.objects = {KEY.format("a"): body(sales(1))}
        yield server


@pytest.mark.more
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("case", READ)
def test_what_a_store_answers_a_task_is_the_error_of_the_run(odd: OddS3, local_world: World, case: str) -> None:
    status, content, kind, says, _ = ANSWERS[case]
    odd.answers = lambda method, key: (status, content) if method in ("GET", "HEAD") and key else None

    with pytest.raises(LakeAssetsError) as raised:
        local_world.ingest(NW)

    assert isinstance(raised.value, kind), raised.value
    assert re.search(
        says.replace("a was not read", r"a\.parquet was not read").replace("a is", r"a\.parquet is"), str(raised.value)
    )
