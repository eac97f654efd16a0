"""What is a template, how it is explained, and the errors of what is none."""

import random

import pyarrow as pa
import pytest

from lake_assets.base.errors import LayoutError
from lake_assets.config.layout.explanation import explanation
from lake_assets.config.layout.template import Compat, Template

# Template, characters before the caret, the problem's words, the hint.
FAULTS = [
    ("", 0, "it is empty", "region={region}"),
    ("{title},,}/{now(),2025,DD}/{latest_version,,}", 6, "closes too early", "write {title,,}"),
    ("x/{a", 2, "not closed", "{column,default,granularity}"),
    ("{}", 1, "name is missing", "{column}"),
    ("{a,b,YY,}", 7, "three fields", "{column,default,granularity}"),
    ("{a,b,yy}", 5, "granularity 'yy'", "write YY"),
    ("{a, b , Day}", 8, "granularity 'Day'", "YY, MM, WW, DD or HH"),
    ("{now()}", 1, "now() needs a granularity", "{now(),,YY}"),
    ("{today(),,DD}", 6, "only function", "{now(),,YY}"),
    ("{'a}", 1, "quote is not closed", "twice"),
    ("a//{b}", 2, "no name", "one /"),
    ("a/../{b}", 2, "no . and .. folders", "below the source"),
    ("region=*/d={d}", 7, "file pattern", "region={region}"),
    ("a\n{b}", 1, "this character", "remove it"),
    ("{a}{b}", 3, "nothing separates", "such as -"),
    ("{a}0F{b}", 3, "does not mark the end", "such as -"),
    ("{d}/d={now(),,YY}", 6, "two values are named 'd'", "another name"),
]


@pytest.mark.parametrize(("text", "caret", "problem", "hint"), FAULTS)
def test_a_fault_is_shown_with_a_caret_and_the_hint(text: str, caret: int, problem: str, hint: str) -> None:
    with pytest.raises(LayoutError) as caught:
        Template.parse(text)
    headline, shown, pointer = str(caught.value).split("\n")
    assert problem in headline
    assert shown == "  " + text.replace("\n", "␊")
    assert pointer.startswith(f"  {' ' * caret}^ ")
    assert hint in pointer


def test_the_caret_stands_under_the_fault_after_wide_letters() -> None:
    with pytest.raises(LayoutError) as caught:
        Template.parse("地域={x,,Q}")
    assert str(caught.value).split("\n")[2].index("^") == 2 + len("----={x,,")


def test_a_column_has_a_name_in_any_language() -> None:
    for name in ("größe", "地域", "région", "a b", "l'année", "Ünïcödé-名"):
        assert Template.parse(f"{name}={{{name},,}}").render_row({name: "é"}) == f"{name}=é"


def test_a_name_in_quotes_has_any_character_and_blanks_around_fields_mean_nothing() -> None:
    assert Template.parse("/{ a }/").render_row({"a": "x"}) == "x"
    template = Template.parse("{'a,{b}''(c)', 'x, y',}")
    assert template.columns == ("a,{b}'(c)",)
    assert template.render_row({"a,{b}'(c)": None}) == "default_x, y"
    assert Template.parse("{'now()'}").columns == ("now()",)


def test_the_layout_of_hive_is_made_of_column_names() -> None:
    assert Template.hive(["region", "date"]).text == "region={region}/date={date}"
    odd = Template.hive(["a:b", "x,y", "né"])
    assert odd.columns == ("a:b", "x,y", "né")
    assert odd.render_row({"a:b": 1, "x,y": 2, "né": 3}) == "a%3Ab=1/x,y=2/né=3"


def test_a_time_zone_that_is_none_is_an_error() -> None:
    for zone in ("Europe/Nowhere", "", "../etc/passwd", "/etc/localtime"):
        with pytest.raises(LayoutError, match="there is no time zone"):
            Template.parse("{a}", time_zone=zone)
    with pytest.raises(LayoutError, match="in UTC"):
        Template.parse("{a}", time_zone="Europe/Berlin", compat="olake")


def test_each_part_is_explained() -> None:
    text = "k={region}/{ts,2025,YY}-{ts,,WW}/dt={now(),,HH}/x-{age,,}/{now(),,DD}"
    assert explanation(Template.parse(text, time_zone="Europe/Berlin")).split("\n") == [
        text,
        "",
        "  k=            as it is",
        "  {region}      column region; __HIVE_DEFAULT_PARTITION__ if it is NULL or empty",
        "  /             as it is",
        "  {ts,2025,YY}  ISO year of column ts; default_2025 if it is NULL or no timestamp or missing",
        "  -             as it is",
        "  {ts,,WW}      ISO week of column ts; default_ts if it is NULL or no timestamp or missing",
        "  /dt=          as it is",
        "  {now(),,HH}   hour of the time of the run, as partition column dt",
        "  /x-           as it is",
        "  {age,,}       column age; default_age if it is NULL or empty or missing",
        "  /             as it is",
        "  {now(),,DD}   day of the time of the run",
        "",
        "Partition columns: region, ts, dt, age.",
        "Times are in Europe/Berlin; `/` in a value makes no folders.",
    ]
    assert "  {a,b,YY}  year of column a; b if" in explanation(Template.parse("/{a,b,YY}/{c}", compat="olake"))


def test_no_more_than_twenty_paths_of_a_sample_are_shown_the_most_frequent_first() -> None:
    lines = explanation(Template.parse("{n}"), pa.table({"n": [*range(1025), 7]})).split("\n")
    assert lines[-22] == "Paths of the sample's 1,026 rows:"
    assert lines[-21].split() == ["2", "7"]
    assert lines[-1] == "  and 1,005 more"
    assert explanation(Template.parse("{n}"), pa.table({"n": pa.array([], pa.string())})).endswith("0 rows:")


TOKENS = [*"{{{}}},,,///--=.'% ", "now()", "ts", "a", "é", "YY", "MM", "WW", "YYYY", "..", "F0", "default_", "\n", "*"]


def parsed(text: str, compat: Compat | None) -> Template | str:
    """The template, or the text of the error."""
    try:
        return Template.parse(text, compat=compat)
    except LayoutError as error:
        return str(error)


@pytest.mark.parametrize("compat", [None, "olake"])
def test_no_text_raises_anything_but_the_layouts_own_error(compat: Compat | None) -> None:
    chance = random.Random(11)
    row = {"ts": "2026-02-11 09:30:00", "a": "x/.."}
    read = refused = 0
    for _ in range(4_000):
        text = "".join(chance.choices(TOKENS, k=chance.randrange(1, 12)))
        template = parsed(text, compat)
        if isinstance(template, str):
            assert "^" in template
            refused += 1
            continue
        read += 1
        for placeholder in template.placeholders:
            row.setdefault(placeholder.column, "")
        path = template.render_row(row)
        if compat is None:
            match = template.match(path)
            assert match is not None, (text, path)
            assert set(match) == set(template.columns)
    assert read > 400
    assert compat or refused > 400
