"""Writing to a folder as to a store: whole, and only where the name is free."""

from pathlib import Path

import pytest

from lake_assets.config.storages import LocalStorage
from lake_assets.errors import StorageError
from lake_assets.storage.store import Store

KEY = "region=N%2FA x/date=2026-02-11/a.parquet"


def test_an_object_is_written_once(tmp_path: Path) -> None:
    store = Store(LocalStorage(path=str(tmp_path)))

    assert store.put_new(KEY, b"one", multipart_above=1)
    assert not store.put_new(KEY, b"two", multipart_above=1)
    with pytest.raises(StorageError, match="exists with 3 bytes, and another object of 5 bytes"):
        store.put_new(KEY, b"other", multipart_above=1)

    assert (tmp_path / KEY).read_bytes() == b"one"
    assert [obj.key for obj in store.list()] == [KEY]


def test_nothing_is_left_of_a_write_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "rename", fails)
    with pytest.raises(StorageError, match="No space left"):
        Store(LocalStorage(path=str(tmp_path))).put_new("d/a.parquet", b"one", multipart_above=1)

    assert list((tmp_path / "d").iterdir()) == []


def test_a_root_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="does not exist"):
        Store(LocalStorage(path=str(tmp_path / "absent"))).put_new("a", b"one", multipart_above=1)

    assert not (tmp_path / "absent").exists()
