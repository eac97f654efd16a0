"""The state of a sensor of type `sqs`; `orchestration/sensors/test_sqs.py` has its ticks."""

import pytest

from lake_assets.detection.deliveries import QueueCursor
from lake_assets.detection.packing import packed, unpacked
from lake_assets_tests.detection.watch import stream_of


@pytest.mark.parametrize("field", ["stream", "receipts", "seen", "waiting", "future", "told"])
def test_a_cursor_without_a_field_of_this_version_starts_again(field: str) -> None:
    stream = stream_of()
    empty = QueueCursor.load(None, stream)
    state = unpacked(QueueCursor(empty.stream, receipts=["receipt"], seen=[1]).dump(), dict) or {}
    del state[field]

    assert QueueCursor.load(packed(state), stream) == empty
