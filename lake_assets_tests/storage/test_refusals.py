"""What the system refuses of a folder is told with the path and how to fix it, and never as a network."""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dev.servers.proxy import Rule, S3Proxy
from lake_assets.base.errors import StorageError, StorageUnreachableError
from lake_assets.config.storages import LocalStorage, S3Storage
from lake_assets.storage.store import Store
from lake_assets_tests.world_fixtures import bucket_on

OBJECT = "region=NW/a.parquet"
NOBODY = 65534


@pytest.fixture
def root() -> Iterator[Path]:
    """A landing zone below folders that every user may enter, as those of pytest are not."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        path = Path(folder, OBJECT)
        path.parent.mkdir()
        path.write_bytes(b"x")
        yield Path(folder)


@contextmanager
def plain_user() -> Iterator[None]:
    """The rights of a user who is not root, to whom nothing is refused."""
    if os.geteuid() != 0:
        yield
        return
    os.setresuid(NOBODY, NOBODY, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


def as_plain_user(verb: Callable[[], object]) -> object:
    with plain_user():
        return verb()


def listed(store: Store) -> object:
    return store.list("region=NW/")


def paged(store: Store) -> object:
    return list(store.pages(tree=True))


def told(root: Path, look: Callable[[Store], object]) -> str:
    with plain_user(), pytest.raises(StorageError) as refused:
        look(Store(LocalStorage(path=str(root))))
    assert not isinstance(refused.value, StorageUnreachableError)
    assert "network" not in str(refused.value)
    assert "key_id" not in str(refused.value)
    return str(refused.value)


def test_an_object_that_cannot_be_read_and_a_folder_that_cannot_be_written_to_are_named(root: Path) -> None:
    (etag,) = (obj.etag for obj in Store(LocalStorage(path=str(root))).list())
    (root / OBJECT).chmod(0)
    text = told(root, lambda store: store.get(OBJECT, etag))
    assert text.startswith(f"{root / OBJECT} refuses access: Permission denied: give the user ")

    (root / "region=NW").chmod(0o555)
    text = told(root, lambda store: store.put_new("region=NW/new.parquet", b"y", multipart_above=10))
    assert text.startswith(f"{root}/region=NW/")
    assert "to write where it writes" in text


@pytest.mark.parametrize("look", [listed, paged, Store.list])
def test_a_folder_that_cannot_be_read_is_named(root: Path, look: Callable[[Store], object]) -> None:
    (root / "region=SW").mkdir()
    (root / "region=SW/a.parquet").write_bytes(b"x")
    # Closed, listed and not entered, and for a listing from far above entered and not listed.
    for mode in (0o000, 0o644, *([0o311] if look is Store.list else [])):
        (root / "region=NW").chmod(mode)

        text = told(root, look)

        assert text.startswith(f"{root / 'region=NW'}")
        assert "refuses access: Permission denied" in text


def test_a_hidden_folder_is_not_opened_nor_one_of_the_file_system(root: Path) -> None:
    for name in ("region=NW/_work", "lost+found"):
        (root / name).mkdir(mode=0o000)
    store = Store(LocalStorage(path=str(root)))

    with plain_user():
        listed, (page,) = store.list(), store.pages(tree=True)

    assert [obj.key for obj in listed] == [obj.key for obj in page] == [OBJECT]


def test_folders_that_lie_before_are_not_opened(root: Path) -> None:
    for day in range(1, 29):
        folder = root / f"date=2026-02-{day:02}"
        folder.mkdir()
        (folder / "a.parquet").write_bytes(b"x")
        folder.chmod(0o000 if day < 27 else 0o755)

    with plain_user():
        pages = list(Store(LocalStorage(path=str(root))).pages(after="date=2026-02-27", tree=True))

    keys = [obj.key for page in pages for obj in page]
    assert keys == ["date=2026-02-27/a.parquet", "date=2026-02-28/a.parquet", OBJECT]


def test_a_prefix_that_a_bucket_refuses_is_named(s3_proxy: S3Proxy) -> None:
    store = Store(S3Storage.model_validate(bucket_on(s3_proxy.s3)))
    prefix = f"{store.storage.prefix}/region=NW/"  # type: ignore[union-attr]
    rule = Rule("status", when=lambda r: r.query.get("prefix", "").startswith(prefix), times=100, status=403)
    s3_proxy.inject(rule)
    looks = (
        lambda: store.list("region=NW/"),
        lambda: list(store.pages("region=NW/")),
        lambda: store.folders("region=NW"),
    )

    for look in looks:
        with pytest.raises(
            StorageError,
            match=rf"^{store.root}/region=NW/? refuses access \(AccessDenied: injected\): grant s3:ListBucket on",
        ):
            look()
    assert store.list("region=SW/") == ()
    s3_proxy.inject(Rule("status", times=100, status=403))
    with pytest.raises(StorageError, match=rf"^{store.root} refuses access"):  # one error for all its folders
        store.list("region=SW/")


@pytest.mark.parametrize("look", [listed, paged])
def test_a_loop_of_links_is_named(root: Path, look: Callable[[Store], object]) -> None:
    for name, target in (("region=NW/b.parquet", "b.parquet"), ("region=NW/in", "../region=NW")):
        link = root / name
        link.symlink_to(target)

        text = told(root, look)

        assert text.startswith(f"{link}")
        assert text.endswith("is a symbolic link that leads back to itself: remove the link, or correct it.")
        link.unlink()
