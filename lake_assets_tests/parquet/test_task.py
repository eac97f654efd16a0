"""A task reports a permanent error, and fails by a temporary one so that Spark tries it again."""

from collections.abc import Iterator

import pytest

from lake_assets.errors import LakeAssetsError, StorageError, StorageUnreachableError
from lake_assets.parquet.job import DataFile
from lake_assets.parquet.task import Report, reported

FILE = DataFile("/lake/a.parquet", 1, 100)


def failing(error: LakeAssetsError) -> Iterator[DataFile]:
    yield FILE
    raise error


def test_a_task_whose_storage_fails_fails_so_that_spark_tries_it_again() -> None:
    with pytest.raises(StorageUnreachableError):
        list(reported(0, failing(StorageUnreachableError("away."))))


def test_an_error_that_would_come_again_is_reported_after_the_files() -> None:
    error = StorageError("no such name.")
    assert list(reported(3, failing(error))) == [Report(3, FILE), Report(3, error=error)]
