"""Writing to a folder as to a bucket: whole, and only where the name is free."""

from pathlib import Path

import pytest

from lake_assets.config.storages import AnyStorage, LocalStorage
from lake_assets.errors import StorageError
from lake_assets.storage.store import Store

KEY = "region=N%2FA x/date=2026-02-11/a.parquet"


@pytest.mark.parametrize("size", [3, pytest.param(6 * 2**20, id="in parts")])
def test_an_object_is_written_once(storage: AnyStorage, size: int) -> None:
    store = Store(storage)

    assert store.put_new(KEY, b"1" * size, multipart_above=5 * 2**20)
    assert not store.put_new(KEY, b"2" * size, multipart_above=5 * 2**20)
    with pytest.raises(StorageError, match=f"exists with {size} bytes, and another object of {size + 1} bytes"):
        store.put_new(KEY, b"3" * (size + 1), multipart_above=5 * 2**20)

    (obj,) = store.list()
    assert (obj.key, bytes(store.get(obj.key, obj.etag))) == (KEY, b"1" * size)


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
