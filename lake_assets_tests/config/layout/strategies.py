"""Hypothesis strategies: layout templates, and rows that fit them."""

import datetime as dt
from dataclasses import dataclass

from hypothesis import strategies as st

from lake_assets.config.layout.grammar import quoted

TEXT_COLUMNS = ("a", "region", "地域", "größe", "it's", "x, {y}")
# Each timestamp column with the parts that templates take of it, and what the parts are composed to.
TIME_COLUMNS = {
    "ts": (("YY", "MM", "DD"), "%Y-%m-%d"),
    "hourly": (("YY", "MM", "DD", "HH"), "%Y-%m-%d-%H"),
    "monthly": (("YY", "MM"), "%Y-%m"),
    "weekly": (("YY", "WW"), "%G-W%V"),
    "yearly": (("YY",), "%Y"),
    "time of day": (("HH",), "%H"),
}

_FORBIDDEN = "/\\{}*?[]\x7f"
# Much of what can go wrong, and other texts of hypothesis.
values = st.one_of(
    st.none(),
    st.text(),
    st.text(alphabet="ab-_./%=\\: 0FdeAult'\n\0é語", max_size=8),
    st.sampled_from(["", ".", "..", "...", "/", "a/b", "../x", "default_a", "default_u", "%41", "NULL", "%2e%2e"]),
)
times = st.one_of(st.none(), st.datetimes(dt.datetime(1000, 1, 8), dt.datetime(9999, 12, 20)))  # noqa: DTZ001
_static = st.one_of(
    st.sampled_from(["-", "_", "=", "k=", ".", "..", " ", "%2F", "d", "default_", "city-", "年", "'"]),
    st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S"], exclude_characters=_FORBIDDEN), min_size=1),
)
_default = st.one_of(st.none(), st.sampled_from(["", "unknown", "u", "default_a", "d-e", "a/b", "..", "x.y", "2025"]))


def _placeholder(column: str, default: str | None, granularity: str = "") -> str:
    if default is None and not granularity:
        return f"{{{quoted(column)}}}"
    return f"{{{quoted(column)},{default or ''},{granularity}}}"


@dataclass(frozen=True)
class Piece:
    """A placeholder's text; `whole` where its value may be of any length."""

    text: str
    whole: bool


@st.composite
def templates(draw: st.DrawFn, *, of_files: bool = False) -> str:
    """The text of a template that is not malformed, or of the names of files."""
    columns = draw(st.lists(st.sampled_from(TEXT_COLUMNS), unique=True, max_size=4))
    pieces = [Piece(_placeholder(column, draw(_default)), whole=True) for column in columns]
    for column in draw(st.lists(st.sampled_from(sorted(TIME_COLUMNS)), unique=True, max_size=2)):
        default = draw(_default)
        pieces += [Piece(_placeholder(column, default, part), whole=False) for part in TIME_COLUMNS[column][0]]
    pieces = draw(st.permutations(pieces or [Piece("{a}", whole=True)]))
    text = draw(st.sampled_from(["", "sales_"] if of_files else ["", "/", "raw/", "v1.0/"]))
    for index, piece in enumerate(pieces):
        static = draw(st.just("") | _static)
        if index and not of_files and draw(st.booleans()):
            static = f"/{static}"
        elif index and pieces[index - 1].whole and not set(static) - set("0123456789ABCDEF%"):
            static = f"{static}-"
        text += static + piece.text
    return text + draw(st.sampled_from([".parquet", "-*.parquet", "x", "_*"]) if of_files else st.just("") | _static)
