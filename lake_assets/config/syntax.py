"""YAML as nodes: one document of limited depth; each fault has its line and column, and says how to fix it."""

import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import yaml
from yaml.resolver import Resolver

MAX_DEPTH = 50
MAX_VALUES = 50_000
HALF_A_PAIR = "half a surrogate pair (\\uD800 to \\uDFFF) is in the text: write the character itself"

# libyaml reads ten times as fast; a PyYAML that was built without it has only its own parser.
_Loader: type[yaml.SafeLoader] | type[yaml.CSafeLoader] = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
_UNPRINTABLE = re.compile("[^\x09\x0a\x0d\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_RESOLVER: Any = Resolver()  # its methods have no types

_TAG = "tag:yaml.org,2002:"
_COLLECTIONS = (None, "!", f"{_TAG}map", f"{_TAG}seq")

# What a parser says, or the part of the file that it is in, and what to do about it.
_FAULTS: Mapping[str, str] = MappingProxyType(
    {
        "Unicode character escape": HALF_A_PAIR,
        "escape character": "a backslash in double quotes before what is no escape: write \\\\, or use single quotes",
        "quoted scalar": "the quote that opens in line {line} is not closed: close it",
        "flow sequence": "the list that opens in line {line} has no comma or end here: write it as [a, b]",
        "flow mapping": "the mapping that opens in line {line} has no comma or end here: write it as {{a: b, c: d}}",
        "mapping values are not allowed": "a colon follows what is no key here: put a text with ': ' in quotes, or "
        "indent the line as the keys beside it",
        "could not find expected ':'": "a key without a value: write it as `key: value`",
        "tag": "a tag that is malformed: remove it, or put a text that begins with ! in quotes",
        "block mapping": "the line is not a key beside those above it: indent it as they are, and put a text that "
        "has quotes or brackets in it in quotes as a whole",
        "block collection": "the line is no entry of the list above it: begin it with `- ` and indent it as they are",
        "document start": "the file goes on after its end: remove `...` and what follows, or the line before `---`",
        "YAML document": "the file says that it is of another version of YAML: remove the line %YAML",
        "directive": "a line that begins with % is for YAML's parser: remove it",
    }
)


class SyntaxFault(Exception):  # noqa: N818 - one of many that ConfigError tells
    """What makes a text no YAML that can be read as a config.

    Args:
        line, column: where, from 1 on.
        text: what is wrong and how to fix it, without a full stop.
    """

    def __init__(self, line: int, column: int, text: str) -> None:
        super().__init__(text)
        self.line = line
        self.column = column
        self.text = text

    @classmethod
    def at(cls, mark: Any, text: str) -> "SyntaxFault":  # noqa: ANN401 - the stubs know no class of both parsers
        """The fault at a parser's mark, of which there are two classes."""
        return cls(mark.line + 1, mark.column + 1, text)


def compose(text: str) -> yaml.Node | None:
    """The text's one document, its aliases resolved to the nodes that they name; None of an empty text.

    Raises:
        SyntaxFault: it is no YAML, has a second document, an alias of nothing or of itself, an unknown tag, or more
            than `MAX_DEPTH` levels.
    """
    if odd := _UNPRINTABLE.search(text):
        line, column = position(text, odd.start())
        raise SyntaxFault(line, column, f"the character U+{ord(odd[0]):04X} cannot be in a config: remove it")
    loader = _Loader(text)
    try:
        return _Composer(loader).document()
    except yaml.MarkedYAMLError as error:
        raise _told(error, text) from error
    finally:
        loader.dispose()


def position(text: str, offset: int) -> tuple[int, int]:
    """Line and column of a character, from 1 on."""
    before = re.split(r"\r\n|[\n\r]", text[:offset])
    return len(before), len(before[-1]) + 1


def resolved(value: str) -> str:
    """The tag that YAML gives the text where it is written without quotes."""
    return _tag(value, (True, False))


@lru_cache(4096)
def _tag(value: str, implicit: tuple[bool, bool]) -> str:
    """The tag of a text; keys and words come back in every stream of a config."""
    return str(_RESOLVER.resolve(yaml.ScalarNode, value, implicit))


class _Composer:
    def __init__(self, loader: "yaml.SafeLoader | yaml.CSafeLoader") -> None:
        self._loader = loader
        self._anchors: dict[str, yaml.Node | None] = {}  # None: not at its end yet
        self._left = MAX_VALUES

    def document(self) -> yaml.Node | None:
        self._loader.get_event()
        if self._loader.check_event(yaml.StreamEndEvent):
            return None
        self._loader.get_event()
        node = self._node(1)
        self._loader.get_event()
        if not self._loader.check_event(yaml.StreamEndEvent):
            event: Any = self._loader.get_event()
            raise SyntaxFault.at(
                event.start_mark, "a second document begins here: put all into one, without the line `---`"
            )
        return node

    def _node(self, depth: int) -> yaml.Node:
        event: Any = self._loader.get_event()
        if isinstance(event, yaml.AliasEvent):
            return self._named(event)
        self._left -= 1
        if self._left < 0:
            raise too_many(event.start_mark)
        if depth > MAX_DEPTH:
            raise SyntaxFault.at(event.start_mark, f"more than {MAX_DEPTH} levels: write it less deeply nested")
        if event.anchor:
            self._anchors[event.anchor] = None
        node = self._scalar(event) if isinstance(event, yaml.ScalarEvent) else self._collection(event, depth)
        if event.anchor:
            self._anchors[event.anchor] = node
        return node

    def _named(self, event: Any) -> yaml.Node:  # noqa: ANN401 - as above
        if event.anchor not in self._anchors:
            raise SyntaxFault.at(
                event.start_mark,
                f"*{event.anchor} repeats nothing, as no &{event.anchor} is above it: put a text that begins with * "
                "in quotes",
            )
        node = self._anchors[event.anchor]
        if node is None:
            raise SyntaxFault.at(event.start_mark, f"*{event.anchor} is part of what it repeats: write the value out")
        return node

    def _scalar(self, event: Any) -> yaml.ScalarNode:  # noqa: ANN401 - as above
        tag = event.tag
        if tag is None or tag == "!":
            tag = _tag(event.value, event.implicit)
        return yaml.ScalarNode(tag, event.value, event.start_mark, None, style=event.style)

    def _collection(self, event: Any, depth: int) -> yaml.Node:  # noqa: ANN401 - as above
        if event.tag not in _COLLECTIONS:
            raise SyntaxFault.at(event.start_mark, f"the tag {shown_tag(event.tag)} means nothing here: remove it")
        start = event.start_mark
        if isinstance(event, yaml.SequenceStartEvent):
            items: list[yaml.Node] = []
            while not self._loader.check_event(yaml.SequenceEndEvent):
                items.append(self._node(depth + 1))
            self._loader.get_event()
            return yaml.SequenceNode(f"{_TAG}seq", items, start)
        pairs = []
        while not self._loader.check_event(yaml.MappingEndEvent):
            key = self._node(depth + 1)
            pairs.append((key, self._node(depth + 1)))
        self._loader.get_event()
        return yaml.MappingNode(f"{_TAG}map", pairs, start)


def too_many(mark: Any) -> SyntaxFault:  # noqa: ANN401 - as above
    """The fault of a text with more than `MAX_VALUES` keys and values."""
    what = f"more than {MAX_VALUES:,} keys and values, each alias counted with all that it repeats"
    return SyntaxFault.at(mark, f"{what}: write a smaller config")


def shown_tag(tag: str) -> str:
    """A tag as it is written: `!!set`."""
    return f"!!{tag.removeprefix(_TAG)}" if tag.startswith(_TAG) else tag


def _told(error: yaml.MarkedYAMLError, text: str) -> SyntaxFault:
    mark, start = error.problem_mark, error.context_mark
    if mark is None:
        return SyntaxFault(1, 1, f"no YAML: {error.problem}")
    at = _character(text, mark)
    if at == "\t":
        return SyntaxFault.at(mark, "a tab: YAML is indented with spaces, so write spaces in its place")
    if "cannot start any token" in str(error.problem):
        return SyntaxFault.at(mark, f"a text cannot begin with {at}: put it in quotes")
    words = f"{error.problem} {error.context or ''}"
    fault = next((told for known, told in _FAULTS.items() if known in words), None)
    told = fault.format(line=(start or mark).line + 1) if fault else f"{error.problem}: correct the line"
    # What is open at the end of the file is reported where it opens.
    return SyntaxFault.at(mark if at or start is None else start, told)


def _character(text: str, mark: yaml.Mark) -> str:
    lines = text.splitlines()
    return lines[mark.line][mark.column : mark.column + 1] if mark.line < len(lines) else ""
