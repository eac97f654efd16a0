"""The benchmark beside peers, with fake peers. `make bench-peers` runs the real ones."""

import re
import sys
from pathlib import Path

import pytest

from lake_assets_tests.benchmarks.peers.bench import Bench
from lake_assets_tests.benchmarks.peers.catalogue import LOCKS, PEERS
from lake_assets_tests.benchmarks.peers.process import Command, PeerFailedError, PeerProcess
from lake_assets_tests.benchmarks.peers.refresh import refresh
from lake_assets_tests.benchmarks.peers.results import Failure, Refresh

FAKE = "lake_assets_tests.benchmarks.peers.fake_peer"


def command(wrong: str = "") -> Command:
    return Command(Path(sys.executable), FAKE, {"FAKE_PEER": wrong})


def bench(tmp_path: Path, **wrong: str) -> Bench:
    return Bench(tmp_path, {name: command(how) for name, how in wrong.items()}, lambda _: None)


@pytest.fixture
def shown(tmp_path: Path) -> dict[str, Refresh | Failure]:
    peers = {
        "right": "",
        "loses": "loses a row",
        "doubles": "doubles a row",
        "changes": "changes a value",
        "refuses": "refuses",
        "ends": "ends",
    }
    return dict(refresh(bench(tmp_path, **peers), "small", list(peers), 2, 50, 2))


def test_each_peer_is_measured_or_has_a_failure_in_its_own_words(shown: dict[str, Refresh | Failure]) -> None:
    right = shown.pop("right")
    errors = {name: found.error for name, found in shown.items() if isinstance(found, Failure)}

    assert isinstance(right, Refresh)
    assert len(right.wall) == len(right.processor) == 2
    assert right.memory is not None
    assert right.memory > 10
    assert set(errors) == set(shown)
    assert errors["refuses"] == "RuntimeError: not today"
    assert errors["ends"] == "the process ended in refresh: out of memory"
    # Ten partitions, and each has lost or doubled a row.
    assert "9,100 rows landed, 9,090 in the table" in errors["loses"]
    assert "landed only: (" in errors["loses"]
    assert "9,100 rows landed, 9,100 in the table; values differ in transaction_id" in errors["doubles"]
    assert "; values differ in city; landed only" in errors["changes"]


def test_a_peer_that_hangs_is_ended(tmp_path: Path) -> None:
    peer = PeerProcess(command("hangs"), tmp_path / "work", tmp_path / "log")
    (tmp_path / "region=NW").mkdir()
    (tmp_path / "region=NW" / "a.parquet").write_bytes(b"x")
    peer.call("place", 60, landing=str(tmp_path), folder=str(tmp_path / "work"), columns={"region": "string"})

    with pytest.raises(PeerFailedError, match="no reply to refresh within 1 s"):
        peer.call("refresh", 1, partition={"region": "NW"})
    peer.close()


def test_an_operation_that_a_peer_lacks_is_no_error(tmp_path: Path) -> None:
    peer = PeerProcess(command(), tmp_path / "work", tmp_path / "log")
    peer.call("place", 60, landing=str(tmp_path), folder=str(tmp_path / "work"), columns={})

    with pytest.raises(PeerFailedError, match="it has no commit of many partitions") as caught:
        peer.call("refresh_all", 60)
    peer.close()
    assert caught.value.cannot


def test_processor_time_is_that_of_the_process_tree(tmp_path: Path) -> None:
    peer = PeerProcess(command("works"), tmp_path / "work", tmp_path / "log")
    (tmp_path / "region=NW").mkdir()
    (tmp_path / "region=NW" / "a.parquet").write_bytes(b"x")
    peer.call("place", 60, landing=str(tmp_path), folder=str(tmp_path / "work"), columns={"region": "string"})
    before = peer.processor_seconds()
    peer.call("refresh", 60, partition={"region": "NW"})

    assert peer.processor_seconds() - before >= 0.28
    peer.close()


def test_every_peer_has_a_lock_file_with_hashes_and_without_addresses() -> None:
    locks = {kind.lock for kind in PEERS.values() if kind.lock}
    assert locks == set(LOCKS.glob("*.lock"))
    for lock in locks:
        text = lock.read_text(encoding="utf-8")
        requirements = re.split(r"\n(?=\S)", text.strip())

        assert [
            one for one in requirements if not re.match(r"[\w.\[\], -]+==\S+.*--hash=sha256:", one, re.DOTALL)
        ] == []
        assert "://" not in text
        assert "index-url" not in text
        assert "find-links" not in text


def test_the_peers_on_ducklake_have_the_duckdb_of_this_package() -> None:
    ours = (LOCKS.parents[3] / "requirements.lock").read_text(encoding="utf-8")
    (version,) = re.findall(r"^duckdb==(\S+)", ours, re.MULTILINE)

    for name in ("duckdb", "dlt"):
        assert re.findall(r"^duckdb==(\S+)", (LOCKS / f"{name}.lock").read_text("utf-8"), re.MULTILINE) == [version]
