"""The benchmark beside peers, with fake peers. `make bench-peers` runs the real ones."""

import re
import sys
from pathlib import Path

import pytest

from dev.benchmarks.peers.__main__ import PARTS, _taking_part
from dev.benchmarks.peers.bench import Bench, local_places
from dev.benchmarks.peers.catalogue import COPIED, LOCKS, PEERS
from dev.benchmarks.peers.compare import Landed
from dev.benchmarks.peers.growth import backfill, files
from dev.benchmarks.peers.process import Command, PeerFailedError, PeerProcess
from dev.benchmarks.peers.readers import readers
from dev.benchmarks.peers.refresh import refresh
from dev.benchmarks.peers.results import Backfill, Failure, ManyFiles, Readers, Refresh, Writers
from dev.benchmarks.peers.scripts.ours import Ours
from dev.benchmarks.peers.serve import Place
from dev.benchmarks.peers.writers import writers

pytestmark = pytest.mark.long

FAKE = "dev.benchmarks.peers.fake_peer"


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


def placed(tmp_path: Path, wrong: str, limit: float = 600) -> PeerProcess:
    """A peer to which one partition has been given."""
    peer = PeerProcess(command(wrong), tmp_path / "work", tmp_path / "log", limit=limit)
    (tmp_path / "region=NW").mkdir()
    (tmp_path / "region=NW" / "a.parquet").write_bytes(b"x")
    places = {"landing": str(tmp_path), "folder": str(tmp_path / "work"), "data": str(tmp_path / "work"), "catalog": ""}
    peer.call("place", 60, columns={"region": "string"}, **places)
    return peer


def test_the_places_of_this_package_are_its_config(tmp_path: Path) -> None:
    landed = Landed(tmp_path / "landing", {"region": "string", "date": "date"})
    place = Place(folder=tmp_path, columns=landed.columns, **local_places(landed, tmp_path))
    stream = Ours(place)._stream(place.landing)

    assert stream.lake_config.catalog.model_dump()["path"] == f"{tmp_path}/catalog.sqlite"
    assert stream.config.source.root == f"{tmp_path}/landing"


def test_a_peer_that_hangs_is_ended(tmp_path: Path) -> None:
    peer = placed(tmp_path, "hangs")
    with pytest.raises(PeerFailedError, match="no reply to refresh within 1 s"):
        peer.call("refresh", 1, partition={"region": "NW"})
    peer.close()


def test_a_peer_whose_time_is_over_is_ended_and_fails_in_every_later_call(tmp_path: Path) -> None:
    peer = placed(tmp_path, "hangs", limit=3)
    with pytest.raises(PeerFailedError, match="its 3 s were over in refresh"):
        peer.call("refresh", 60, partition={"region": "NW"})
    with pytest.raises(PeerFailedError, match="its 3 s were over before count"):
        peer.call("count", 60, partition={"region": "NW"})
    peer.close()


def test_copied_objects_take_part_in_refreshes_of_one_partition_only() -> None:
    parts = {part: _taking_part(part, PEERS) for part in PARTS}

    assert {part for part, names in parts.items() if COPIED in names} == {"small", "big"}
    assert all(set(PEERS) - {COPIED} <= set(names) for names in parts.values())


def test_an_operation_that_a_peer_lacks_is_no_error(tmp_path: Path) -> None:
    peer = placed(tmp_path, "one by one")
    with pytest.raises(PeerFailedError, match="it has no commit of many partitions") as caught:
        peer.call("refresh_all", 60, partitions=[], how="whole")
    peer.close()
    assert caught.value.cannot


def test_writers_are_counted_with_what_they_lost(tmp_path: Path) -> None:
    peers = {"right": "", "loses": "loses a row"}

    found = writers(bench(tmp_path, **peers), list(peers), rounds=1, count=2)

    right, loses = (found[name] for name in peers)
    assert isinstance(right, Writers)
    assert (right.committed, right.retries, right.refused, right.difference) == (4, 0, 0, None)
    assert isinstance(loses, Writers)
    assert loses.committed == 4
    assert loses.difference is not None
    assert "15,000 rows landed, 14,997 in the table" in loses.difference


def test_refused_writers_are_repeated_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The refusals begin after the table was made."""
    monkeypatch.setattr("dev.benchmarks.peers.writers.TRIES", 3)
    peers = {"now and then": "refuses every other time", "always": "refuses after the first time"}

    found = writers(bench(tmp_path, **peers), list(peers), rounds=1, count=2)

    some, always = (found[name] for name in peers)
    assert isinstance(some, Writers)
    assert (some.committed, some.refused) == (4, 0)
    assert some.errors == {"RuntimeError: a conflict": some.retries}
    assert some.retries >= 2
    assert isinstance(always, Writers)
    assert always.committed == 0
    assert always.refused == 4
    assert always.difference is not None


def test_a_reader_sees_the_states_between_the_old_and_the_new_partition(tmp_path: Path) -> None:
    """The fake peer removes the partition's files and copies the new ones one by one."""
    found = readers(bench(tmp_path, gaps=""), ["gaps"], 1.0)["gaps"]

    assert isinstance(found, Readers)
    assert found.refreshes > 1
    assert 0 < found.others < found.reads
    assert all(int(count) % 1000 == 0 and int(count) < 20_000 for count in found.counts)


def test_a_table_of_many_files_and_a_backfill_are_measured_and_compared(tmp_path: Path) -> None:
    peers = {"right": "", "one by one": "one by one", "loses": "loses a row"}
    tried = bench(tmp_path, **peers)

    many = files(tried, list(peers), 30, 1, 1)
    year = backfill(tried, list(peers), 2, 10)

    assert isinstance(many["right"], ManyFiles)
    assert len(many["right"].few.wall) == len(many["right"].many.wall) == 1
    assert isinstance(year["right"], Backfill)
    assert (year["right"].partitions, year["right"].each) == (6, 6)
    assert year["right"].at_once is not None
    assert isinstance(year["one by one"], Backfill)
    assert year["one by one"].why_not == "it has no commit of many partitions"
    for found in (many["loses"], year["loses"]):
        assert isinstance(found, Failure)
        assert found.error.startswith("other rows than landed: ")


def test_processor_time_is_that_of_the_process_tree(tmp_path: Path) -> None:
    peer = placed(tmp_path, "works")
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
        assert not re.search(r"^-", text, re.MULTILINE)  # options of pip, such as where packages are


def test_the_peers_on_ducklake_have_the_duckdb_of_this_package() -> None:
    ours = (LOCKS.parents[3] / "requirements.lock").read_text(encoding="utf-8")
    (version,) = re.findall(r"^duckdb==(\S+)", ours, re.MULTILINE)

    for name in ("duckdb", "dlt"):
        assert re.findall(r"^duckdb==(\S+)", (LOCKS / f"{name}.lock").read_text("utf-8"), re.MULTILINE) == [version]
