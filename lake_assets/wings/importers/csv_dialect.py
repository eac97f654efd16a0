"""The dialect of CSV, from the begin of one file: DuckDB's sniffer tells most of it, and its values the rest."""

import codecs
import re
from collections.abc import Iterator, Mapping, Sequence
from tempfile import NamedTemporaryFile

import duckdb
import pyarrow as pa

from lake_assets.config.formats import CsvFormat
from lake_assets.schema.dialects import read_times
from lake_assets.storage.formats.csv_text import HEADER_OF_LOGS
from lake_assets.storage.formats.text_files import BOMS, mark_of

_NONE = {"", "(empty)"}  # how the sniffer says that there is no such character
_DAYS = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d")
_CLOCKS = (" %H:%M:%S", " %H:%M")
_NULLS = ("NULL", "null", r"\N", "NA", "N/A", "n/a", "None", "-")
_COMMA = re.compile(r"-?(?:\d{1,3}(?P<thousands>\.\d{3})+|\d+),\d+|-?\d{1,3}(?:\.\d{3})+")
_THOUSANDS = re.compile(r"-?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_TYPED = (_COMMA, _THOUSANDS, _NUMBER, re.compile(r"\d{4}-\d\d-\d\d.*"))


def encoding_of(begin: bytes) -> str:
    """Return the encoding of a text that begins so: UTF-8, UTF-16 without a mark, or else Windows-1252."""
    if mark_of(begin):
        return "utf-8"  # the mark counts more
    for half, name in enumerate(("utf-16-be", "utf-16-le")):
        if len(begin) > 1 and begin[half::2].count(0) > len(begin) // 4 > 4 * begin[1 - half :: 2].count(0):
            return name
    try:
        codecs.getincrementaldecoder("utf-8")().decode(begin)  # the last character may be cut
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"


def sniffed(begin: bytes, form: CsvFormat) -> tuple[CsvFormat, list[str]]:
    """Return the dialect of a text, by its first bytes, decompressed, and what of it is not certain.

    The format by the file's name stays, but for the encoding, if the text tells nothing.
    """
    mark, encoding = mark_of(begin), encoding_of(begin)
    form = form.model_copy(update={"encoding": encoding})
    text = begin[len(mark) if BOMS.get(mark) == "utf-8" else 0 :].decode(BOMS.get(mark, encoding), "ignore").encode()
    whole = text[: text.rfind(b"\n") + 1] or text
    with NamedTemporaryFile(suffix=".csv") as file, duckdb.connect() as client:
        file.write(whole)
        file.flush()
        try:
            result = client.execute("SELECT * FROM sniff_csv(?)", [file.name])
            names = [column[0] for column in result.description or ()]
            dialect = _sniffed_format(dict(zip(names, result.fetchone() or (), strict=True)), form, whole)
            columns = _columns(client, file.name, dialect)
        except duckdb.Error:
            return form, []
    doubts: list[str] = []
    values = {**_marks(columns, dialect), **dict(_times(columns, doubts))}
    return CsvFormat.model_validate(dialect.model_dump() | values), doubts


def _sniffed_format(answer: Mapping[str, object], form: CsvFormat, text: bytes) -> CsvFormat:
    """Return the format with what the sniffer tells."""
    marks = {key: str(answer[name]) for key, name in (("quote", "Quote"), ("escape", "Escape"), ("comment", "Comment"))}
    given: dict[str, object] = {key: mark for key, mark in marks.items() if mark not in _NONE}
    if given.get("escape") == given.get("quote", form.quote):
        given.pop("escape", None)
    columns = answer["Columns"]
    assert isinstance(columns, list)  # noqa: S101 - DuckDB's type
    if "comment" in given and HEADER_OF_LOGS.search(text):
        return CsvFormat.model_validate(form.model_dump() | given | {"delimiter": str(answer["Delimiter"])})
    if not answer["HasHeader"]:
        given |= {"header": False, "names": tuple(f"column_{number}" for number in range(1, len(columns) + 1))}
    if len(columns) > 1:
        given["delimiter"] = str(answer["Delimiter"])
    return CsvFormat.model_validate(form.model_dump() | given | {"skip_lines": answer["SkipRows"]})


def _columns(client: duckdb.DuckDBPyConnection, path: str, form: CsvFormat) -> dict[str, list[str]]:
    """Return the texts of each column, without those that are empty."""
    rows = client.read_csv(
        path,
        all_varchar=True,
        delimiter=form.delimiter,
        quotechar=form.quote or "",
        escapechar=form.escape or form.quote or "",
        header=form.header,
        skiprows=form.skip_lines,
        comment=form.comment or "",
    ).to_arrow_table()
    return {
        name: [text for text in column.to_pylist() if text]
        for name, column in zip(rows.column_names, rows.columns, strict=True)
    }


def _marks(columns: Mapping[str, Sequence[str]], form: CsvFormat) -> dict[str, object]:
    """Return the marks of numbers, and the texts that are NULL because numbers or dates are beside them."""
    marks: dict[str, object] = {}
    nulls = [""]
    for texts in columns.values():
        absent = {text for text in texts if text in _NULLS}
        values = [text for text in texts if text not in absent]
        if form.delimiter != "," and values and any(map(_COMMA.fullmatch, values)):
            if all(_COMMA.fullmatch(text) or re.fullmatch(r"-?\d+", text) for text in values):
                marks["decimal"] = ","
                if any("." in text for text in values):
                    marks["thousands"] = "."
        elif any(map(_THOUSANDS.fullmatch, values)) and all(
            _THOUSANDS.fullmatch(text) or _NUMBER.fullmatch(text) for text in values
        ):
            marks["thousands"] = ","
        are_typed = values and all(any(kind.fullmatch(text) for kind in _TYPED) for text in values)
        nulls += sorted(text for text in absent if (are_typed or text == r"\N") and text not in nulls)
    return marks | ({"nulls": tuple(nulls)} if len(nulls) > 1 else {})


def _times(columns: Mapping[str, Sequence[str]], doubts: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the formats of dates and timestamps that are the only ones to read a column."""
    for name, texts in columns.items():
        values = pa.array([text for text in texts if text not in _NULLS], pa.string())
        for key, clocks in (("date_format", ("",)), ("timestamp_format", _CLOCKS)):
            forms = [day + clock for clock in clocks for day in _DAYS if len(values) and _reads(values, day + clock)]
            if len(forms) == 1:
                yield key, forms[0]
            elif forms:
                doubts.append(f"{name} may be {' or '.join(forms)}: write `{key}` in `format`, else it is a text")


def _reads(texts: pa.Array, form: str) -> bool:
    try:
        read_times(texts, form, pa.timestamp("us"))
    except pa.ArrowInvalid:
        return False
    return True
