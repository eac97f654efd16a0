"""What was requested is requested again until the lake has it, in few runs, and not if its objects are the cause."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import pytest

from lake_assets.config.layout.partition import Partition, PartitionColumn
from lake_assets.streams.detection.requests import CellState, RequestedCells
from lake_assets.streams.detection.run_plan import RunTarget
from lake_assets.streams.pending import FIRST, LONGEST, LOOKED, PartitionVerdict

COLUMNS = (PartitionColumn("region", "string"), PartitionColumn("date", "date"))
NW, SW = (Partition.of(COLUMNS, {"region": region, "date": "2026-02-11"}) for region in ("NW", "SW"))


@dataclass
class Sensor:
    """The requests of a sensor, at ticks, over restarts of what keeps them."""

    text: str = ""
    now: float = 1_000_000.0
    runs: dict[Partition, CellState] = field(default_factory=dict)
    lake: dict[Partition, PartitionVerdict] = field(default_factory=dict)
    looks: int = 0

    def tick(self, *changed: Partition, seconds: float = 5) -> list[Partition]:
        """A tick so many seconds after the last one; returns what is requested."""
        self.now += seconds
        requests = RequestedCells.load(self.text, COLUMNS)
        requests.settle(lambda cell, _: self.runs.get(cell, "none"), self._look, self.now, lambda: False)
        requests.add([RunTarget.of(cell, 1) for cell in changed], lambda _: False, self.now)
        targets = requests.take(self.now)
        requests.note(targets, self.now)
        self.runs |= {target.first: "under way" for target in targets}
        self.text = requests.dump()
        return [target.first for target in targets]

    def _look(self, cells: Collection[Partition]) -> Mapping[Partition, PartitionVerdict]:
        self.looks += 1
        return {cell: self.lake[cell] for cell in cells}

    @property
    def says(self) -> str:
        return RequestedCells.load(self.text, COLUMNS).text(self.now)


def test_a_cell_whose_run_failed_by_what_passes_is_requested_again_with_a_growing_pause_until_the_lake_has_it() -> None:
    sensor = Sensor(lake={NW: "failed", SW: "done"})
    assert sensor.tick(NW, SW) == [NW, SW]
    assert sensor.tick() == []
    sensor.runs = {NW: "failed", SW: "done"}
    pauses = []
    for _ in range(9):
        assert sensor.tick() == []
        assert "1 failed by what passes, and are requested again from " in sensor.says
        pauses.append(5.0)
        while not sensor.tick():
            pauses[-1] += 5
        sensor.runs[NW] = "failed"

    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[1], pauses[-1]) == (FIRST, 2 * FIRST, LONGEST)
    sensor.lake[NW] = "done"
    sensor.tick()
    assert sensor.text == ""


@pytest.mark.parametrize("ended", ["failed", "none"])
def test_a_cell_that_failed_by_its_objects_is_requested_when_they_change_and_not_before(ended: CellState) -> None:
    sensor = Sensor(lake={NW: "blocked"})
    sensor.tick(NW)
    sensor.runs[NW] = ended

    assert [sensor.tick(seconds=FIRST) for _ in range(100)] == [[]] * 100
    assert sensor.says == "1 failed by their objects, and are requested when these change."
    assert sensor.looks < 4
    assert sensor.tick(NW) == [NW]
    sensor.runs[NW] = "done"
    sensor.tick()
    assert sensor.text == ""


def test_of_many_cells_whose_runs_failed_each_is_looked_at_however_little_time_a_tick_has() -> None:
    cells = [Partition.of(COLUMNS, {"region": f"R{number}", "date": "2026-02-11"}) for number in range(10_000)]
    requests, looked = RequestedCells(), list[Partition]()
    requests.add([RunTarget.of(cell, 1) for cell in cells], lambda _: True, 0)

    def look(some: Collection[Partition]) -> Mapping[Partition, PartitionVerdict]:
        looked.extend(some)
        return dict.fromkeys(some, "failed")

    for tick in range(1, 4):
        requests.settle(lambda *_: "failed", look, 0, lambda: True)
        assert looked == cells[: tick * LOOKED]


def test_a_run_that_dagster_tries_again_or_has_yet_to_make_is_waited_for() -> None:
    sensor = Sensor(lake={NW: "failed"})
    sensor.tick(NW)
    sensor.runs = {}
    assert sensor.tick() == []
    assert sensor.looks == 0
    sensor.runs[NW] = "failed"
    sensor.tick()
    sensor.runs[NW] = "under way"
    assert sensor.tick(seconds=LONGEST) == []
    sensor.runs[NW] = "done"
    sensor.tick()
    assert (sensor.text, sensor.looks) == ("", 1)


def test_what_cannot_be_loaded_or_is_of_other_columns_waits_for_nothing() -> None:
    sensor = Sensor()
    sensor.tick(NW)
    assert RequestedCells.load("{}", COLUMNS).dump() == ""
    assert RequestedCells.load(sensor.text, COLUMNS[:1]).dump() == ""
    assert RequestedCells.load(sensor.text, COLUMNS).dump() == sensor.text
