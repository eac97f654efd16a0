"""A machine that lacks something: what can be found is found, and else the reason is given once and plainly."""

import pwd
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from _pytest.fixtures import FixtureFunctionDefinition

from dev.servers import system_user as room
from dev.servers.absent import absent, started
from dev.servers.azurite import azure
from dev.servers.postgres import postgres, stoppable_postgres
from dev.servers.process import ServerStartError
from dev.servers.s3 import s3
from dev.servers.system_user import SystemUserError, ensure_system_user


@pytest.fixture
def users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine of which this file names the users, and a PATH without the system's own tools."""
    names = tmp_path / "users"
    names.write_text("root\n")

    def getpwnam(name: str) -> str:
        if name not in names.read_text().splitlines():
            raise KeyError(name)
        return name

    monkeypatch.setattr(pwd, "getpwnam", getpwnam)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(room, "SYSTEM_FOLDERS", (str(tmp_path / "sbin"),))
    return names


def useradd(folder: Path, script: str) -> None:
    program = folder / "useradd"
    folder.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def test_useradd_is_found_outside_of_path(users: Path) -> None:
    useradd(users.parent / "sbin", f'echo "$3" >> {users}')

    ensure_system_user()
    ensure_system_user()

    assert users.read_text() == "root\npgserver\n"


def test_another_process_may_add_the_user_at_the_same_moment(users: Path) -> None:
    useradd(users.parent / "sbin", f'echo "$3" >> {users}; echo "useradd: user exists" >&2; exit 9')

    ensure_system_user()

    assert users.read_text() == "root\npgserver\n"


@pytest.mark.parametrize(
    ("script", "told"),
    [(None, "install useradd"), ("echo cannot lock /etc/passwd >&2; exit 1", "says: cannot lock /etc/passwd")],
)
def test_what_cannot_be_added_is_told_with_the_reason(users: Path, script: str | None, told: str) -> None:
    if script:
        useradd(users.parent / "sbin", script)

    with pytest.raises(SystemUserError, match=told):
        ensure_system_user()


def test_what_is_absent_skips_and_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no server here"):
        absent("no server here")

    monkeypatch.setenv("CI", "true")
    with pytest.raises(BaseException, match="no server here; under CI=true") as raised:  # a skip would skip this test
        absent("no server here")
    assert isinstance(raised.value, pytest.fail.Exception)


def _no_ports() -> Iterator[None]:
    raise ServerStartError("weed ended with 1; it said:\nno ports left")


@contextmanager
def broken(*_: object) -> Iterator[None]:
    yield from _no_ports()


def test_a_server_that_does_not_start_skips_with_its_output_and_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with (
        pytest.raises(pytest.skip.Exception, match=r"no S3 server: weed ended with 1(?s:.*)no ports left"),
        started("S3 server", broken()),
    ):
        pass

    monkeypatch.setenv("CI", "true")
    with (
        pytest.raises(BaseException, match="no S3 server: weed ended with 1") as raised,
        started("S3 server", broken()),
    ):
        pass
    assert isinstance(raised.value, pytest.fail.Exception)


@pytest.mark.parametrize(
    ("fixture", "starts", "server"),
    [
        (s3, "s3.seaweedfs", "S3 server"),
        (postgres, "postgres.pgserver", "PostgreSQL"),
        (stoppable_postgres, "postgres.stoppable_pgserver", "PostgreSQL"),
        (azure, "azurite.azurite", "Azure"),
    ],
)
def test_every_server_that_does_not_start_skips(
    monkeypatch: pytest.MonkeyPatch, fixture: FixtureFunctionDefinition, starts: str, server: str
) -> None:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(f"dev.servers.{starts}", broken)
    monkeypatch.setattr(shutil, "which", lambda _: "/bin/azurite-blob")

    with pytest.raises(pytest.skip.Exception, match=f"no {server}: weed ended with 1"):
        next(fixture._get_wrapped_function()())
