"""Rendering, matching and listing by examples: those of the reference, and what it leaves open."""

import datetime as dt
import pickle
from decimal import Decimal

import pyarrow as pa
import pytest

from lake_assets.errors import LayoutError
from lake_assets.layout.hive import HIVE_NULL
from lake_assets.layout.partition import PartitionColumn
from lake_assets.layout.template import Template

NOW = dt.datetime(2025, 2, 18, 23, 30, tzinfo=dt.UTC)
DAILY = "{now(),2025,YY}-{now(),06,MM}-{now(),13,DD}"

# Templates of the reference's document, a row, and its path.
REFERENCE: list[tuple[str, dict[str, object], str]] = [
    ("{title,,}/{now(),2025,DD}/{latest_version,,}", {"title": "a", "latest_version": 7}, "a/18/7"),
    ("{t,2025,YY}-{t,12,MM}-{t,13,DD}", {"t": dt.datetime(2024, 12, 31, 8)}, "2024-12-31"),  # noqa: DTZ001
    (
        "/age={age, default_age,}/city=city-{city,unknown,}/type={type,default,}",
        {"age": None, "city": "", "type": "existing"},
        "age=default_age/city=city-default_unknown/type=existing",
    ),
    (f"/dt={DAILY}/country={{country,default_country,}}", {"country": "USA"}, "dt=2025-02-18/country=USA"),
]


@pytest.mark.parametrize(("text", "row", "path"), REFERENCE)
def test_the_references_templates_render(text: str, row: dict[str, object], path: str) -> None:
    assert Template.parse(text).render_row(row, now=NOW) == path


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (7, "7"),
        (-7, "-7"),
        (True, "true"),
        (Decimal("1.50"), "1.50"),
        (Decimal("1E+3"), "1000"),
        (dt.date(999, 1, 2), "0999-01-02"),
        (dt.datetime(2026, 2, 11, 9, 30), "2026-02-11 09%3A30%3A00"),  # noqa: DTZ001
        (dt.datetime(2026, 2, 11, 9, 30, 0, 120_000, tzinfo=dt.UTC), "2026-02-11 10%3A30%3A00.12"),
        ("a/b\\c=d\n", "a%2Fb%5Cc%3Dd%0A"),
        ("São 東京", "São 東京"),
        ("..", ".."),
    ],
)
def test_a_typed_value_has_sparks_text(value: object, text: str) -> None:
    template = Template.parse("k={k}", time_zone="Europe/Berlin")
    assert template.render_row({"k": value}) == f"k={text}"


def test_a_value_that_no_path_can_name_is_refused_with_its_column() -> None:
    for value in (1.5, b"x", ["x"], dt.time(9)):
        with pytest.raises(LayoutError, match=r"column k .* cast the column"):
            Template.parse("k={k}").render_row({"k": value})
    with pytest.raises(LayoutError, match=r"column ts .* granularity"):
        Template.parse("{ts,,YY}").render_row({"ts": 1770800000})


def test_a_missing_column_has_its_default_or_is_an_error() -> None:
    assert Template.parse("{a,unknown}/{a,2025,YY}").render_row({}) == "default_unknown/default_2025"
    with pytest.raises(LayoutError, match="no column 'a'"):
        Template.parse("{a}").render_row({"b": "x"})


def test_now_is_the_present_unless_given_in_the_layouts_time_zone() -> None:
    template = Template.parse(f"dt={DAILY}/{{now(),,HH}}", time_zone="Europe/Berlin")
    assert template.render_row({}, now=NOW) == "dt=2025-02-19/00"
    with pytest.raises(LayoutError, match="has no time zone"):
        template.render_row({}, now=NOW.replace(tzinfo=None))
    before = dt.datetime.now(dt.UTC)
    path = Template.parse("{now(),,YY}-{now(),,MM}-{now(),,DD}").render_row({})
    assert before.date().isoformat() <= path <= dt.datetime.now(dt.UTC).date().isoformat()


def test_a_time_beyond_the_calendar_in_the_layouts_zone_is_refused() -> None:
    last = dt.datetime(9999, 12, 31, 23, 30, tzinfo=dt.UTC)
    for text, path in {"{ts}": "9999-12-31 23%3A30%3A00", "{ts,,HH}": "23"}.items():
        assert Template.parse(text).render_row({"ts": last}) == path
        with pytest.raises(LayoutError, match="column ts has a time before year 1 or after year 9999"):
            Template.parse(text, time_zone="Europe/Berlin").render_row({"ts": last})


