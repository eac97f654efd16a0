"""The daemon of Spark's Python workers: a worker whose connection the JVM closes ends quietly."""

import socket

import pytest

from lake_assets.spark import daemon


def failing(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> int:
    def worker(*_: object) -> int:
        raise error

    monkeypatch.setattr(daemon, "_worker", worker)
    with socket.socket() as sock:
        return daemon.worker(sock, authenticated=True)


@pytest.mark.parametrize("error", [ConnectionResetError(), BrokenPipeError(), EOFError()])
def test_a_worker_whose_connection_is_closed_ends_without_an_error(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    assert failing(error, monkeypatch) == 1


def test_any_other_error_of_a_worker_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ZeroDivisionError):
        failing(ZeroDivisionError(), monkeypatch)
