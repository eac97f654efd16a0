"""Footers of landed Parquet objects, and the errors of reading them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from lake_assets.config.secrets import mask_error, masking
from lake_assets.config.storages import AnyStorage, LocalStorage
from lake_assets.errors import SourceError
from lake_assets.escapes import visible_name
from lake_assets.parquet.parquet_files import ParquetRows
from lake_assets.parquet.row_groups import Box, span_of
from lake_assets.storage.arrow import ArrowStore
from lake_assets.storage.storage_errors import changed_object, storage_error
from lake_assets.storage.store import Store
from lake_assets.storage.vendor_errors import Meaning, meaning_of

BATCH_ROWS = 131_072
_TITLES = {"parquet": "Parquet", "csv": "CSV", "json": "JSON", "orc": "ORC", "avro": "Avro"}
FOOTERS = 16  # read in parallel: most of the time is network latency


def read_schema(store: ArrowStore, key: str, *, as_it_is: bool = False) -> pa.Schema:
    """Return the Arrow schema of one object, from its footer.

    With `as_it_is`, the object becomes a lake file, so DuckLake must be able to read it.
    """
    _, schema = read_footer(store, key, as_it_is=as_it_is)
    return schema


def read_footer(store: ArrowStore, key: str, *, as_it_is: bool = False) -> tuple[int, pa.Schema]:
    """Return the number of rows of one object, and the Arrow schema of its columns, from its footer."""
    with opened(store, key) as file:
        rows = ParquetRows(file, f"the object {visible_name(store.uri(key))}")
        if as_it_is:
            rows.refuse_misread()
        return rows.count, rows.schema


@contextmanager
def opened(store: ArrowStore, key: str, form: str = "parquet") -> Iterator[pa.NativeFile]:
    """Open an object of a format; errors in the block name it, as those of `readable`."""
    with masking(store.storage), readable(store.storage, store.uri(key), form), store.open(key) as file:
        yield file


@contextmanager
def readable(storage: AnyStorage, uri: str, form: str = "parquet") -> Iterator[None]:
    """Turn errors of Arrow into errors that name the object, or the store if that failed."""
    try:
        yield
    except (OSError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        means = meaning_of(error)
        if means is Meaning.NOT_FOUND:
            raise changed_object(uri, "vanished") from error
        if getattr(error, "errno", None) is not None or means is not None:
            mask_error(error, storage)
            refusal = Store(storage).refusal(uri.removeprefix(f"{storage.root}/"))
            raise (refusal or storage_error(error, storage, "read", uri)) from error
        ours = None if isinstance(storage, LocalStorage) else ArrowStore(storage).misled(uri)
        raise (ours or _damaged(uri, form, error)) from error


def _damaged(uri: str, form: str, error: Exception) -> SourceError:
    why = " ".join(str(error).split()).rstrip(".")
    if why.startswith("Parquet magic bytes not found in footer"):  # Arrow's text is two sentences that guess
        why = "it has no Parquet footer"
    problem = f"the object {visible_name(uri)} cannot be read as {_TITLES[form]}: {why}:"
    if "requires too much memory" in why:  # zstd's
        return SourceError(problem, "let its writer compress it with a window of 128 MiB at most (zstd --long=27).")
    if "out of range for nanosecond" in why:  # of ORC, whose timestamps Arrow reads in nanoseconds
        return SourceError(problem, "let its writer land times of 1677 to 2262, or leave the column out by omit: true.")
    return SourceError(problem, "remove it, or let its writer land it again.")


def read_spans(file: pa.NativeFile, names: Sequence[str]) -> set[Box] | None:
    """Return the values of some columns in the row groups of an object, from its footer; None if it lacks a column.

    Names are in lower case; columns of the object may have others of it.
    """
    rows = ParquetRows(file, "")
    footer, old = rows.parquet.metadata, {name.lower() for name in rows.columns.old}
    paths = [footer.schema.column(index).path.lower() for index in range(len(footer.schema))]
    if not set(names) <= set(paths):
        return None
    indexes = [(paths.index(name), name in old) for name in names]
    groups = (footer.row_group(number) for number in range(footer.num_row_groups))
    return {
        tuple(span_of(group.column(index).statistics, is_old=is_old) for index, is_old in indexes)
        for group in groups
        if group.num_rows
    }
