"""YAML text as nodes: one document of limited depth and size. Each error has line, column and how to fix it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import yaml
from yaml.resolver import Resolver

MAX_DEPTH = 50
MAX_VALUES = 50_000
HALF_A_PAIR = "half a surrogate pair (\\uD800 to \\uDFFF) is in the text: write the character itself"

# libyaml reads ten times as fast; a PyYAML that was built without it has only its own parser.
_AnyLoader = yaml.SafeLoader | yaml.CSafeLoader
_Loader: type[_AnyLoader] = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
_UNPRINTABLE = re.compile("[^\x09\x0a\x0d\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_RESOLVER: Any = Resolver()  # its methods have no types

TAG = "tag:yaml.org,2002:"
_COLLECTIONS = (None, "!", f"{TAG}map", f"{TAG}seq")

# By a part of the parser's message, or of its context: our message.
_MESSAGES: Mapping[str, str] = MappingProxyType(
    {
        "Unicode character escape": HALF_A_PAIR,
        "escape character": "a backslash in double quotes does not begin an escape: write \\\\, or use single quotes",
        "quoted scalar": "the quote that opens in line {line} is not closed: close it",
        "flow sequence": "the list that opens in line {line} has no comma or end here: write it as [a, b]",
        "flow mapping": "the mapping that opens in line {line} has no comma or end here: write it as {{a: b, c: d}}",
        "mapping values are not allowed": "a colon without a key before it: put a text with ': ' in quotes, or "
        "indent the line as the keys beside it",
        "could not find expected ':'": "a key without a value: write it as `key: value`",
        "tag": "a tag that is malformed: remove it, or put a text that begins with ! in quotes",
        "block mapping": "the line is not a key beside those above it: indent it as they are, and put a text that "
        "has quotes or brackets in it in quotes as a whole",
        "block collection": "the line is not an entry of the list above it: begin it with `- `, indented as they are",
        "document start": "text follows the end of the file: remove `...` and what follows, or the line before `---`",
        "YAML document": "the file names another version of YAML: remove the line %YAML",
        "directive": "a line that begins with % is for YAML's parser: remove it",
    }
)


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """An error in a config: its line and column, from 1 on, and what is wrong with how to fix it."""

    line: int
    column: int
    text: str

    @classmethod
    def at(cls, mark: Any, text: str) -> "Problem":  # noqa: ANN401 - the two parsers' marks have no common class
        """Return the problem at a parser's mark."""
        return cls(mark.line + 1, mark.column + 1, text)


