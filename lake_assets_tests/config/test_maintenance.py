"""The rules of a lake's maintenance."""

from pathlib import Path

import pytest

from lake_assets.config.load import parse_config
from lake_assets.errors import ConfigError

CONFIG = """
lakes:
  l:
    catalog: {type: sqlite, path: c.sqlite}
    storage: data
    maintenance: {RULES}
streams:
  s: {source: landing, partitions: {region: {}}, destination: {table: t}}
"""


def test_there_are_defaults_for_all() -> None:
    rules = parse_config(CONFIG.replace("{RULES}", "{}"), Path("lake.yaml"), {}).lakes["l"].maintenance

    assert rules is not None
    assert (rules.expire_older_than, rules.delete_older_than, rules.orphans_older_than, rules.compact) == (7, 1, 3, 10)


@pytest.mark.parametrize(
    ("rules", "error"),
    [
        ("{expire_older_than: 0}", "maintenance.expire_older_than: must be more than 0: write a greater number"),
        ("{orphans_older_than: 0.1}", "maintenance.orphans_older_than: must be 0.5 or more"),
        ("{compact: 1}", "maintenance.compact: must be 2 or more"),
        ("{time_zone: Mars}", "maintenance.time_zone: there is no time zone 'Mars'"),
        ("{cron: hourly}", "maintenance.cron: 'hourly' is no cron schedule of five fields: write minute, hour"),
        ("{cron: 0 0 30 2 *}", r"maintenance.cron: '0 0 30 2 \*' names a day that does not exist"),
        ("{cron: 0 0 15W * *}", "maintenance.cron: '0 0 15W .* nearest weekday .W., which Dagster does not support"),
        ("{expire_after: 3}", "maintenance.expire_after: unknown key"),
    ],
)
def test_what_would_lose_files_or_makes_no_sense_is_refused(rules: str, error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        parse_config(CONFIG.replace("{RULES}", rules), Path("lake.yaml"), {})
