"""Events, and JSON logs: a line for each event and record, also with line breaks and control characters in values."""

import io
import json
import logging
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from lake_assets.base.events import (
    EVENTS,
    LOGGER,
    OFF,
    Event,
    JsonFormatter,
    line,
    listening,
    report,
    step,
    stop_json,
    write_json,
)

TEXT = 'a\n"b"\x1b[2J\u2028\u202e é'  # UTF-8, because pytest-xdist cannot hand on captured logs with anything else
HOSTILE = f"{TEXT}\udcff"


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """What is written while the log is JSON."""
    stream = io.StringIO()
    handler = write_json(stream)
    yield stream
    stop_json(handler)


def read(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(text) for text in stream.getvalue().split("\n")[:-1]]


def test_a_hostile_value_or_message_stays_in_its_line_and_comes_back_as_it_is() -> None:
    text = line(Event(event="partition", partition=HOSTILE))
    message = JsonFormatter().format(logging.makeLogRecord({"msg": HOSTILE}))

    assert text.isascii()
    assert text.isprintable()
    assert message.isascii()
    assert (json.loads(text)["partition"], json.loads(message)["message"]) == (HOSTILE, HOSTILE)


def test_events_are_lines_in_their_order(log: io.StringIO) -> None:
    report("step", step="list", rows=1, seconds=0.12345678)
    report("run", run="r")

    first, second = read(log)
    expected = {"event": "step", "level": "info", "step": "list", "rows": 1, "seconds": 0.123457}
    assert {name: first[name] for name in expected} == expected
    assert second["run"] == "r"


def test_warnings_and_errors_of_other_loggers_are_lines_too(log: io.StringIO) -> None:
    logger = logging.getLogger("somebody.else")
    logger.error("it failed: %s", TEXT, exc_info=ValueError("no\nline"))
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old", stacklevel=1)

    failed, warned = read(log)
    assert (failed["event"], failed["level"], failed["logger"]) == ("log", "error", "somebody.else")
    assert failed["message"] == f"it failed: {TEXT}"
    assert "ValueError: no\nline" in failed["traceback"]
    assert (warned["logger"], warned["level"]) == ("py.warnings", "warning")
    assert "old" in warned["message"]


def test_nothing_is_written_after_the_end() -> None:
    stream = io.StringIO()
    stop_json(write_json(stream))
    report("step", level=logging.ERROR)
    logging.getLogger("somebody.else").debug("nothing")

    assert stream.getvalue() == ""


def test_a_record_that_tells_several_events_is_several_lines() -> None:
    record = logging.makeLogRecord({"msg": "for people", EVENTS: [Event(event="step"), Event(event="run")]})

    assert [json.loads(text)["event"] for text in JsonFormatter().format(record).split("\n")] == ["step", "run"]


def test_a_record_of_dagster_has_its_run_and_message() -> None:
    meta = {"run_id": "r", "job_name": "j", "step_key": "s", "orig_message": "hello", "dagster_event": None}
    record = logging.makeLogRecord({"msg": "j - r - s - hello", "dagster_meta": meta, EVENTS: []})

    shown = json.loads(JsonFormatter().format(record))
    expected = {"event": "log", "run": "r", "job": "j", "dagster_step": "s", "message": "hello"}
    assert {name: shown[name] for name in expected} == expected


def test_a_step_has_its_seconds_and_figures_and_one_that_fails_the_kind_of_its_error_and_not_its_text() -> None:
    found: list[Event] = []
    with listening(found.append), step("job", partitions=2) as figures:
        figures.update(rows=5, bytes=7)
    with pytest.raises(OSError, match="secret"), listening(found.append), step("job"):
        raise OSError("secret")

    done, failed = found
    assert (done.event, done.step, done.partitions, done.rows, done.bytes) == ("step", "job", 2, 5, 7)
    assert (done.seconds is not None, done.level) == (True, logging.INFO)
    assert (failed.status, failed.kind, failed.level) == ("failed", "OSError", logging.WARNING)
    assert "secret" not in str(failed.fields)


def test_python_s_logging_gets_events_only_after_its_level_is_set(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger(LOGGER)
    report("unheard", level=logging.ERROR)
    try:
        logger.setLevel(logging.WARNING)
        report("too_low")
        report("heard", level=logging.ERROR, rows=1)
        logging.disable()
        report("after_ctrl_c", level=logging.WARNING)
    finally:
        logging.disable(logging.NOTSET)
        logger.setLevel(OFF)

    assert [record.getMessage() for record in caplog.records] == ["heard rows=1", "after_ctrl_c"]
