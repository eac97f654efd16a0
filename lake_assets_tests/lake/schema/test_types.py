"""Which types of a file a reader takes for the table's, and which names are none of a column."""

import pyarrow as pa
import pytest

from lake_assets.errors import SchemaError
from lake_assets.lake.schema.types import check_columns, is_read_as

NS = pa.timestamp("ns")


@pytest.mark.parametrize(
    ("source", "target", "registered"),
    [
        (NS, NS, True),
        (NS, pa.timestamp("us"), False),
        (pa.timestamp("ns", "UTC"), pa.timestamp("us", "UTC"), False),
        (pa.timestamp("ms"), pa.timestamp("us"), True),
        (pa.float16(), pa.float32(), False),
        (pa.float32(), pa.float64(), False),
        (pa.time32("ms"), pa.time64("us"), False),
        (pa.time64("ns"), pa.time64("us"), False),
        (pa.time64("us"), pa.time64("us"), True),
        (pa.json_(), pa.string(), False),
        (pa.uuid(), pa.binary(16), False),
        (pa.uuid(), pa.uuid(), True),
    ],
    ids=str,
)
def test_a_type_that_readers_truncate_or_refuse_is_not_registered(
    source: pa.DataType, target: pa.DataType, *, registered: bool
) -> None:
    assert is_read_as(source, target) == registered
    assert is_read_as(pa.list_(source), pa.list_(target)) == registered
    assert is_read_as(pa.struct([("a", source)]), pa.struct([("a", target)])) == registered
    assert is_read_as(pa.map_(pa.string(), source), pa.map_(pa.string(), target)) == registered


@pytest.mark.parametrize(("names", "match"), [(["a\0b"], "SQL cannot have"), (["a", "A"], "'a' and 'A'")])
def test_names_that_cannot_be_columns_are_refused(names: list[str], match: str) -> None:
    with pytest.raises(SchemaError, match=match):
        check_columns(pa.schema([(name, pa.int8()) for name in names]), "the file f")
