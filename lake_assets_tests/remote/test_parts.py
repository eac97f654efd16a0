"""Long messages arrive whole, also when those of several are mixed."""

import json
import random

from lake_assets.remote.messages import PART, Parts, parts_of


def long(seed: int) -> dict[str, object]:
    return {"kind": "outcome", "text": random.Random(seed).randbytes(20_000).hex(), "seed": seed}


def test_a_short_message_is_sent_as_it_is() -> None:
    message = {"kind": "end", "error": None}
    assert list(parts_of(message, 1)) == [message]
    assert Parts().whole(message) == message


def test_a_long_message_arrives_once_when_its_last_part_has() -> None:
    sent = [*parts_of(long(1), 1), *parts_of(long(2), 2)]
    assert len(sent) > 4
    assert max(len(json.dumps(part)) for part in sent) < PART + 200
    random.Random(3).shuffle(sent)
    parts = Parts()
    arrived = [whole for part in sent if (whole := parts.whole(json.loads(json.dumps(part)))) is not None]
    assert sorted(arrived, key=str) == sorted([long(1), long(2)], key=str)
