"""The formats of landed files, and the dialects of those that are texts."""

import codecs
from pathlib import PurePosixPath
from typing import Annotated, ClassVar, Literal, Self

import pyarrow as pa
from pyarrow import types as t
from pydantic import AfterValidator, BeforeValidator, ByteSize, Field, model_validator

from lake_assets.config.column_types import time_format
from lake_assets.config.fields import Model, short_for

COMPRESSED = frozenset({".gz", ".zst", ".bz2", ".lz4", ".xz"})
"""Suffixes of the names of compressed files."""

_MOST_SAMPLED = 1000


def _check_encoding(name: str) -> str:
    try:
        return codecs.lookup(name).name
    except LookupError:
        raise ValueError(f"there is no encoding {name!r}: use utf-8, utf-16, latin-1, cp1252 or another one") from None


def _of_dates(text: str) -> str:
    time_format(text, pa.date32())
    return text


def _of_timestamps(text: str) -> str:
    time_format(text, pa.timestamp("us", "UTC"))
    return text


Character = Annotated[str, Field(min_length=1, max_length=1)]
Encoding = Annotated[str, AfterValidator(_check_encoding)]


class FormatModel(Model):
    """What the config says of a format; `storage/formats/` reads it. No other code asks for the type of a format."""

    title: ClassVar[str]  # for people
    files: ClassVar[str]  # the pattern of the names of its files
    is_of_lakes: ClassVar[bool] = False  # a lake can have its files as they are, and `land` writes them
    has_types: ClassVar[bool] = True  # of columns; those of a text are inferred
    has_statistics: ClassVar[bool] = False  # of the values in parts of a file, and descriptions of its columns
    counts_rows: ClassVar[bool] = False  # a file tells its number of rows without being read
    may_be_compressed: ClassVar[bool] = False  # as a whole, and then its name has one more suffix

    @property
    def dialect(self) -> "CsvFormat | None":
        """The dialect of its texts, if there are several, of which a sample may show one."""
        return None

    def reads(self, kind: pa.DataType) -> bool:  # noqa: ARG002 - its files have types of their own
        """Return whether its values can be read as a type."""
        return True


class ParquetFormat(FormatModel):
    """Parquet files."""

    type: Literal["parquet"] = "parquet"
    title = "Parquet"
    files = "*.parquet"
    is_of_lakes = has_statistics = counts_rows = True


class OrcFormat(FormatModel):
    """ORC files."""

    type: Literal["orc"] = "orc"
    title = "ORC"
    files = "*.orc"
    counts_rows = True


class AvroFormat(FormatModel):
    """Avro object container files."""

    type: Literal["avro"] = "avro"
    title = "Avro"
    files = "*.avro"


class TextFormat(FormatModel):
    """What all formats have that are texts."""

    has_types = False
    may_be_compressed = True

    encoding: Encoding = Field("utf-8", description="Of the text; a byte order mark at its begin counts more.")
    sample: int = Field(
        16, ge=1, le=_MOST_SAMPLED, description="Objects from which the types of a table's columns are inferred."
    )
    most_decompressed: ByteSize = Field(
        default=ByteSize(64 * 2**30), ge=1, description="Bytes that an object may have when it is decompressed."
    )

    def reads(self, kind: pa.DataType) -> bool:
        """Return whether its texts can be read as a type."""
        return not (t.is_nested(kind) or t.is_time(kind) or isinstance(kind, pa.BaseExtensionType))


