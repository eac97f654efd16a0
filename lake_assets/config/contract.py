"""Columns and checks of a stream by a data contract: a YAML file of the Open Data Contract Standard, version 3.

https://bitol-io.github.io/open-data-contract-standard
"""

import logging
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lake_assets.base.errors import ConfigError, MissingExtraError, install
from lake_assets.config.column_types import arrow_type

if TYPE_CHECKING:
    from open_data_contract_standard.model import DataQuality, SchemaObject, SchemaProperty

_log = logging.getLogger(__name__)

_TYPES = {
    "string": "VARCHAR",
    "date": "DATE",
    "time": "TIME",
    "timestamp": "TIMESTAMP",
    "number": "DOUBLE",
    "integer": "BIGINT",
    "boolean": "BOOLEAN",
}
_FORMATS = {"i8": "TINYINT", "i16": "SMALLINT", "i32": "INTEGER", "i64": "BIGINT", "f32": "FLOAT", "f64": "DOUBLE"}
_LENGTH = re.compile(r"^(?:var)?char(?:acter)?(?: varying)?\s*\(\d+\)$|^n?varchar2?(?:\(\d+\))?$", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"\$?\{(object|table|model|schema|property|column|field)\}")
_OPERATORS = {
    "mustBe": "measured = {value}",
    "mustNotBe": "measured <> {value}",
    "mustBeGreaterThan": "measured > {value}",
    "mustBeGreaterOrEqualTo": "measured >= {value}",
    "mustBeLessThan": "measured < {value}",
    "mustBeLessOrEqualTo": "measured <= {value}",
    "mustBeBetween": "measured BETWEEN {value[0]} AND {value[1]}",
    "mustNotBeBetween": "measured NOT BETWEEN {value[0]} AND {value[1]}",
}
_OPTIONS = {
    "minimum": "{column} <{equal} {value}",
    "maximum": "{column} >{equal} {value}",
    "exclusiveMinimum": "{column} <= {value}",
    "exclusiveMaximum": "{column} >= {value}",
    "minLength": "length({column}) < {value}",
    "maxLength": "length({column}) > {value}",
    "minItems": "len({column}) < {value}",
    "maxItems": "len({column}) > {value}",
    "multipleOf": "{column} % {value} <> 0",
    "pattern": "NOT regexp_matches({column}, {value})",
}


@dataclass(frozen=True, slots=True)
class Contract:
    """What a contract says of a table."""

    columns: Mapping[str, Mapping[str, Any]]  # as the config's `columns`
    checks: Mapping[str, str]  # as the config's `checks.sql`
    description: str | None  # of the table


def read_contract(path: Path, schema: str, table: str, not_landed: Collection[str]) -> Contract:
    """Return what a contract, a YAML file, says of a table. Rules of other tools' engines are named in the log.

    The table is one of the contract's, or is filled by its only one. Columns in `not_landed`, in lower case, are not
    decided by the landed files; they get a description only.
    """
    try:
        from open_data_contract_standard.model import OpenDataContractStandard  # noqa: PLC0415 - few configs need it
    except ImportError as error:
        raise MissingExtraError("contract needs open-data-contract-standard:", f"{install('contracts')}.") from error
    try:
        contract = OpenDataContractStandard.from_string(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"the contract {path} cannot be read: {error.strerror}:", "correct its path.") from error
    except Exception as error:  # of YAML, of Pydantic, or for a file that is no mapping
        raise ConfigError(
            f"{path} is no data contract: {' '.join(str(error).split())}:",
            "write it by the Open Data Contract Standard, version 3.",
        ) from error
    tables = contract.schema_ or []
    declared = next((known for known in tables if table in {known.physicalName, known.name}), None)
    if declared is None and len(tables) != 1:
        names = ", ".join(str(known.physicalName or known.name) for known in tables)
        raise ConfigError(f"the contract {path} has no table {table} ({names}):", "correct its names, or destination.")
    return _Table(path, declared or tables[0], schema, table, not_landed).contract


