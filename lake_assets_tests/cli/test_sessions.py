"""What Spark logs in a session of the command line."""

from collections.abc import Mapping

import pytest

from lake_assets.cli.sessions import Session
from lake_assets.spark.session import LOG_LEVEL


@pytest.mark.parametrize(
    ("settings", "debug", "level"),
    [
        ({}, False, "OFF"),
        ({}, True, "ERROR"),
        ({LOG_LEVEL: "INFO"}, True, "INFO"),
        ({LOG_LEVEL: "INFO"}, False, "INFO"),
    ],
)
def test_spark_logs_its_errors_with_debug_alone_unless_the_settings_say(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], debug: bool, level: str
) -> None:
    started: list[Mapping[str, str]] = []
    monkeypatch.setattr("lake_assets.spark.session.start_session", started.append)

    Session(settings, debug=debug)()

    assert [conf[LOG_LEVEL] for conf in started] == [level]
