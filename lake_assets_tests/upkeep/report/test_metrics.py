"""The gauges of lakes and landing zones, on every catalog."""

import datetime as dt
import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from lake_assets.cli import main
from lake_assets.upkeep.report.metrics import INSTRUMENTS, MetricValue, gauges, prometheus_text
from lake_assets_tests.world import NW, SW, World, sales


def by_name(world: World, hours: float = 0) -> dict[tuple[str, str], float]:
    """The values by metric, and state or nothing."""
    found = gauges(world.config, dt.datetime.now(dt.UTC) + dt.timedelta(hours=hours))
    return {(v.metric.removeprefix("lake_assets."), v.attributes.get("state", "")): v.value for v in found}


def test_the_gauges_of_a_world(world: World) -> None:
    world.options = {"mode": "index"}
    world.land(NW, sales(1), "a.parquet")
    world.land(NW, sales(2), "b.parquet")
    world.ingest(NW)
    world.land(SW, sales(3))

    found = by_name(world, 1)

    assert (found["files", ""], found["partition.files", ""]) == (2, 2)
    assert (found["pending", ""], found["unmatched", ""]) == (1, 0)
    assert found["lag", ""] == pytest.approx(3600, abs=120)
    assert (found["states", "committed"], found["states", "missing"]) == (1, 1)
    with world.reader() as reader:
        ((snapshots,),) = reader.execute("SELECT count(*) FROM ducklake_snapshots('lake')").fetchall()
    assert found["snapshots", ""] == snapshots
    assert found["catalog.size", ""] > 10_000
    assert all(value.metric in INSTRUMENTS for value in gauges(world.config))


def test_a_lake_that_does_not_exist_has_no_figures_and_its_streams_a_lag(local_world: World) -> None:
    uri = local_world.land(NW, sales(1))
    seconds = dt.datetime.now(dt.UTC).timestamp() - 7200
    os.utime(uri, (seconds, seconds))

    found = by_name(local_world)

    assert found["lag", ""] == pytest.approx(7200, abs=60)
    assert not {name for name, _ in found} & {"files", "snapshots", "catalog.size"}


def test_the_text_of_prometheus_has_a_type_for_each_metric() -> None:
    text = prometheus_text(
        [
            MetricValue(metric="lake_assets.lag", stream="sales", value=1.5),
            MetricValue(metric="lake_assets.lag", stream="returns", value=2_000_000.25),
            MetricValue(metric="lake_assets.catalog.size", lake="shop", value=4096),
        ]
    )

    assert text.splitlines()[1:4] == [
        "# TYPE lake_assets_lag_seconds gauge",
        'lake_assets_lag_seconds{stream="sales"} 1.5',
        'lake_assets_lag_seconds{stream="returns"} 2000000.25',
    ]
    assert text.endswith('\nlake_assets_catalog_size_bytes{lake="shop"} 4096\n')


def test_the_command_prints_json(local_world: World, tmp_path: Path) -> None:
    local_world.land(NW, sales(1))
    command = ["--config", str(local_world.config_file(tmp_path)), "metrics", "--format", "json"]

    result = CliRunner().invoke(main, command)

    pending = {"metric": "lake_assets.pending", "stream": "sales", "lake": None, "state": None, "value": 1}
    assert pending in json.loads(result.stdout)