@pytest.mark.parametrize(
    ("text", "value", "path"),
    [
        ("{a,x,}", "default_x", "%64efault_x"),
        ("{a,x,}d{b}", "default_x", "%64%65fault_xdz"),
        ("{a,n-y,}-{b}", None, "default_n%2Dy-z"),
        ("{a,n-y,}-{b}", "default_n-y", "%64efault_n%2Dy-z"),
        ("{a}_{b}", None, "%5F%5FHIVE%5FDEFAULT%5FPARTITION%5F%5F_z"),
        ("{a}年{b}", "1年2", "1%E5%B9%B42年z"),
        ("{a}-{b}", "x-y", "x%2Dy-z"),
        ("{a}", ".", "%2E"),
        ("{a}.", ".", "%2E."),
    ],
)
def test_a_value_is_distinguished_from_default_separator_and_dots(text: str, value: object, path: str) -> None:
    template = Template.parse(text)
    assert template.render_row({"a": value, "b": "z"}) == path
    match = template.match(path)
    assert match is not None
    assert PartitionColumn("a", "string").parse(match["a"]) == value


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("region=NW/date=2026-02-11", {"region": "NW", "date": "2026-02-11"}),
        ("region=NW/date=2026-02-11/part-0.parquet", {"region": "NW", "date": "2026-02-11"}),
        ("region=NW/date=2026-02-11/hour=3/part-0.parquet", {"region": "NW", "date": "2026-02-11"}),
        ("region=a%2fb%20c/date=x", {"region": "a%2Fb c", "date": "x"}),
        (f"region={HIVE_NULL}/date=x", {"region": HIVE_NULL, "date": "x"}),
        ("region=100%/date=%zz", {"region": "100%25", "date": "%25zz"}),
        ("region=NW", None),
        ("region=/date=x", None),
        ("_tmp/region=NW/date=x", None),
        ("Region=NW/date=x", None),
        ("", None),
    ],
)
def test_a_path_matches(path: str, found: dict[str, str] | None) -> None:
    assert Template.hive(["region", "date"]).match(path) == found


def test_a_files_own_name_is_no_value() -> None:
    template = Template.parse("{title}")
    assert template.match("README.md") == {"title": "README.md"}
    assert template.match("README.md", file=True) is None
    assert template.match("a/README.md", file=True) == {"title": "a"}
    with pytest.raises(LayoutError, match="not in UTF-8"):
        Template.parse("k={k}").match("k=%FF")


@pytest.mark.parametrize(
    ("text", "path", "found"),
    [
        ("{ts,,YY}-{ts,,MM}-{ts,,DD}", "2026-02-11", {"ts": "2026-02-11"}),
        ("{ts,,DD}/{ts,,YY}-{ts,,MM}/{ts,,HH}", "11/2026-02/09", {"ts": "2026-02-11-09"}),
        ("{ts,,YY}-{ts,,MM}-{ts,,WW}", "2026-02-07", {"ts": "2026-02-W07"}),
        ("{ts,,WW}-{ts,,HH}", "07-09", {"ts": "W07-09"}),
        ("{ts,,YY}", "0000", None),
        ("{ts,,YY}-{ts,,WW}", "2025-53", None),
        ("{ts,,YY}-{ts,,MM}-{ts,,DD}", "2026-02-30", None),
        ("{ts,,YY}-{ts,,MM}-{ts,,DD}", "2026-2-11", None),
        ("{ts,1,YY}-{ts,1,MM}", "default_1-default_1", {"ts": HIVE_NULL}),
        ("{ts,1,YY}-{ts,1,MM}", "2026-default_1", None),
        ("year={d,,YY}/month={d,,MM}/day={d,,DD}", "year=2026/month=02/day=11", {"d": "2026-02-11"}),
        ("{ts,,YY}/{ts,,YY}-{ts,,MM}", "2026/2025-01", None),
        ("{ts}/{ts,,YY}", "2026-02-11 09%3A30%3A00/2026", {"ts": "2026-02-11 09%3A30%3A00"}),
        ("{ts}/{ts,,YY}", "2026-02-11/2025", None),
        ("{ts}/{ts,,YY}", "soon/default_ts", {"ts": "soon"}),
        ("{a}/{a}", "x/x", {"a": "x"}),
        ("{a}/{a}", "x/y", None),
        ("dt={now(),,YY}-{now(),,MM}/{a}", "dt=2026-02/x", {"dt": "2026-02", "a": "x"}),
        ("dt={now(),,YY}/{a}", "dt=soon/x", None),
        ("{now(),,YY}/{a}", "2026/x", {"a": "x"}),
    ],
)
def test_the_places_of_a_column_are_one_value(text: str, path: str, found: dict[str, str] | None) -> None:
    assert Template.parse(text).match(path) == found


