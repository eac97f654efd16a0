"""What is a template, and the errors of what is none."""

import random

import pytest

from lake_assets.errors import LayoutError
from lake_assets.layout.template import Compat, Template

# Template, characters before the caret, the problem's words, the hint.
FAULTS = [
    ("", 0, "it is empty", "region={region}"),
    ("{title},,}/{now(),2025,DD}/{latest_version,,}", 6, "closes too early", "write {title,,}"),
    ("x/a={age},unknown,}", 8, "closes too early", "write {age,unknown,}"),
    ("a}", 1, "closes nothing", "{column,default,granularity}"),
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


def test_slashes_at_the_ends_and_blanks_around_fields_mean_nothing() -> None:
    for text in ("{a}", "/{a}", "{a}/", "/{a}/", "{ a }"):
        template = Template.parse(text)
        assert (template.columns, template.render_row({"a": "x"})) == (("a",), "x")


def test_a_column_has_a_name_in_any_language() -> None:
    for name in ("größe", "地域", "région", "a b", "l'année", "Ünïcödé-名"):
        assert Template.parse(f"{name}={{{name},,}}").render_row({name: "é"}) == f"{name}=é"


def test_a_name_in_quotes_has_any_character() -> None:
    template = Template.parse("{'a,{b}''(c)', 'x, y',}")
    assert template.columns == ("a,{b}'(c)",)
    assert template.render_row({"a,{b}'(c)": None}) == "default_x, y"
    assert Template.parse("{'now()'}").columns == ("now()",)


def test_columns_are_in_the_order_of_the_path_each_once() -> None:
    template = Template.parse("dt={now(),,YY}/{b}/{a,,YY}-{a,,MM}/{now(),,HH}/again={b}")
    assert template.columns == ("dt", "b", "a")


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
