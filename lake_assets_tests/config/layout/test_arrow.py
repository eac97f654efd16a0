"""Rendering the rows of Arrow tables."""

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from lake_assets.base.errors import LayoutError
from lake_assets.config.layout.template import Compat, Template

DAY = dt.date(2026, 2, 11)
INSTANT = dt.datetime(2026, 2, 11, 23, 30, 0, 500_000, tzinfo=dt.UTC)

COLUMNS = [
    pa.array(["x", None, "", "a/b", "x"]),
    pa.array(["x", None], pa.large_string()),
    pa.array(["x", None], pa.string_view()),
    pa.array(["x", None, "x"]).dictionary_encode(),
    pa.array([1, None, 1], pa.int8()),
    pa.array([2**63 - 1, -(2**63)], pa.int64()),
    pa.array([2**64 - 1], pa.uint64()),
    pa.array([True, None, False]),
    pa.array([Decimal("1.50"), Decimal("0.0000001"), None], pa.decimal128(20, 7)),
    pa.array([DAY, None], pa.date32()),
    pa.array([DAY, None], pa.date64()),
    pa.array([INSTANT, None], pa.timestamp("us", "UTC")),
    pa.array([INSTANT, None], pa.timestamp("ns", "America/New_York")),
    pa.array([INSTANT.replace(tzinfo=None), None], pa.timestamp("ms")),
    pa.array([-1, None], pa.timestamp("s")),
    pa.nulls(3),
]


TIMED = COLUMNS[9:]
PARTS = ("{k,,YY}-{k,,MM}-{k,,DD}", "{k,,HH}", "{k,,YY}-{k,,WW}", "{k}/{k,,HH}")


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: str(column.type))
def test_a_type_and_the_parts_of_a_time_render_as_their_values_do_one_by_one(column: pa.Array) -> None:
    # Nanoseconds are beyond Python's datetime.
    values = column.cast(pa.timestamp("us", column.type.tz)) if column.type == COLUMNS[12].type else column
    for text, zone in product(["k={k}", *(PARTS if column in TIMED else ())], ["UTC", "Europe/Berlin", "Asia/Kolkata"]):
        template = Template.parse(text, time_zone=zone)
        paths = template.render(pa.table({"k": column}))
        assert paths.type == pa.dictionary(pa.int32(), pa.string())
        assert paths.to_pylist() == [template.render_row({"k": value}) for value in values.to_pylist()], (text, zone)


def test_a_nanosecond_before_midnight_is_of_the_day_that_ends() -> None:
    for zone in (None, "UTC"):
        times = pa.array([-1, 0, -86_400 * 10**9 - 1, None], pa.timestamp("ns", zone))
        paths = Template.parse("{k,,YY}-{k,,MM}-{k,,DD}").render(pa.table({"k": times})).to_pylist()
        assert paths[:3] == ["1969-12-31", "1970-01-01", "1969-12-30"]


@pytest.mark.parametrize("compat", [None, "olake"])
def test_many_rows_of_chunks_render_as_they_do_one_by_one(compat: Compat | None) -> None:
    random = np.random.default_rng(3)
    table = pa.table(
        {
            "a": random.choice(np.array(["x", "y/z", "..", ""]), 1000),
            "b": pa.array(random.integers(0, 50, 1000), mask=random.random(1000) < 0.1),
            "ts": pa.array(random.integers(0, 10**10, 1000), pa.timestamp("s", "UTC")),
            "unused": pa.nulls(1000),
        }
    )
    chunked = pa.concat_tables([table.slice(0, 10), table.slice(10, 0), table.slice(10)])
    template = Template.parse("a={a,,}/{b,none,}-{ts,,MM}/{ts,,DD}/{now(),,HH}/{gone,,}", compat=compat)
    rows = [template.render_row(row, now=INSTANT) for row in table.to_pylist()]
    paths = template.render(chunked, now=INSTANT)
    assert paths.to_pylist() == rows
    assert sorted(paths.dictionary.to_pylist()) == sorted(set(rows))


def test_dictionaries_of_chunks_may_differ_and_hold_more_than_occurs() -> None:
    first = pa.DictionaryArray.from_arrays(pa.array([0, None]), pa.array(["x", "unused"]))
    second = pa.DictionaryArray.from_arrays(pa.array([1, 0]), pa.array(["x", None]))
    paths = Template.parse("{k,,}").render(pa.table({"k": pa.chunked_array([first, second])}))
    assert paths.to_pylist() == ["x", "default_k", "default_k", "x"]
    assert sorted(paths.dictionary.to_pylist()) == ["default_k", "x"]


def test_a_batch_and_no_rows_render() -> None:
    batch = pa.record_batch({"a": ["x"]})
    assert Template.parse("{a}").render(batch).to_pylist() == ["x"]
    assert Template.parse("{a}").render(batch.slice(0, 0)).to_pylist() == []
    assert Template.parse("{now(),,YY}").render(batch, now=INSTANT).to_pylist() == ["2026"]
    assert Template.parse("{now(),,YY}").render(batch.slice(0, 0), now=INSTANT).to_pylist() == []


@pytest.mark.parametrize("value", [1.5, b"x", ["x"], {"x": 1}, dt.time(9)], ids=lambda value: type(value).__name__)
def test_a_value_that_no_path_can_name_is_refused_with_its_column(value: object) -> None:
    template = Template.parse("{k}")
    with pytest.raises(LayoutError, match=r"column k .* cast"):
        template.render(pa.table({"k": [value]}))
    with pytest.raises(LayoutError, match=r"column k is of type .* cast it"):
        template.render_row({"k": value})