class CsvFormat(TextFormat):
    """Comma-separated values (RFC 4180), and their dialects."""

    type: Literal["csv"] = "csv"
    title = "CSV"
    files = "*.csv*"
    delimiter: Character = Field(",", description="Between two values.")
    quote: Character | None = Field('"', description="Around a value; within one it is written twice. None: null.")
    escape: Character | None = Field(None, description="Before a quote within quotes, besides a second quote.")
    header: bool = Field(default=True, description="Whether the first line has the columns' names.")
    names: tuple[Annotated[str, Field(min_length=1)], ...] | None = Field(
        None, min_length=1, description="The columns' names, in place of those of the header."
    )
    header_blanks: Literal["trim", "keep"] = Field("trim", description="Blanks around the names of the header.")
    skip_lines: int = Field(0, ge=0, le=10_000, description="Lines before the header.")
    comment: Character | None = Field(None, description="A line that begins with it is left out.")
    nulls: tuple[str, ...] = Field(("",), description="Texts without quotes that are NULL.")
    quoted_nulls: bool = Field(default=False, description="Whether these texts are NULL within quotes too.")
    ragged: Literal["fail", "pad"] = Field(
        "fail", description="A line with fewer values than columns: it is a bad row, or the others are NULL."
    )
    decimal: Character = Field(".", description="Before the decimals of a number.")
    thousands: Character | None = Field(None, description="Between the thousands of a number, and left out.")
    date_format: Annotated[str, AfterValidator(_of_dates)] | None = Field(
        None, description="Of dates, as strptime has it: `%d.%m.%Y`; ISO 8601 when absent."
    )
    timestamp_format: Annotated[str, AfterValidator(_of_timestamps)] | None = Field(
        None, description="Of timestamps: `%d/%m/%Y %H:%M:%S`; ISO 8601 when absent."
    )

    @property
    def dialect(self) -> "CsvFormat":
        """Itself."""
        return self

    @model_validator(mode="after")
    def _characters_differ(self) -> Self:
        used = {name: getattr(self, name) for name in ("delimiter", "quote", "escape", "comment", "decimal")}
        for key, character in used.items():
            if character is None:
                continue
            if character in "\r\n" or not character.isascii():
                raise ValueError(f"{key} {character!r} is not one ASCII character within a line: use another one")
            if (first := next(name for name in used if used[name] == character)) != key and key != "escape":
                raise ValueError(f"{key} and {first} are both {character!r}: change one of them")
        if self.decimal == self.thousands:
            raise ValueError(f"decimal and thousands are both {self.decimal!r}: change one of them")
        if not self.header and self.names is None:
            raise ValueError("header: false needs the names of the columns: add names")
        names = [name.lower() for name in self.names or ()]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"names has {twice!r} twice: rename one")
        return self


class CsvByName(CsvFormat):
    """CSV of which only the name is known: its header shows the delimiter."""


class JsonFormat(TextFormat):
    """JSON: an object a line, an array of objects, or objects one after the other."""

    type: Literal["json"] = "json"
    title = "JSON"
    files = "*.*json*"

    def reads(self, kind: pa.DataType) -> bool:
        """Return whether its values can be read as a type, which may be nested."""
        if t.is_list(kind):
            return self.reads(kind.value_type)
        if t.is_struct(kind):
            return all(self.reads(field.type) for field in kind)
        if t.is_map(kind):
            return not t.is_nested(kind.key_type) and self.reads(kind.item_type)
        return super().reads(kind)


class AutoFormat(FormatModel):
    """Files whose names show their format."""

    type: Literal["auto"] = "auto"
    files = "*.*"
    has_types = False


FileFormat = ParquetFormat | OrcFormat | AvroFormat | CsvFormat | JsonFormat
LandedFormat = FileFormat | AutoFormat

FormatOrName = Annotated[
    Annotated[LandedFormat, Field(discriminator="type")],
    BeforeValidator(
        short_for("type"),
        json_schema_input_type=Literal["parquet", "orc", "avro", "csv", "json", "auto"] | LandedFormat,
    ),
]

PARQUET = ParquetFormat()

_BY_SUFFIX: dict[str, FileFormat] = {
    **dict.fromkeys((".parquet", ".parq", ".pq"), PARQUET),
    ".orc": OrcFormat(),
    ".avro": AvroFormat(),
    **dict.fromkeys((".csv", ".txt"), CsvByName()),
    **dict.fromkeys((".tsv", ".tab"), CsvFormat(delimiter="\t")),
    **dict.fromkeys((".json", ".jsonl", ".ndjson", ".geojson"), JsonFormat()),
}


def format_by_name(name: str) -> FileFormat | None:
    """Return the format that the suffix of a file's name shows, before that of a compression; None if it shows none."""
    suffixes = [suffix.lower() for suffix in PurePosixPath(name).suffixes if suffix.lower() not in COMPRESSED]
    return _BY_SUFFIX.get(suffixes[-1]) if suffixes else None
