"""A file's footer as a Parquet file of its own, without the rows: readers of metadata find the same in both.

A task returns it with the file that it wrote, so that the commit need not read the file.
"""

import pyarrow as pa
import pyarrow.parquet as pq

MOST = 2**20  # bytes of a footer that a task returns; the commit reads a larger one

_MAGIC = b"PAR1"


def of_writer(metadata: pq.FileMetaData) -> bytes | None:
    """Return the footer that a writer has written; None if it is large."""
    sink = pa.BufferOutputStream()
    metadata.write_metadata_file(sink)
    footer: bytes = sink.getvalue().to_pybytes()
    return footer if len(footer) <= MOST else None


def of_bytes(footer: bytes) -> bytes:
    """Return the footer of these bytes, which are between a file's row groups and the footer's length."""
    return b"".join((_MAGIC, footer, len(footer).to_bytes(4, "little"), _MAGIC))