class ConfigSyntaxError(Exception):
    """A text that cannot be read as YAML, or not as a config."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.text)
        self.problem = problem


def compose(text: str) -> yaml.Node | None:
    """Return the root node of the text's only document, with aliases resolved to their nodes; None if it is empty.

    Raises ConfigSyntaxError if the text is not YAML, or has a second document, an unknown or recursive alias, an
    unknown tag, or more than `MAX_DEPTH` levels.
    """
    if unprintable := _UNPRINTABLE.search(text):
        message = f"the character U+{ord(unprintable[0]):04X} cannot be in a config: remove it"
        raise ConfigSyntaxError(Problem(*position(text, unprintable.start()), message))
    loader = _Loader(text)
    try:
        return _Composer(loader).document()
    except yaml.MarkedYAMLError as error:
        raise ConfigSyntaxError(_problem(error, text)) from error
    finally:
        loader.dispose()


def position(text: str, offset: int) -> tuple[int, int]:
    """Return line and column of a character, from 1 on."""
    before = re.split(r"\r\n|[\n\r]", text[:offset])
    return len(before), len(before[-1]) + 1


@lru_cache(4096)  # keys and words are repeated in every stream of a config
def implicit_tag(value: str, implicit: tuple[bool, bool] = (True, False)) -> str:
    """Return the tag that YAML gives a text without a tag.

    `implicit`: whether it is written without quotes, and whether with them.
    """
    return str(_RESOLVER.resolve(yaml.ScalarNode, value, implicit))


class _Composer:
    """Makes nodes of a parser's events, as PyYAML's composer does, but within limits."""

    def __init__(self, loader: _AnyLoader) -> None:
        self._loader = loader
        self._anchors: dict[str, yaml.Node | None] = {}  # None: the node is not complete yet
        self._left = MAX_VALUES

    def document(self) -> yaml.Node | None:
        self._loader.get_event()
        if self._loader.check_event(yaml.StreamEndEvent):
            return None
        self._loader.get_event()
        node = self._node(1)
        self._loader.get_event()
        if not self._loader.check_event(yaml.StreamEndEvent):
            message = "a second document begins here: put all into one, without the line `---`"
            raise _error(self._loader.get_event(), message)
        return node

    def _node(self, depth: int) -> yaml.Node:
        event: Any = self._loader.get_event()
        if isinstance(event, yaml.AliasEvent):
            return self._aliased(event)
        self._left -= 1
        if self._left < 0:
            raise too_many_values(event)
        if depth > MAX_DEPTH:
            raise _error(event, f"more than {MAX_DEPTH} levels: write it less deeply nested")
        if event.anchor:
            self._anchors[event.anchor] = None
        node = self._scalar(event) if isinstance(event, yaml.ScalarEvent) else self._collection(event, depth)
        if event.anchor:
            self._anchors[event.anchor] = node
        return node

    def _aliased(self, event: Any) -> yaml.Node:  # noqa: ANN401 - as above
        name = event.anchor
        if name not in self._anchors:
            raise _error(event, f"there is no &{name} above *{name}: put a text that begins with * in quotes")
        node = self._anchors[name]
        if node is None:
            raise _error(event, f"*{name} is part of what it repeats: write the value out")
        return node

    def _scalar(self, event: Any) -> yaml.ScalarNode:  # noqa: ANN401 - as above
        tag = event.tag
        if tag is None or tag == "!":
            tag = implicit_tag(event.value, event.implicit)
        return yaml.ScalarNode(tag, event.value, event.start_mark, None, style=event.style)

    def _collection(self, event: Any, depth: int) -> yaml.Node:  # noqa: ANN401 - as above
        if event.tag not in _COLLECTIONS:
            raise _error(event, f"the tag {shown_tag(event.tag)} means nothing here: remove it")
        start = event.start_mark
        if isinstance(event, yaml.SequenceStartEvent):
            items: list[yaml.Node] = []
            while not self._loader.check_event(yaml.SequenceEndEvent):
                items.append(self._node(depth + 1))
            self._loader.get_event()
            return yaml.SequenceNode(f"{TAG}seq", items, start)
        pairs = []
        while not self._loader.check_event(yaml.MappingEndEvent):
            key = self._node(depth + 1)
            pairs.append((key, self._node(depth + 1)))
        self._loader.get_event()
        return yaml.MappingNode(f"{TAG}map", pairs, start)


def _error(event: Any, text: str) -> ConfigSyntaxError:  # noqa: ANN401 - as above
    return ConfigSyntaxError(Problem.at(event.start_mark, text))


def too_many_values(event: Any) -> ConfigSyntaxError:  # noqa: ANN401 - as above
    """Return the error for a text with more than `MAX_VALUES` keys and values, at an event or node."""
    limit = f"more than {MAX_VALUES:,} keys and values, each alias counted with all that it repeats"
    return _error(event, f"{limit}: write a smaller config")


def shown_tag(tag: str) -> str:
    """Return a tag as it is written: `!!set`."""
    return f"!!{tag.removeprefix(TAG)}" if tag.startswith(TAG) else tag


def _problem(error: yaml.MarkedYAMLError, text: str) -> Problem:
    mark, start = error.problem_mark, error.context_mark
    if mark is None:
        return Problem(1, 1, f"no YAML: {error.problem}")
    lines = text.splitlines()
    character = lines[mark.line][mark.column : mark.column + 1] if mark.line < len(lines) else ""
    if character == "\t":
        return Problem.at(mark, "a tab: YAML is indented with spaces, so write spaces in its place")
    if "cannot start any token" in str(error.problem):
        return Problem.at(mark, f"a text cannot begin with {character}: put it in quotes")
    words = f"{error.problem} {error.context or ''}"
    known = next((message for part, message in _MESSAGES.items() if part in words), None)
    message = known.format(line=(start or mark).line + 1) if known else f"{error.problem}: correct the line"
    # A value that is open at the end of the file is reported at its beginning.
    return Problem.at(mark if character or start is None else start, message)
