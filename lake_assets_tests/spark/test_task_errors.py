"""A task reports a permanent error as a row, and fails by a temporary one so that Spark tries it again."""

from typing import NoReturn

import pytest

from lake_assets.errors import LakeAssetsError, StorageError, StorageUnreachableError
from lake_assets.spark.jobs import _reported


def failing(error: LakeAssetsError) -> NoReturn:
    raise error


def test_a_task_whose_storage_fails_fails_so_that_spark_tries_it_again() -> None:
    with pytest.raises(StorageUnreachableError):
        list(_reported(0, lambda: failing(StorageUnreachableError("away."))))


def test_an_error_that_would_come_again_is_reported_by_a_row() -> None:
    (row,) = _reported(3, lambda: failing(StorageError("no such name.")))
    assert row.to_pylist()[0]["partition"] == 3
    assert "no such name." in row.to_pylist()[0]["error"]
