"""The names of data files."""

import pytest

from lake_assets.parquet.file_names import named_fingerprint, new_name

FINGERPRINT = "0123456789abcdef" * 4


@pytest.mark.parametrize("run_id", ["run", "a/b -fp é", f"x-fp{FINGERPRINT}", f"x-fp{FINGERPRINT}.parquet"])
def test_a_name_has_its_fingerprint(run_id: str) -> None:
    name = new_name(f"{run_id}-0123456789abcdef", FINGERPRINT)
    assert name.startswith(run_id)
    assert named_fingerprint(f"region=NW/{name}") == FINGERPRINT


@pytest.mark.parametrize(
    "name",
    [
        f"run-{FINGERPRINT[:32]}.parquet",  # of earlier versions
        f"{FINGERPRINT}-{FINGERPRINT[:32]}.parquet",
        f"run-fp{FINGERPRINT}-{FINGERPRINT[:32]}.parquet",
        f"run-fp{FINGERPRINT[:-1]}.parquet",
        f"run-fp{FINGERPRINT}.parquet.tmp",
        "ducklake-019c3c5c-6a73-7d2b-a9d5-0d6a8d3f1f8c.parquet",
        f"batch-fp{FINGERPRINT.upper()}.parquet",
    ],
)
def test_other_names_have_none(name: str) -> None:
    assert named_fingerprint(name) is None
    assert named_fingerprint(new_name("run-0123456789abcdef", None)) is None


def test_a_name_that_would_be_too_long_has_none_and_none_is_given_twice() -> None:
    name = new_name("r" * 200, FINGERPRINT)
    assert len(name) < 255
    assert named_fingerprint(name) is None
    assert len({new_name("run", FINGERPRINT) for _ in range(100)}) == 100
