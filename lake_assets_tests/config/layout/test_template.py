"""Rendering, matching and listing by examples: those of the reference, what it leaves open, and names of files."""

import datetime as dt
import pickle

import pyarrow as pa
import pytest

from lake_assets.base.errors import LayoutError
from lake_assets.config.layout.hive import HIVE_NULL
from lake_assets.config.layout.partition import PartitionColumn
from lake_assets.config.layout.template import Template

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


def test_now_is_the_present_unless_given_in_the_layouts_time_zone() -> None:
    template = Template.parse(f"dt={DAILY}/{{now(),,HH}}", time_zone="Europe/Berlin")
    assert template.render_row({}, now=NOW) == "dt=2025-02-19/00"
    before = dt.datetime.now(dt.UTC)
    path = Template.parse("{now(),,YY}-{now(),,MM}-{now(),,DD}").render_row({})
    assert before.date().isoformat() <= path <= dt.datetime.now(dt.UTC).date().isoformat()


@pytest.mark.parametrize(
    ("text", "value", "path"),
    [
        ("{a,x,}", "default_x", "%64efault_x"),
        ("{a,n-y,}-{b}", "default_n-y", "%64efault_n%2Dy-z"),
        ("{a}_{b}", None, "%5F%5FHIVE%5FDEFAULT%5FPARTITION%5F%5F_z"),
        ("{a}年{b}", "1年2", "1%E5%B9%B42年z"),
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
        ("region=NW/date=2026-02-11/hour=3/part-0.parquet", {"region": "NW", "date": "2026-02-11"}),
        ("region=a%2fb%20c/date=x", {"region": "a%2Fb c", "date": "x"}),
        (f"region={HIVE_NULL}/date=x", {"region": HIVE_NULL, "date": "x"}),
        ("region=100%/date=%zz", {"region": "100%25", "date": "%25zz"}),
        ("region=NW", None),
        ("_tmp/region=NW/date=x", None),
        ("Region=NW/date=x", None),
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
        ("{ts}/{ts,,YY}", "2026-02-11 09%3A30%3A00/2026", {"ts": "2026-02-11 09%3A30%3A00"}),
        ("{ts}/{ts,,YY}", "2026-02-11/2025", None),
        ("{ts}/{ts,,YY}", "soon/default_ts", {"ts": "soon"}),
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
        ("region={r}/date={d}", {"r": "NW"}, "region=NW/"),
        ("region={r}/date={d}", {"d": "2026-02-11"}, ""),
        ("raw/v1-{r}/{d}", {}, "raw/"),
        ("x/k={r}-{now(),,YY}", {"r": "NW"}, "x/"),
        ("{r}-x/{d}", {"r": "NW"}, "NW-x/"),
        ("{now(),,YY}/{r}", {"r": "NW"}, ""),
        ("{d,,YY}-{d,,WW}", {"d": "2024-12-30"}, "2025-01/"),
        ("{d,,YY}-{d,,MM}-{d,,WW}", {"d": "2024-12-30"}, "2024-12-01/"),
        ("{d,,DD}", {"d": "2024-12-30T23:30:00Z"}, "30/"),
        ("{d,,MM}", {"d": "2"}, "02/"),
        ("{d,0,YY}-{d,0,MM}", {"d": HIVE_NULL}, "default_0-default_0/"),
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
        ("{a}", "b//c", "b%2F%2Fc"),
        ("{a}", "../b/.", "%2E%2E/b/%2E"),
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


# Values in the names of files.


@pytest.mark.parametrize(
    ("files", "name", "values"),
    [
        ("sales_{date}_{region}.parquet", "sales_2026-02-11_NW.parquet", {"date": "2026-02-11", "region": "NW"}),
        (
            "sales_{date}_{region}.parquet",
            "sales_2026-02-11_N_Y.v2.parquet",
            {"date": "2026-02-11", "region": "N_Y.v2"},
        ),
        ("{region}_{date}_part-*.parquet", "NW_2026-02-11_part-0.parquet", {"region": "NW", "date": "2026-02-11"}),
        ("sales-{d,,YYYY}{d,,MM}{d,,DD}.parquet", "sales-20260211.parquet", {"d": "2026-02-11"}),
        # All that follows the region has one length, so the region may have the text between them.
        ("{region}_{d,,YYYY}-{d,,MM}.parquet", "NEW_YORK_2026-02.parquet", {"region": "NEW_YORK", "d": "2026-02"}),
        ("*_{date}.parquet", "sub/a_2026-02-11.parquet", None),
        ("sales_{date}.parquet", "sales_2026-02-11.parquet/part-0", None),
    ],
)
def test_a_name_is_read(files: str, name: str, values: dict[str, str] | None) -> None:
    assert Template.root().with_files(files).match(name, file=True) == values


@pytest.mark.parametrize(
    ("files", "values", "prefix", "glob"),
    [
        ("sales_{date}_{region}.parquet", {"date": "d", "region": "N"}, "sales_d_N.parquet", "sales_d_N.parquet"),
        ("sales_{date}_{region}.parquet", {"date": "d"}, "sales_d_", "sales_d_*.parquet"),
        ("sales_{date}_{region}.parquet", {"region": "N"}, "sales_", "sales_*_N.parquet"),
        ("{region}_{date}_*.parquet", {"date": "d", "region": "N_W"}, "N%5FW_d_", "N%5FW_d_*.parquet"),
    ],
)
def test_a_partition_is_listed_by_the_beginning_that_its_names_share(
    files: str, values: dict[str, str], prefix: str, glob: str
) -> None:
    flat, below = Template.root().with_files(files), Template.parse("landing/{batch}").with_files(files)

    assert (flat.prefix(values), flat.glob(values)) == (prefix, glob)
    assert below.prefix(values) == "landing/"
    assert below.prefix({"batch": "7", **values}) == f"landing/7/{prefix}"


def test_a_time_in_folders_and_names_is_one_value() -> None:
    template = Template.parse("{d,,YYYY}/{d,,MM}").with_files("sales-{d,,YYYY}{d,,MM}{d,,DD}.parquet")

    assert template.columns == ("d",)
    assert template.match("2026/02/sales-20260211.parquet") == {"d": "2026-02-11"}
    assert template.match("2026/03/sales-20260211.parquet") is None


def test_the_words_of_a_name_say_which_objects_are_data() -> None:
    assert Template.root().with_files("sales_{d,,YY}-{d,,MM}_{region}.parquet").words == "sales_*.parquet"
    assert Template.root().with_files("{region}_sales_{date}_*.parquet").words == "*_sales_*.parquet"


@pytest.mark.parametrize(
    ("files", "problem", "column"),
    [
        ("{a}{b}.parquet", "nothing separates these two values", 3),
        ("*{a}.parquet", "nothing separates these two values", 1),
        ("{a}0{b}.parquet", "this text does not mark the end of a value", 3),
        ("x/{a}.parquet", "the name of a file has no folders", 1),
        ("x_{a}", "the name ends in a value", 5),
        ("{a}_?.parquet", r"beside values, a pattern has no \? and \[ \]", 4),
        ("{a}_{now(),,YY}.parquet", r"now\(\) is for folders", 4),
    ],
)
def test_a_name_that_cannot_be_read_back_is_refused(files: str, problem: str, column: int) -> None:
    with pytest.raises(LayoutError, match=problem) as error:
        Template.root().with_files(files)
    assert str(error.value).splitlines()[2].index("^") == column + 2


def test_a_layout_whose_values_may_make_folders_has_no_names_of_files() -> None:
    for template in (Template.parse("{a,,}", nested=True), Template.parse("{a,,}", compat="olake")):
        with pytest.raises(LayoutError, match="a value may make folders"):
            template.with_files("{b}.parquet")
