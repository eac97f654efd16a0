import dataclasses
import datetime as dt

import pytest

from lake_assets.errors import SourceError
from lake_assets.storage.manifest import LandedObject, Manifest

A = LandedObject("s3://b/a.parquet", "a.parquet", "e1", 10, dt.datetime(2026, 2, 11, tzinfo=dt.UTC))
B = dataclasses.replace(A, uri="s3://b/b.parquet", key="b.parquet")
BASE = Manifest((A, B)).fingerprint("job")


@pytest.mark.parametrize(
    ("objects", "job"),
    [
        ((A,), "job"),
        ((A, dataclasses.replace(B, etag="e2")), "job"),
        ((A, dataclasses.replace(B, size=11)), "job"),
        ((A, dataclasses.replace(B, uri="s3://b/c.parquet")), "job"),
        ((A, B), "another job"),
    ],
    ids=["fewer", "etag", "size", "name", "job"],
)
def test_the_fingerprint_changes_with_objects_and_job(objects: tuple[LandedObject, ...], job: str) -> None:
    assert Manifest(objects).fingerprint(job) != BASE


def test_the_fingerprint_stays_when_only_the_time_changes() -> None:
    touched = dataclasses.replace(A, last_modified=dt.datetime(2027, 1, 1, tzinfo=dt.UTC))

    assert Manifest((touched, B)).fingerprint("job") == BASE


def test_an_empty_object_is_refused_by_name() -> None:
    with pytest.raises(SourceError, match=r"s3://b/a\.parquet is empty \(0 bytes\)"):
        Manifest((dataclasses.replace(A, size=0), B)).check()
