"""What JSON Schema can say of a text, so that an editor and `dg check yaml` mark it; the models say all of it.

Each lets a text with variables pass, `${NAME}` of `lake.yaml` or `{{ env.NAME }}` of a `defs.yaml`: nobody knows yet
what it will be.
"""

from typing import Any

import pendulum

_VARIABLE = r"\$\{|\{\{"
_FIELD = r"(?:\s*'(?:[^']|'')*'\s*|[^,{}]*)"
_GRANULARITY = r"\s*(?:YYYY|YY|MM|WW|DD|HH)?\s*"

TIME_ZONE: dict[str, Any] = {"anyOf": [{"enum": sorted(pendulum.timezones())}, {"pattern": _VARIABLE}]}
"""One of the names of IANA's database."""

# Placeholders of one to three fields, and brackets nowhere else. Not in it: empty names, the rules for `now()`, and
# what has to stand between two values.
LAYOUT: dict[str, Any] = {
    "pattern": rf"{_VARIABLE}|^(?:[^{{}}\\*?\[\]]|\{{{_FIELD}(?:,{_FIELD}(?:,{_GRANULARITY})?)?\}})+$"
}
"""A path template, as far as a regular expression can tell."""