@pytest.mark.parametrize(
    ("text", "texts", "prefix"),
    [
        ("region={r}/date={d}", {"r": "NW", "d": "2026-02-11"}, "region=NW/date=2026-02-11/"),
        ("region={r}/date={d}", {"r": "NW"}, "region=NW/"),
        ("region={r}/date={d}", {"d": "2026-02-11"}, ""),
        ("raw/v1-{r}/{d}", {}, "raw/"),
        ("x/k={r}-{now(),,YY}", {"r": "NW"}, "x/"),
        ("{r}-x/{d}", {"r": "NW"}, "NW-x/"),
        ("{now(),,YY}/{r}", {"r": "NW"}, ""),
        ("dt={now(),,YY}-{now(),,MM}/{r}", {"r": "NW", "dt": "2026-02"}, "dt=2026-02/NW/"),
        ("{d,,YY}/{d,,MM}/{d,,DD}", {"d": "2026-02-11"}, "2026/02/11/"),
        ("{d,,YY}-{d,,WW}", {"d": "2024-12-30"}, "2025-01/"),
        ("{d,,YY}-{d,,MM}-{d,,WW}", {"d": "2024-12-30"}, "2024-12-01/"),
        ("{d,,DD}", {"d": "2024-12-30T23:30:00Z"}, "30/"),
        ("{d,,MM}", {"d": "2"}, "02/"),
        ("{d,0,YY}-{d,0,MM}", {"d": HIVE_NULL}, "default_0-default_0/"),
        ("{r,x}", {"r": HIVE_NULL}, "default_x/"),
        ("k={r}", {"r": "a%2Fb"}, "k=a%2Fb/"),
        ("{r}", {"r": "%2E%2E"}, "%2E%2E/"),
        ("{t}/{t,,YY}", {"t": "soon"}, "soon/default_t/"),
    ],
)
def test_a_partitions_prefix(text: str, texts: dict[str, str], prefix: str) -> None:
    assert Template.parse(text).prefix(texts) == prefix


def test_a_prefix_is_of_the_templates_columns_and_of_times() -> None:
    template = Template.parse("{r}/{d,,YY}-{d,,MM}")
    with pytest.raises(LayoutError, match="no partition column 'x'"):
        template.prefix({"x": "1"})
    for text in ("soon", "202", "2026-13", "2026-02-30", "2026-W07"):
        with pytest.raises(LayoutError, match=f"d='{text}' is not a time: write it as 2026-02"):
            template.prefix({"r": "1", "d": text})


@pytest.mark.parametrize(
    ("text", "value", "path"),
    [
        ("{a}", "Hi/my name is / priyansh", "Hi/my name is / priyansh"),
        ("{a}", "/b", "%2Fb"),
        ("{a}", "b//c", "b%2F%2Fc"),
        ("{a}", "../b/.", "%2E%2E/b/%2E"),
        ("x={a}/y=1", "b/c", "x=b/c/y=1"),
        ("{a}/y=1", "b/y=1", "b/y%3D1/y=1"),
    ],
)
def test_a_nested_value_makes_folders_but_never_climbs(text: str, value: str, path: str) -> None:
    template = Template.parse(text, nested=True)
    assert template.render_row({"a": value}) == path
    match = template.match(f"{path}/part-0.parquet")
    assert match is not None
    assert PartitionColumn("a", "string").parse(match["a"]) == value
    assert template.prefix(match) == f"{path}/"


def test_a_template_is_a_value_that_travels() -> None:
    template = Template.parse("region={region}/{ts,,YY}", time_zone="Europe/Berlin", nested=True)
    assert template.match("region=NW/2026/") is not None
    copy = pickle.loads(pickle.dumps(template))
    assert copy == template
    assert hash(copy) == hash(template)
    assert copy.match("region=NW/2026/") == {"region": "NW", "ts": "2026"}


def test_the_layout_of_a_root_says_nothing() -> None:
    root = Template.root()

    assert root.columns == ()
    assert [root.match(path, file=True) for path in ("a.parquet", "x/y=1/a.parquet")] == [{}, {}]
    assert root.prefix({}) == ""
    assert root.render(pa.table({"a": [1, 2]})).to_pylist() == ["", ""]
    assert root.render_row({"a": 1}) == ""
