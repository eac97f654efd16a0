"""The text of a config as Python values, each with its place; variables replaced, merge keys followed."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.constructor import SafeConstructor

from lake_assets.config.syntax import HALF_A_PAIR, MAX_VALUES, compose, resolved, shown_tag, too_many
from lake_assets.layout.texts import is_unicode

Location = tuple[str | int, ...]

_TAG = "tag:yaml.org,2002:"
_TEXT, _INT, _FLOAT, _NULL, _MERGE = (f"{_TAG}{name}" for name in ("str", "int", "float", "null", "merge"))
_SCALARS = {_TEXT, _INT, _FLOAT, _NULL, f"{_TAG}bool", f"{_TAG}timestamp"}

# Octal, hexadecimal, binary and sexagesimal numbers are nobody's intention: 010 is 8 to YAML, and 1:30 is 90.
_ODD_NUMBER = re.compile(r"[-+]?0[0-9_xb]|.*:", re.DOTALL)
_MAX_DIGITS = 100

# A whole variable, or the beginning of what is none.
_VARIABLE = re.compile(r"\$\{(?:([A-Za-z_][A-Za-z0-9_]*)(?::-((?:(?!\$\{)[^}])*))?\})?")


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """What is wrong in one place: line and column from 1 on, and the error with how to fix it."""

    line: int
    column: int
    text: str


class WrittenInt(int):
    """A whole number that is shown as it is written, such as 2026_01."""

    written: str

    def __str__(self) -> str:
        return self.written


class WrittenFloat(float):
    """A number that is shown as it is written, such as 1.10."""

    written: str

    def __str__(self) -> str:
        return self.written


@dataclass
class Document:
    """A config as it is written.

    Attributes:
        data: its values; None of an empty text.
        nodes: the node of each value, of an entry's key where it has one.
        problems: all that is wrong with single values; `data` is usable only without any.
    """

    data: Any = None
    nodes: dict[Location, yaml.Node] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def place(self, location: Location) -> tuple[int, int]:
        """Line and column of the value, or of the nearest one around it that is written."""
        while location and location not in self.nodes:
            location = location[:-1]
        return _place(self.nodes[location]) if location in self.nodes else (1, 1)


def read_document(text: str, environment: Mapping[str, str]) -> Document:
    """The text's values, with `${NAME}` and `${NAME:-default}` replaced from the environment.

    Raises:
        SyntaxFault: it is no YAML, or has more than `MAX_VALUES` values.
    """
    document = Document()
    node = compose(text)
    if node is not None:
        document.data = _Reading(document, environment).value(node, ())
    return document


class _Reading:
    def __init__(self, document: Document, environment: Mapping[str, str]) -> None:
        self._document = document
        self._environment = environment
        self._constructor = SafeConstructor()
        self._left = MAX_VALUES
        self._here: Location = ()  # of the value that is read

    def value(self, node: Any, location: Location) -> Any:  # noqa: ANN401 - YAML holds anything
        self._count(node)
        self._here = location
        self._document.nodes.setdefault(location, node)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, location)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*location, index)) for index, item in enumerate(node.value)]
        return self._substituted(node) if "${" in node.value else self._scalar(node)

    def _count(self, node: yaml.Node) -> None:
        self._left -= 1
        if self._left < 0:
            raise too_many(node.start_mark)

    def _problem(self, node: yaml.Node, text: str) -> Any:  # noqa: ANN401 - nothing, in place of any value
        where = f"{dotted(self._here)}: " if self._here else ""
        self._document.problems.append(Problem(*_place(node), where + text))
        return None

    def _mapping(self, node: yaml.MappingNode, location: Location) -> dict[str, Any]:
        result = {}
        for key, (key_node, value_node) in self._entries(node).items():
            self._document.nodes[*location, key] = key_node
            result[key] = self.value(value_node, (*location, key))
        return result

    def _entries(self, node: yaml.MappingNode) -> dict[str, tuple[yaml.Node, yaml.Node]]:
        """The mapping's nodes by key; what it merges comes first, and what it says itself goes over that."""
        merged: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        own: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        for key_node, value_node in node.value:
            self._count(key_node)
            key = self._key(key_node)
            if key is None:
                continue
            if key in own:
                first = _place(own[key][0])[0]
                self._problem(
                    key_node, f"the key {shown(key)} is here twice, first in line {first}: remove one of both"
                )
            own[key] = (key_node, value_node)
            if key_node.tag == _MERGE:
                for source in self._sources(value_node):
                    merged = self._entries(source) | merged  # of several, the first one's value counts
        return merged | {key: pair for key, pair in own.items() if pair[0].tag != _MERGE}

    def _sources(self, node: yaml.Node) -> list[yaml.MappingNode]:
        nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
        sources = [source for source in nodes if isinstance(source, yaml.MappingNode)]
        if len(sources) < len(nodes):
            self._problem(node, "<< merges mappings: write <<: *name, or <<: [*name, *other], with &name at a mapping")
        return sources

    def _key(self, node: yaml.Node) -> Any:  # noqa: ANN401 - a text, or nothing
        if not isinstance(node, yaml.ScalarNode):
            self._problem(node, "a key is a list or a mapping: write a text, in quotes if it has brackets")
            return None
        if "${" in node.value:
            self._problem(node, f"the key {shown(node.value)} has a variable in it: write it out, only values take one")
            return None
        if node.tag == _MERGE:
            return str(node.value)
        if node.tag != _TEXT:
            self._problem(node, f"YAML does not read the key {node.value} as a text: write '{node.value}'")
            return None
        return self._text(node, node.value)

    def _scalar(self, node: yaml.ScalarNode) -> Any:  # noqa: ANN401 - any type that YAML resolves
        tag, text = node.tag, node.value
        if tag not in _SCALARS:
            if tag == resolved(text):  # `=` and `<<` have tags of their own
                return text
            return self._problem(node, f"the tag {shown_tag(tag)} means nothing here: remove it")
        if tag == _TEXT:
            return self._text(node, text)
        if tag not in {resolved(text), _NULL} and (tag, resolved(text)) != (_FLOAT, _INT):
            return self._problem(node, f"{shown(text)} does not fit the tag {shown_tag(tag)}: remove the tag")
        if tag in {_INT, _FLOAT}:
            return self._number(node)
        return self._constructed(node)

    def _number(self, node: yaml.ScalarNode) -> Any:  # noqa: ANN401 - a number, or None where it is none
        text = node.value
        if len(text) > _MAX_DIGITS:
            return self._problem(node, f"a number of {len(text)} digits: write a smaller one, or a text in quotes")
        number = self._constructed(node)
        if number is not None and _ODD_NUMBER.match(text):
            return self._problem(node, f"YAML reads {text} as {number}: write {number}, or '{text}' if it is a text")
        if number is None or str(number) == text:
            return number
        written = WrittenInt(number) if isinstance(number, int) else WrittenFloat(number)
        written.written = text
        return written

    def _constructed(self, node: yaml.ScalarNode) -> Any:  # noqa: ANN401 - as the tag says
        try:
            return self._constructor.construct_object(node)
        except ValueError:
            kind = "number" if node.tag in {_INT, _FLOAT} else "date or time"
            return self._problem(
                node, f"there is no {kind} {shown(node.value)}: correct it, or put it in quotes if it is a text"
            )

    def _text(self, node: yaml.Node, text: str) -> Any:  # noqa: ANN401 - the text, or nothing
        if "\0" in text:
            return self._problem(node, "a NUL character (\\0) is in the text: remove it")
        if not is_unicode(text):
            return self._problem(node, HALF_A_PAIR)
        return text

    def _substituted(self, node: yaml.ScalarNode) -> Any:  # noqa: ANN401 - a text, or nothing
        """The text with variables replaced; always text, so that a password of digits stays what it is.

        As a shell does, it takes the default for a variable that is empty too.
        """

        def value(match: re.Match[str]) -> str:
            name, default = match.groups()
            if name is None:
                self._problem(
                    node,
                    "${ begins no variable here: write it as ${NAME} or ${NAME:-default}, with letters, digits and "
                    "underscores in the name and no variable in the default",
                )
                return ""
            found = self._environment.get(name, default)
            if found is None:
                self._problem(node, f"the environment has no {name}: set it, or write a default as ${{{name}:-…}}")
            elif not is_unicode(found):
                self._problem(node, f"the environment's {name} is not UTF-8: set it to a text that is")
                return ""
            return found or default or ""

        return self._text(node, _VARIABLE.sub(value, node.value))


def dotted(location: Location) -> str:
    """A place in the config: `streams.sales.source`."""
    return ".".join(part if re.fullmatch(r"[\w.\- ]{1,80}", part) else shown(part) for part in map(str, location))


def shown(text: str) -> str:
    """The text in quotes, its middle left out if it is long."""
    return repr(text if len(text) <= 80 else f"{text[:60]}…{text[-10:]}")


def _place(node: yaml.Node) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1
