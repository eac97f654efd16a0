"""What a driver reports arrives as it was, through JSON."""

import json
import logging
from dataclasses import replace

import pyarrow as pa
import pytest

from lake_assets.base import errors
from lake_assets.base.errors import LakeAssetsError, SchemaDriftError, StorageUnreachableError
from lake_assets.base.events import Event
from lake_assets.config.layout.partition import Partition, PartitionColumn
from lake_assets.ingest.outcome import Outcome, error_text
from lake_assets.lake.catalog.preview import PartitionView
from lake_assets.lake.commit.deltas import DeltaFile
from lake_assets.lake.ledger.tables import LedgerRow
from lake_assets.lake.table_setup import ColumnChange
from lake_assets.spark.task.job import LetterFile
from lake_assets.storage.manifest import LandedObject, Manifest
from lake_assets.wings.launch.pipes import Ended, Received
from lake_assets.wings.launch.request import DriverTracebackError, End, message_of, report_of
from lake_assets_tests.wings.launch.undone import NOW, undone

COLUMNS = (PartitionColumn("region", "string"),)
NW, SW = (Partition(COLUMNS, (region,)) for region in ("N/W é\u2028%", None))
(UNDONE,) = undone(SW)
ROW = LedgerRow(
    run_id="r", run_at=NOW, stream="sales", source_glob="g", destination_table="t", partition_columns="region",
    load_partition=NW.path, mode="replace", status="committed", row_count=3, rows_before=0, snapshot_id=7,
    started_at=NOW, finished_at=NOW, hold="held", error=None,
)  # fmt: skip
RESULT = Outcome(
    partition=NW,
    row=ROW,
    manifest=Manifest((LandedObject("s3://b/\udcff", "\udcff", "1-2", 5, NOW),), {"\udcff": "it is damaged"}),
    destination="file:/lake",
    schema=pa.schema([("id", pa.int64()), pa.field("at", pa.timestamp("us", "UTC"), nullable=False)]),
    seconds={"list": 0.25, "commit": 1.5},
    changes=(ColumnChange(("a", "b"), "BIGINT", None),),
    note="release it",
    not_copied={"a": "INT96"},
    letters=(LetterFile("s3://a", "s3://b", 2, 100, "no region"),),
    deltas=[DeltaFile("s3://c", 1, 0, 50)],
)
VIEW = PartitionView((("id", "BIGINT"), ("total", "DOUBLE")), 3, (("1", None), ("2", "x")))


def sent(report: Outcome | End | Event) -> Outcome | End | Event:
    """The report after its way through a file of messages."""
    return report_of(json.loads(json.dumps(message_of(report))), {p.path: p for p in (NW, SW)})


def error_of(error: Exception) -> Exception:
    """The error of an outcome, as the launcher has it."""
    report = sent(replace(UNDONE, error=error))
    assert isinstance(report, Outcome)
    assert report.error is not None
    return report.error


@pytest.mark.parametrize(
    "report",
    [
        replace(RESULT, view=VIEW),
        replace(RESULT, deltas=None, letters=(), changes=(), view=replace(VIEW, preview=None)),
        RESULT,
        replace(RESULT, manifest=Manifest(()), has_listing=False),
        UNDONE,
        End(),
        End(is_cancelled=True),
        Event(
            event="task",
            time=NOW.replace(microsecond=5000),
            level=logging.DEBUG,
            run="r",
            host="node-7",
            seconds=0.25,
            rows=5,
        ),
    ],
)
def test_a_report_arrives_as_it_was(report: Outcome | End | Event) -> None:
    assert sent(report) == report


def test_each_error_of_the_package_keeps_its_class_text_and_notes() -> None:
    kinds = [value for value in vars(errors).values() if isinstance(value, type)]
    classes = [kind for kind in kinds if issubclass(kind, LakeAssetsError)]
    assert StorageUnreachableError in classes
    assert SchemaDriftError in classes
    for cls in classes:
        error = cls("the object a\tb is gone:", "land it again.")
        error.add_note("No ledger row could be written.")
        arrived = error_of(error)
        assert type(arrived) is cls
        assert (str(arrived), arrived.__notes__) == (str(error), error.__notes__)


def test_an_error_of_another_module_of_the_package_arrives_as_one_of_the_package() -> None:
    class OtherError(LakeAssetsError):
        pass

    arrived = error_of(OtherError("a:", "b."))
    assert type(arrived) is LakeAssetsError
    assert str(arrived) == "a: b."


def test_a_bug_arrives_with_its_name_its_text_and_its_traceback() -> None:
    def broken() -> None:
        raise ZeroDivisionError("division by zero")

    with pytest.raises(ZeroDivisionError) as raised:
        broken()
    arrived = error_of(raised.value)

    assert not isinstance(arrived, LakeAssetsError)
    assert error_text(arrived) == error_text(raised.value) == "ZeroDivisionError: division by zero"
    assert isinstance(arrived.__cause__, DriverTracebackError)
    assert "in broken" in str(arrived.__cause__)


def test_what_ended_the_run_in_the_driver_is_raised() -> None:
    received = Received(undone(NW), lambda _: None)
    received.receive(message_of(End(StorageUnreachableError("no bucket:", "make it."))))
    with pytest.raises(StorageUnreachableError, match="no bucket: make it"):
        received.finish(Ended("exit code 0"))


def test_an_error_while_a_message_is_taken_is_raised_at_the_end() -> None:
    def refuse(_: Outcome) -> None:
        raise ValueError("the disk is full")

    received = Received(undone(NW), refuse)
    received.receive(message_of(RESULT))
    with pytest.raises(ValueError, match="the disk is full"):
        received.finish(Ended("exit code 0"))
