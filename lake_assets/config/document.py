"""The text of a config as Python values with their positions; variables are replaced, merge keys resolved."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import yaml
from yaml.constructor import SafeConstructor
from yaml.resolver import Resolver

from lake_assets.base.texts import is_unicode

_MAX_DEPTH = 50
MAX_VALUES = 50_000
_HALF_A_PAIR = "half a surrogate pair (\\uD800 to \\uDFFF) is in the text: write the character itself"

# libyaml reads ten times as fast; a PyYAML that was built without it has only its own parser.
_AnyLoader = yaml.SafeLoader | yaml.CSafeLoader
_Loader: type[_AnyLoader] = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
_UNPRINTABLE = re.compile("[^\x09\x0a\x0d\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_RESOLVER: Any = Resolver()  # its methods have no types

_TAG = "tag:yaml.org,2002:"
_COLLECTIONS = (None, "!", f"{_TAG}map", f"{_TAG}seq")

# By a part of the parser's message, or of its context: our message.
_MESSAGES: Mapping[str, str] = MappingProxyType(
    {
        "Unicode character escape": _HALF_A_PAIR,
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
    unknown tag, or more than `_MAX_DEPTH` levels.
    """
    if unprintable := _UNPRINTABLE.search(text):
        message = f"the character U+{ord(unprintable[0]):04X} cannot be in a config: remove it"
        raise ConfigSyntaxError(Problem(*line_and_column(text, unprintable.start()), message))
    loader = _Loader(text)
    try:
        return _Composer(loader).document()
    except yaml.MarkedYAMLError as error:
        raise ConfigSyntaxError(_problem(error, text)) from error
    finally:
        loader.dispose()


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Return line and column of a character, from 1 on."""
    before = re.split(r"\r\n|[\n\r]", text[:offset])
    return len(before), len(before[-1]) + 1


@lru_cache(4096)  # keys and words are repeated in every stream of a config
def _implicit_tag(value: str, implicit: tuple[bool, bool] = (True, False)) -> str:
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
            raise _too_many_values(event)
        if depth > _MAX_DEPTH:
            raise _error(event, f"more than {_MAX_DEPTH} levels: write it less deeply nested")
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
            tag = _implicit_tag(event.value, event.implicit)
        return yaml.ScalarNode(tag, event.value, event.start_mark, None, style=event.style)

    def _collection(self, event: Any, depth: int) -> yaml.Node:  # noqa: ANN401 - as above
        if event.tag not in _COLLECTIONS:
            raise _error(event, f"the tag {_shown_tag(event.tag)} means nothing here: remove it")
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


def _error(event: Any, text: str) -> ConfigSyntaxError:  # noqa: ANN401 - as above
    return ConfigSyntaxError(Problem.at(event.start_mark, text))


def _too_many_values(event: Any) -> ConfigSyntaxError:  # noqa: ANN401 - as above
    """Return the error for a text with more than `MAX_VALUES` keys and values, at an event or node."""
    limit = f"more than {MAX_VALUES:,} keys and values, each alias counted with all that it repeats"
    return _error(event, f"{limit}: write a smaller config")


def _shown_tag(tag: str) -> str:
    """Return a tag as it is written: `!!set`."""
    return f"!!{tag.removeprefix(_TAG)}" if tag.startswith(_TAG) else tag


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


Location = tuple[str | int, ...]

_TEXT, _INT, _FLOAT, _NULL, _MERGE = (f"{_TAG}{name}" for name in ("str", "int", "float", "null", "merge"))
_SCALARS = {_TEXT, _INT, _FLOAT, _NULL, f"{_TAG}bool", f"{_TAG}timestamp"}

# Octal, hexadecimal, binary and sexagesimal numbers are mistakes: YAML reads 010 as 8, and 1:30 as 90.
_UNINTENDED_NUMBER = re.compile(r"[-+]?0[0-9_xb]|.*:", re.DOTALL)
_MAX_DIGITS = 100

# A whole variable, or the beginning of a malformed one.
_VARIABLE = re.compile(r"\$\{(?:([A-Za-z_][A-Za-z0-9_]*)(?::-((?:(?!\$\{)[^}])*))?\})?")


class _AsWritten:
    written: str

    def __str__(self) -> str:
        return self.written


class _WrittenInt(_AsWritten, int):
    """A whole number that is shown as it is written, such as 2026_01."""


class _WrittenFloat(_AsWritten, float):
    """A number that is shown as it is written, such as 1.10."""


@dataclass
class ConfigDocument:
    """The values of a config and their positions."""

    data: Any = None  # the values; None if the text is empty
    # The node of each value, or of its key if it has one
    nodes: dict[Location, yaml.Node] = field(default_factory=dict)
    # The errors in single values; `data` is usable only if there are none
    problems: list[Problem] = field(default_factory=list)

    def position(self, location: Location) -> tuple[int, int]:
        """Return line and column of the value, or of the nearest written one that contains it."""
        while location and location not in self.nodes:
            location = location[:-1]
        if location not in self.nodes:
            return 1, 1
        mark = self.nodes[location].start_mark
        return mark.line + 1, mark.column + 1


def read_document(text: str, environment: Mapping[str, str]) -> ConfigDocument:
    """Return the values of a text, with `${NAME}` and `${NAME:-default}` replaced from the environment.

    Raises ConfigSyntaxError if the text is not YAML.
    """
    document = ConfigDocument()
    node = compose(text)
    if node is not None:
        document.data = _Reader(document, environment).value(node, ())
    return document


class _Reader:
    def __init__(self, document: ConfigDocument, environment: Mapping[str, str]) -> None:
        self._document = document
        self._environment = environment
        self._constructor = SafeConstructor()
        self._left = MAX_VALUES
        self._location: Location = ()  # where the current value is

    def value(self, node: Any, location: Location) -> Any:  # noqa: ANN401 - YAML holds anything
        self._count(node)
        self._location = location
        self._document.nodes.setdefault(location, node)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, location)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*location, index)) for index, item in enumerate(node.value)]
        return self._substituted(node) if "${" in node.value else self._scalar(node)

    def _count(self, node: yaml.Node) -> None:
        self._left -= 1
        if self._left < 0:
            raise _too_many_values(node)

    def _add_problem(self, node: yaml.Node, text: str) -> Any:  # noqa: ANN401 - None, in place of any value
        where = f"{dotted(self._location)}: " if self._location else ""
        self._document.problems.append(Problem.at(node.start_mark, where + text))
        return None

    def _mapping(self, node: yaml.MappingNode, location: Location) -> dict[str, Any]:
        result = {}
        for key, (key_node, value_node) in self._entries(node).items():
            self._document.nodes[*location, key] = key_node
            result[key] = self.value(value_node, (*location, key))
        return result

    def _entries(self, node: yaml.MappingNode) -> dict[str, tuple[yaml.Node, yaml.Node]]:
        """Return the nodes of the mapping's entries by key; its own entries override merged ones."""
        merged: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        own: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        for key_node, value_node in node.value:
            self._count(key_node)
            key = self._key(key_node)
            if key is None:
                continue
            if key in own:
                first = own[key][0].start_mark.line + 1
                self._add_problem(
                    key_node, f"the key {shortened(key)} is here twice, first in line {first}: remove one of them"
                )
            own[key] = (key_node, value_node)
            if key_node.tag == _MERGE:
                for source in self._merge_sources(value_node):
                    merged = self._entries(source) | merged  # the first source has precedence
        return merged | {key: pair for key, pair in own.items() if pair[0].tag != _MERGE}

    def _merge_sources(self, node: yaml.Node) -> list[yaml.MappingNode]:
        nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
        sources = [source for source in nodes if isinstance(source, yaml.MappingNode)]
        if len(sources) < len(nodes):
            self._add_problem(
                node, "<< merges mappings: write <<: *name, or <<: [*name, *other], with &name at a mapping"
            )
        return sources

    def _key(self, node: yaml.Node) -> Any:  # noqa: ANN401 - a text, or None
        if not isinstance(node, yaml.ScalarNode):
            return self._add_problem(node, "a key is a list or a mapping: write a text, in quotes if it has brackets")
        text = node.value
        if "${" in text:
            problem = f"the key {shortened(text)} has a variable: write it out, only values have them"
            return self._add_problem(node, problem)
        if node.tag == _MERGE:
            return str(text)
        if node.tag != _TEXT:
            return self._add_problem(node, f"YAML does not read the key {text} as a text: write '{text}'")
        return self._text(node, text)

    def _scalar(self, node: yaml.ScalarNode) -> Any:  # noqa: ANN401 - any type that YAML resolves
        tag, text = node.tag, node.value
        if tag not in _SCALARS:
            if tag == _implicit_tag(text):  # `=` and `<<` have tags of their own
                return text
            return self._add_problem(node, f"the tag {_shown_tag(tag)} means nothing here: remove it")
        if tag == _TEXT:
            return self._text(node, text)
        if tag not in {_implicit_tag(text), _NULL} and (tag, _implicit_tag(text)) != (_FLOAT, _INT):
            return self._add_problem(node, f"{shortened(text)} does not fit the tag {_shown_tag(tag)}: remove the tag")
        return self._number(node) if tag in {_INT, _FLOAT} else self._constructed(node)

    def _number(self, node: yaml.ScalarNode) -> Any:  # noqa: ANN401 - a number, or None
        text = node.value
        if len(text) > _MAX_DIGITS:
            return self._add_problem(node, f"a number of {len(text)} digits: write a smaller one, or a text in quotes")
        number = self._constructed(node)
        if number is not None and _UNINTENDED_NUMBER.match(text):
            return self._add_problem(
                node, f"YAML reads {text} as {number}: write {number}, or '{text}' if it is a text"
            )
        if number is None or str(number) == text:
            return number
        written = _WrittenInt(number) if isinstance(number, int) else _WrittenFloat(number)
        written.written = text
        return written

    def _constructed(self, node: yaml.ScalarNode) -> Any:  # noqa: ANN401 - the type of the tag
        try:
            return self._constructor.construct_object(node)
        except ValueError:
            kind = "number" if node.tag in {_INT, _FLOAT} else "date or time"
            return self._add_problem(
                node, f"there is no {kind} {shortened(node.value)}: correct it, or put it in quotes if it is a text"
            )

    def _text(self, node: yaml.Node, text: str) -> Any:  # noqa: ANN401 - the text, or None
        if "\0" in text:
            return self._add_problem(node, "a NUL character (\\0) is in the text: remove it")
        return text if is_unicode(text) else self._add_problem(node, _HALF_A_PAIR)

    def _substituted(self, node: yaml.ScalarNode) -> Any:  # noqa: ANN401 - a text, or None
        """Return the text with its variables replaced; always a text, so that a password of digits is not a number.

        As in a shell, the default also replaces an empty variable.
        """

        def value(match: re.Match[str]) -> str:
            name, default = match.groups()
            if name is None:
                self._add_problem(
                    node,
                    "${ begins no variable here: write it as ${NAME} or ${NAME:-default}, with letters, digits and "
                    "underscores in the name and no variable in the default",
                )
                return ""
            variable = self._environment.get(name, default)
            if variable is None:
                self._add_problem(node, f"the environment has no {name}: set it, or write a default as ${{{name}:-…}}")
            elif not is_unicode(variable):
                self._add_problem(node, f"the environment's {name} is not UTF-8: set it to a text in UTF-8")
                return ""
            return variable or default or ""

        return self._text(node, _VARIABLE.sub(value, node.value))


def dotted(location: Location) -> str:
    """Return the location as text: `streams.sales.source`."""
    return ".".join(part if re.fullmatch(r"[\w.\- ]{1,80}", part) else shortened(part) for part in map(str, location))


def shortened(text: str) -> str:
    """Return the text in quotes, shortened in the middle if it is long."""
    return repr(text if len(text) <= 80 else f"{text[:60]}…{text[-10:]}")
