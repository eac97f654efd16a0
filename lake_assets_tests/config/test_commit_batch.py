"""What the config says of `commit_batch`, and what it refuses."""

from typing import Any

import pytest
from pydantic import ValidationError

from lake_assets.config.models import LakeConfig

SQLITE = {"catalog": {"type": "sqlite", "path": "c.sqlite"}, "storage": "/lake"}
ENCRYPTED = SQLITE | {"attach_options": {"encrypted": True}}
MANAGED = {"catalog": {"type": "motherduck", "database": "retail"}, "staging": "/staging"}


def config(lake: dict[str, Any], **stream: Any) -> LakeConfig:
    plain = {"source": "/landing", "partitions": {"region": {}}, "destination": {"table": "sales"}}
    return LakeConfig.model_validate({"lakes": {"test": lake}, "streams": {"sales": plain | stream}})


def test_a_partition_is_a_commit_unless_the_config_says_otherwise() -> None:
    assert config(SQLITE).streams["sales"].commit_batch == 1
    assert config(SQLITE, commit_batch=50, mode="append").streams["sales"].commit_batch == 50


@pytest.mark.parametrize(("lake", "kind"), [(ENCRYPTED, "encrypted"), (MANAGED, "managed by MotherDuck")])
def test_a_lake_whose_rows_are_inserted_has_no_batches(lake: dict[str, Any], kind: str) -> None:
    with pytest.raises(ValidationError, match=f"commit_batch: 2, and lake test is {kind}: its rows are written by"):
        config(lake, commit_batch=2)
    assert config(lake, commit_batch=1).streams["sales"].commit_batch == 1


def test_mode_index_has_one_commit_already() -> None:
    with pytest.raises(ValidationError, match="all partitions in one commit already: remove commit_batch"):
        config(SQLITE, mode="index", commit_batch=2)


@pytest.mark.parametrize("number", [0, 201])
def test_a_batch_has_a_size(number: int) -> None:
    with pytest.raises(ValidationError, match="commit_batch"):
        config(SQLITE, commit_batch=number)