def test_a_missing_column_has_its_default_or_is_refused() -> None:
    optional, required = Template.parse("{k,unknown}/{k,2025,YY}"), Template.parse("{k}")
    assert optional.render_row({}) == "default_unknown/default_2025"
    with pytest.raises(LayoutError, match="no column 'k'"):
        required.render(pa.table({"a": ["x"]}))
    with pytest.raises(LayoutError, match="no column 'k'"):
        required.render_row({"a": "x"})
    with pytest.raises(LayoutError, match=r"column k .* granularity"):
        Template.parse("{k,,YY}").render_row({"k": 1770800000})


def test_a_time_beyond_the_calendar_in_the_layouts_zone_is_refused() -> None:
    last = dt.datetime(9999, 12, 31, 23, 30, tzinfo=dt.UTC)
    columns = [pa.array([10**7], pa.date32()), pa.array([10**13], pa.timestamp("s")), pa.array([last])]
    message = "column k has a time before year 1 or after year 9999"
    for text, path in {"{k}": "9999-12-31 23%3A30%3A00", "{k,,HH}": "23"}.items():
        assert Template.parse(text).render_row({"k": last}) == path
        template = Template.parse(text, time_zone="Europe/Berlin")
        with pytest.raises(LayoutError, match=message):
            template.render_row({"k": last})
        for column in columns:
            with pytest.raises(LayoutError, match=message):
                template.render(pa.table({"k": column}))


def test_two_columns_of_many_values_render_each_combination() -> None:
    count = 70_000
    table = pa.table({"a": np.arange(count), "b": np.arange(count)[::-1]})
    paths = Template.parse("{a}/{b}").render(table).to_pylist()
    assert paths[:2] == ["0/69999", "1/69998"]
    assert len(set(paths)) == count


def read_back(template: Template, column: pa.Array) -> tuple[list[str], list[Mapping[str, str] | None]]:
    """The values that the rows have by themselves, and those that their paths have."""
    paths = template.render(pa.table({"k": column})).to_pylist()
    found = [template.match(f"{path}/file", file=True) for path in paths]
    return template.read_rows("name", column).to_pylist(), found


@pytest.mark.parametrize("column", COLUMNS[:12], ids=lambda column: str(column.type))
@pytest.mark.parametrize("compat", [None, "olake"])
def test_what_the_rows_paths_say_of_a_column_is_what_match_reads(column: pa.Array, compat: Compat | None) -> None:
    result, found = read_back(Template.parse("x={k,,}", compat=compat).named({"k": "name"}), column)
    # OLake's path of "" has no such folder, and of a `/` more than one.
    assert result == [text if match is None else match["name"] for text, match in zip(result, found, strict=True)]
    assert compat or None not in found


@pytest.mark.parametrize(
    "column",
    [
        *TIMED[:-1],
        pa.array(["2025-02-18T10:00:00", "2025-02-18 23:30:00-05:00", "soon", "", None, "2025-02-18"]),
        pa.array(["2025-02-18T10:00:00", None]).dictionary_encode(),
        pa.chunked_array([["2025-02-18"], ["2025-02-19"]]),
    ],
    ids=lambda column: str(column.type),
)
def test_so_it_is_of_the_parts_of_a_time(column: pa.Array) -> None:
    texts = ("d={k,,YY}-{k,,MM}-{k,,DD}", "{k,,YY}/{k,,WW}", "{k,,YY}/{k,,MM}/{k,,DD}/{k,,HH}")
    for text, zone in product(texts, ["UTC", "Europe/Berlin", "America/New_York"]):
        result, found = read_back(Template.parse(text, time_zone=zone).named({"k": "name"}), column)
        assert result == [(match or {})["name"] for match in found], (text, zone)


TIMES = [
    *("2025-02-18T10:00:00", "2025-02-18 10:00:59.999", "2025-02-18T10:59:00,5", "2025-02-18", "2025-02-18T1:00:00"),
    *("2025-02-18T23:00:00Z", "2025-02-18 23:00:00Z", "2025-02-18T23:00:00.5Z", "2025-02-18T23:00:00+01:00"),
    *("2025-02-30T10:00:00", "2025-02-18T24:00:00", "2025-02-18T10:00:60", "0000-01-01T00:00:00"),
    *("9999-12-31 23:59:59", "2025-02-18T10:00:00\n", " 2025-02-18T10:00:00", "2025-02-18T10:00", "soon", "", None),
]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_times_as_texts_render_as_they_do_one_by_one(kind: pa.DataType) -> None:
    texts = ("{k,,YY}-{k,,MM}-{k,,DD}", "{k,,YY}/{k,,WW}", "{k,,MM}/{k,,HH}", "{k,,}/{k,,DD}")
    templates = [Template.parse(text, time_zone=zone) for text in texts for zone in ("UTC", "Europe/Berlin")]
    for template in [*templates, Template.parse("{k,x,YYYY}/{k,x,MM}/{k,x,DD}/{k,x,HH}", compat="olake")]:
        rows = [template.render_row({"k": value}) for value in TIMES]
        assert template.render(pa.table({"k": pa.array(TIMES, kind)})).to_pylist() == rows, template
