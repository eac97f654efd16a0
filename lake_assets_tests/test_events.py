"""Events: who gets them, with which fields, and that nothing is logged before somebody asks for it."""

import logging
import threading

import pytest

from lake_assets import events
from lake_assets.events import Event, about, listening, report, step


def test_a_listener_gets_the_events_of_its_block_in_any_thread() -> None:
    found: list[Event] = []
    report("before")
    with listening(found.append):
        threading.Thread(target=report, args=("inside",), kwargs={"rows": 3}).run()
        thread = threading.Thread(target=report, args=("beside",))
        thread.start()
        thread.join()
    report("after")

    assert [(event.event, event.rows) for event in found] == [("inside", 3), ("beside", None)]


def test_fields_of_a_scope_are_those_of_its_events_and_no_others() -> None:
    found: list[Event] = []
    with listening(found.append):
        with about(run="r", stream="s"), about(partition="p"):
            report("one")
            report("two", partition="q")
        report("three")

    assert [(e.run, e.stream, e.partition) for e in found] == [("r", "s", "p"), ("r", "s", "q"), (None, None, None)]


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


def test_fields_are_ordered_and_only_those_that_apply() -> None:
    event = Event(event="step", step="list", rows=0, level=logging.WARNING)

    assert list(event.fields) == ["time", "level", "event", "step", "rows"]
    assert event.fields["level"] == "warning"
    assert str(event.fields["time"]).endswith("Z")
    assert str(event) == "step step=list rows=0"


def test_python_s_logging_gets_events_only_after_its_level_is_set(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger(events.LOGGER)
    report("unheard", level=logging.ERROR)
    try:
        logger.setLevel(logging.WARNING)
        report("too_low")
        report("heard", level=logging.ERROR, rows=1)
        logging.disable()
        report("after_ctrl_c", level=logging.WARNING)
    finally:
        logging.disable(logging.NOTSET)
        logger.setLevel(events.OFF)

    assert [record.getMessage() for record in caplog.records] == ["heard rows=1", "after_ctrl_c"]
