"""A landed text is what the tool of its codec reads of it; what is damaged, cut or more is an error."""

import bz2
import codecs
import gzip
import lzma
import shutil
import struct
import subprocess
from collections.abc import Callable
from functools import partial

import pyarrow as pa
import pytest

from lake_assets.config.formats import TextFormat
from lake_assets.storage.formats import text_files
from lake_assets.storage.formats.text_files import TextFile
from lake_assets_tests.storage.formats.packed import packed

A, B = b"first, " * 300, b"second, " * 300


PACK: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": partial(packed, "zstd"),
    "lz4": partial(packed, "lz4"),
}
SKIPPED = struct.pack("<II", 0x184D2A50, 4) + b"size"  # as pzstd puts it before each frame
EMPTY_FRAME = struct.pack("<II", 0x184D2A5F, 0)
ERROR = "error"


def cases(codec: str) -> dict[str, tuple[bytes, bytes | str]]:
    """Files of a codec, each with its text, or `ERROR`."""
    pack = PACK[codec]
    a, b, empty, zeros = pack(A), pack(B), pack(b""), bytes(8)
    is_padded = codec in {"gzip", "xz"}
    found: dict[str, tuple[bytes, bytes | str]] = {
        "member": (a, A),
        "two": (a + b, A + B),
        "nothing": (empty, b""),
        "empty first": (empty + a, A),
        "empty last": (a + empty, A),
        "empty between": (a + empty + empty + b, A + B),
        "zeros behind": (a + zeros, A if is_padded else ERROR),
        "zeros between": (a + zeros + b, A + B if is_padded else ERROR),
        "three zeros": (a + zeros[:3], A if codec == "gzip" else ERROR),
        "many zeros": (a + bytes(70_000), A if is_padded else ERROR),
        "zeros and more": (a + zeros + b"more", ERROR),
        "text behind": (a + b"and no member", ERROR),
        "byte behind": (a + b"x", ERROR),
        "cut by a byte": (a[:-1], ERROR),
        "cut in half": (a[: len(a) // 2], ERROR),
        "second cut": (a + b[:-1], ERROR),
        "second cut to its head": (a + b[:3], ERROR),
        "second damaged": (a + b[:1] + bytes([b[1] ^ 1]) + b[2:], ERROR),
    }
    if codec in {"zstd", "lz4"}:
        found |= {
            "frame first": (SKIPPED + EMPTY_FRAME + a, A),
            "frame between": (a + SKIPPED + b, A + B),
            "frame last": (a + SKIPPED, A),
            "frame cut": (a + SKIPPED[:9], ERROR),
            "frames alone": (SKIPPED, b""),
        }
    return found


def read(body: bytes, **form: str) -> bytes | str:
    """All of a landed text, or `ERROR`."""
    parts, space = [], memoryview(bytearray(500))
    try:
        text = TextFile(pa.BufferReader(body), TextFormat(**form), "the object")
        while size := text.readinto(space):
            parts.append(bytes(space[:size]))
    except (pa.ArrowInvalid, OSError):
        return ERROR
    return b"".join(parts)


@pytest.mark.parametrize("codec", PACK)
def test_all_members_are_read_and_anything_else_is_an_error(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = {case: text for case, (_, text) in cases(codec).items()}

    assert {case: read(body) for case, (body, _) in cases(codec).items()} == expected
    monkeypatch.setattr(text_files, "_AT_ONCE", 5)  # each border of members and reads
    assert {case: read(body) for case, (body, _) in cases(codec).items()} == expected


@pytest.mark.parametrize("codec", PACK)
def test_what_the_own_tool_reads_is_read(codec: str) -> None:
    if (tool := shutil.which(codec)) is None:
        pytest.skip(f"{codec} is not installed")
    for case, (body, text) in cases(codec).items():
        result = subprocess.run([tool, "-dc"], input=body, capture_output=True, check=False)
        if not result.returncode and not result.stderr:  # bzip2 warns of what it leaves out, and returns 0
            assert result.stdout == text, case


MARKED = {"utf-8": codecs.BOM_UTF8, "utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE}
MARKED |= {"utf-32-le": codecs.BOM_UTF32_LE, "utf-32-be": codecs.BOM_UTF32_BE}
TEXT = "Zürich, \U0001f600\r\n" * 9


@pytest.mark.parametrize("encoding", MARKED)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_mark_tells_the_encoding_whatever_is_declared(encoding: str, pack: Callable[[bytes], bytes]) -> None:
    body = MARKED[encoding] + TEXT.encode(encoding)

    for declared in ("utf-8", "latin-1", "utf-16"):
        assert read(pack(body), encoding=declared) == TEXT.encode()


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-32-be", "shift_jis", "gb18030"])
def test_a_text_whose_last_character_is_cut_is_an_error(encoding: str) -> None:
    body = "Z, 日本".encode(encoding)

    assert read(body, encoding=encoding) == "Z, 日本".encode()
    assert read(body[:-1], encoding=encoding) == ERROR