@dataclass(frozen=True, slots=True)
class _Table:
    path: Path
    declared: "SchemaObject"
    schema: str
    table: str
    not_landed: Collection[str]

    @property
    def contract(self) -> Contract:
        checks: dict[str, str] = {}
        for name, sql in self._checks():
            number = 1
            while (unique := name if number == 1 else f"{name}_{number}") in checks:
                number += 1
            checks[unique] = sql
        columns = {_name(prop): self._column(prop) for prop in self.declared.properties or ()}
        return Contract(columns, checks, self.declared.description)

    def _column(self, prop: "SchemaProperty") -> dict[str, Any]:
        described = {} if prop.description is None else {"description": prop.description}
        if _name(prop).lower() in self.not_landed:
            return described
        rules = {"nullable": False} if prop.required or prop.primaryKey else {}
        return {"type": self._type(prop), **rules, **described}

    def _type(self, prop: "SchemaProperty") -> str:
        """Return the column type of a property: its physical one if a lake has it, else that of its logical one."""
        if prop.physicalType is not None:
            if _LENGTH.match(prop.physicalType):
                return "VARCHAR"
            try:
                arrow_type(prop.physicalType)
            except ValueError:
                if prop.logicalType is None:
                    raise self._refused(
                        f"the physicalType {prop.physicalType!r} of {_name(prop)}", "give its logicalType"
                    ) from None
            else:
                return prop.physicalType
        options = prop.logicalTypeOptions or {}
        match prop.logicalType:
            case "array" if prop.items is not None:
                return f"{self._type(prop.items)}[]"
            case "object" if prop.properties:
                fields = ", ".join(f"{_quoted(_name(field))} {self._type(field)}" for field in prop.properties)
                return f"STRUCT({fields})"
            case "map" if prop.map is not None and prop.map.key is not None and prop.map.value is not None:
                return f"MAP({self._type(prop.map.key)}, {self._type(prop.map.value)})"
            case "timestamp" if options.get("timezone") is True:
                return "TIMESTAMPTZ"
            case "integer" | "number" if options.get("format") in _FORMATS:
                return _FORMATS[options["format"]]
            case str(logical) if logical in _TYPES:
                return _TYPES[logical]
        raise self._refused(f"the logicalType {prop.logicalType!r} of {_name(prop)}", "give its physicalType")

    def _checks(self) -> Iterator[tuple[str, str]]:
        for rule in self.declared.quality or ():
            yield from self._check(rule, None)
        if key := [_quoted(_name(prop)) for prop in self.declared.properties or () if prop.primaryKey]:
            yield "primary_key", self._measured(_duplicates(", ".join(key)), "measured = 0")
        for prop in self.declared.properties or ():
            name, column = _name(prop), _quoted(_name(prop))
            if prop.unique:
                yield _identifier(f"{name}_unique"), self._measured(_duplicates(column), "measured = 0")
            if prop.enum:
                values = ", ".join(_literal(item.value) for item in prop.enum)
                yield _identifier(f"{name}_enum"), _wrong_rows(f"{column} NOT IN ({values})")
            options = prop.logicalTypeOptions or {}
            for option, value in options.items():
                if (wrong := _OPTIONS.get(option)) is not None and not isinstance(value, bool):
                    equal = "=" if options.get(f"exclusive{option.capitalize()}") is True else ""
                    condition = wrong.format(column=column, value=_literal(value), equal=equal)
                    yield _identifier(f"{name}_{option}"), _wrong_rows(condition)
            for rule in prop.quality or ():
                yield from self._check(rule, column)

    def _check(self, rule: "DataQuality", column: str | None) -> Iterator[tuple[str, str]]:
        """Yield the query that returns a row if a rule is broken; none for a rule that is prose, or another tool's."""
        metric = rule.metric or rule.rule
        name = _identifier(rule.name or rule.id or "_".join(filter(None, (column, metric or rule.type or "rule"))))
        if rule.type == "text":
            return
        if rule.type == "custom":
            _log.warning("contract %s: the rule %s is of engine %s, and is not checked.", self.path, name, rule.engine)
            return
        required = self._required(rule, name)
        if rule.type == "sql" or rule.query is not None:
            places = dict.fromkeys(("object", "table", "model"), self._quoted_table) | {"schema": _quoted(self.schema)}
            query = _PLACEHOLDER.sub(lambda match: places.get(match[1], column or match[0]), rule.query or "")
            yield name, self._selected(f"SELECT ({query.strip().rstrip(';')}) AS measured", required)
            return
        arguments = rule.arguments or {}
        measured, wrong = self._metric(str(metric), arguments, column, name)
        if rule.unit == "percent":
            yield name, self._measured(f"100.0 * {measured} / nullif(count(*), 0)", required)
        elif wrong is not None and required == "measured = 0":
            yield name, _wrong_rows(wrong)
        else:
            yield name, self._measured(measured, required)

    def _metric(
        self, metric: str, arguments: Mapping[str, Any], column: str | None, name: str
    ) -> tuple[str, str | None]:
        """Return what a rule of the standard's library measures, and the condition of single wrong rows."""
        if metric == "rowCount":
            return "count(*)", None
        columns = column or ", ".join(_quoted(str(name)) for name in arguments.get("properties", ()))
        if metric in {"duplicateValues", "unique"} and columns:
            return _duplicates(columns), None
        wrong = None
        if column is not None and metric == "nullValues":
            wrong = f"{column} IS NULL"
        elif column is not None and metric == "missingValues":
            texts = [value for value in arguments.get("missingValues", ()) if value is not None]
            listed = f" OR {column}::VARCHAR IN ({', '.join(_literal(str(text)) for text in texts)})" if texts else ""
            wrong = f"{column} IS NULL{listed}"
        elif column is not None and metric in {"invalidValues", "validValues"} and "validValues" in arguments:
            wrong = f"{column} NOT IN ({', '.join(map(_literal, arguments['validValues']))})"
        elif column is not None and metric == "invalidValues" and "pattern" in arguments:
            wrong = f"NOT regexp_matches({column}, {_literal(arguments['pattern'])})"
        if wrong is None:
            raise self._refused(f"the metric {metric!r} of the rule {name}", "write it as a rule of type sql")
        return f"count(*) FILTER (WHERE {wrong})", wrong

    def _required(self, rule: "DataQuality", name: str) -> str:
        """Return the condition that the measured number must meet."""
        given = {key: value for key in _OPERATORS if (value := getattr(rule, key)) is not None}
        conditions = [
            _OPERATORS[key].format(value=list(map(_literal, value)) if isinstance(value, list) else _literal(value))
            for key, value in given.items()
        ]
        if not conditions and rule.type == "sql":
            raise self._refused(f"the rule {name} without an operator", "add mustBe or another one")
        return " AND ".join(conditions) or "measured = 0"

    @property
    def _quoted_table(self) -> str:
        return f"{_quoted(self.schema)}.{_quoted(self.table)}"

    def _measured(self, measured: str, condition: str) -> str:
        return self._selected(f"SELECT {measured} AS measured FROM {self._quoted_table}", condition)  # noqa: S608 - as above

    def _selected(self, query: str, condition: str) -> str:
        return f"SELECT * FROM ({query}) WHERE NOT ({condition})"  # noqa: S608 - quoted names and values, or the contract's own SQL

    def _refused(self, what: str, fix: str) -> ConfigError:
        return ConfigError(f"contract {self.path}: {what} is not one that a lake has:", f"{fix}.")


def _wrong_rows(condition: str) -> str:
    """Return the query of the rows of a run that are wrong."""
    return f"SELECT * FROM refreshed WHERE {condition}"  # noqa: S608 - quoted names and values


def _duplicates(columns: str) -> str:
    return f"count(*) - count(DISTINCT ({columns}))"


def _name(prop: "SchemaProperty") -> str:
    return str(prop.physicalName or prop.name)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(value: object) -> str:
    if isinstance(value, bool | int | float):
        return str(value)
    return "'" + str(value).replace("'", "''") + "'"


def _identifier(text: str) -> str:
    name = re.sub(r"_*\W+_*", "_", text, flags=re.ASCII).strip("_")
    return name if name and not name[0].isdigit() else f"rule_{name}"
