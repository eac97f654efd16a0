"""Batches on their way to the outputs."""

import threading
from pathlib import Path

from lake_assets.config.landing import Landing
from lake_assets.landing.deliver import Delivery
from lake_assets.landing.outputs import open_outputs
from lake_assets_tests.landing.streams import stream_of


def test_threads_that_flush_at_the_same_time_do_not_wait_for_each_other(tmp_path: Path) -> None:
    delivery = Delivery(open_outputs(stream_of(tmp_path), Landing()))
    gate = threading.Event()
    arrived: list[int] = []

    def encode() -> bytes:
        gate.wait()
        return b"rows"

    for number in range(16):  # as many as may be on their way
        delivery.send(f"batch_{number}", encode, lambda _, size: arrived.append(size))
    threads = [threading.Thread(target=delivery.flush, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    gate.set()
    for thread in threads:
        thread.join(60)

    assert not any(thread.is_alive() for thread in threads)
    assert arrived == [len(b"rows")] * 16
    delivery.close()
