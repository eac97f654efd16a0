from pathlib import Path

import pytest

from lake_assets.base.errors import ConfigError
from lake_assets.config.sections import Landing
from lake_assets.streams.load import parse_config

TEXT = """
lakes:
  test: {{catalog: {{type: sqlite, path: c.sqlite}}, storage: lake}}
streams:
  sales:
    source: landing
    partitions: {{region: {{}}}}
    destination: {{table: sales}}
    landing: {landing}
"""


def parse(landing: str) -> Landing:
    config = parse_config(TEXT.format(landing=landing), Path("/etc/lake.yaml"), {})
    result = config.streams["sales"].landing
    assert result is not None
    return result


def test_the_defaults_and_paths_that_are_relative_to_the_file() -> None:
    least = parse("{}")
    landing = parse("{outputs: [copy, 's3://bucket/prefix'], buffer: {path: buffer}}")

    assert (least.batch.records, least.max_in_flight, least.multipart_threshold) == (1000, 4, None)
    assert (least.buffer, least.outputs) == (None, ())
    assert [output.root for output in landing.outputs] == ["/etc/copy", "s3://bucket/prefix"]
    assert landing.buffer is not None
    assert (landing.buffer.path, landing.buffer.retention_days) == ("/etc/buffer", 7)


@pytest.mark.parametrize(
    ("landing", "message"),
    [
        ("{batch: {records: 0}}", "landing.batch.records: must be 1 or more: write a greater number"),
        ("{batch: {bytes: 0}}", "landing.batch.bytes: must be at least 1 byte"),
        ("{multipart_threshold: 1MiB}", "landing.multipart_threshold: 1.0MiB is outside 5 MiB to 5 GiB"),
        ("{columns: {id: varchar2}}", "landing.columns.id: 'varchar2' is not a column type: use boolean, tinyint"),
        ("{columns: {id: 'decimal(40,2)'}}", "'decimal(40,2)' is not a column type"),
        ("{outputs: [copy, s3://bucket, copy]}", "copy is named twice"),
        ("{node: a_b}", "landing.node: has the wrong form: write up to 63 letters"),
        ("{buffers: {}}", "landing.buffers: unknown key: did you mean buffer?"),
    ],
)
def test_a_fault_is_named_with_its_field(landing: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse(landing)

    assert f"streams.sales.{message}" in str(raised.value) or message in str(raised.value)
