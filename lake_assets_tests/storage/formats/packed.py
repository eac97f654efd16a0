"""Compressed texts by Arrow's writer."""

import pyarrow as pa


def packed(codec: str, body: bytes) -> bytes:
    """Return a text as one member of a codec."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as file:
        file.write(body)
    return bytes(sink.getvalue().to_pybytes())
