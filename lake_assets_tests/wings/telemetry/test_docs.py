"""The page on operation names every metric, step and alert that exists."""

import re
from pathlib import Path
from typing import get_args

from docs.hooks.figures import metrics_table
from lake_assets.orchestration.sensors.alert_sensors import AlertKind
from lake_assets.upkeep.report.metrics import INSTRUMENTS

PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "operate.md").read_text("utf-8")
TABLE = metrics_table()


def test_the_table_of_metrics_is_that_of_the_code() -> None:
    suffixes = {"histogram": "_bucket"}
    rows = [f"| `{m.name}` | `{m.prometheus}{suffixes.get(m.type, '')}`" for m in INSTRUMENTS.values()]

    assert "\n<!-- metrics -->\n" in PAGE
    assert [row for row in rows if row not in TABLE] == []
    assert set(re.findall(r"`(lake_assets\.[a-z.]+)` \|", TABLE)) == set(INSTRUMENTS)


def test_every_metric_that_the_page_names_exists() -> None:
    known = {one.prometheus for one in INSTRUMENTS.values()}
    named = set(re.findall(r"`(lake_assets_[a-z_]+)", PAGE))

    assert {name for name in named if name.removesuffix("_bucket") not in known} == set()


def test_every_alert_has_its_meaning() -> None:
    assert [kind for kind in get_args(AlertKind) if f"| `{kind}` |" not in PAGE] == []
