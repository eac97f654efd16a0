"""What the config says of mode append, and what it refuses."""

from typing import Any

import pytest
from pydantic import ValidationError

from lake_assets.config.models import LakeConfig
from lake_assets.config.streams import Stream


def stream(**options: Any) -> Stream:
    plain = {"source": "landing", "partitions": {"region": {}}, "destination": {"table": "sales"}, "mode": "append"}
    lake = {"catalog": {"type": "sqlite", "path": "c.sqlite"}, "storage": "/lake"}
    return LakeConfig.model_validate({"lakes": {"test": lake}, "streams": {"sales": plain | options}}).streams["sales"]


def test_a_changed_object_fails_its_partition_by_default() -> None:
    assert stream().on_changed == "fail"
    assert stream(on_changed="refresh").on_changed == "refresh"
    assert stream(checks={"blocking": ["appended_objects"]}).checks.blocking == ("appended_objects",)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_empty": "clear"}, "mode: append takes no rows away"),
        ({"on_changed": "keep"}, "'fail' or 'refresh'"),
        ({"mode": "replace", "on_changed": "refresh"}, "on_changed: refresh is for mode: append"),
        ({"mode": "index", "on_changed": "refresh"}, "remove it from this stream of mode: index"),
        ({"mode": "replace", "checks": {"blocking": ["appended_objects"]}}, "a check of mode: append: remove it"),
        ({"owns_source": True}, "in mode: append the lake has files of its own"),
        ({"checks": {"blocking": ["indexed_objects"]}}, "a check of mode: index: remove it"),
    ],
)
def test_what_does_not_fit_the_mode_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        stream(**options)
