"""Describes a layout template in words, and shows the paths of sample rows."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from lake_assets.config.layout.grammar import Part, Static
from lake_assets.config.layout.template import Template
from lake_assets.config.layout.times import GRANULARITIES

_SHOWN = 20


def explanation(template: Template, sample: pa.Table | None = None) -> str:
    """Return a text that describes each part of the template, and lists the paths of the sample's rows.

    The 20 most frequent paths are listed, each with its number of rows.
    """
    return "\n".join(_lines(template, sample))


def _lines(template: Template, sample: pa.Table | None) -> Iterator[str]:
    yield template.text
    yield ""
    written = [
        part.text if isinstance(part, Static) else template.text[part.start : part.end] for part in template.parts
    ]
    width = max(map(len, written), default=0)
    for text, part in zip(written, template.parts, strict=True):
        yield f"  {text:<{width}}  {_meaning(template, part)}"
    yield ""
    yield f"Partition columns: {', '.join(template.columns) or 'none'}."
    if template.compat:
        yield f"Paths are {template.compat}'s: UTC, nothing encoded, and `/` in a value makes folders."
    else:
        nested = "folders" if template.nested else "no folders"
        yield f"Times are in {template.time_zone}; `/` in a value makes {nested}."
    if sample is not None:
        yield from _paths(template, sample)


def _meaning(template: Template, part: Part) -> str:
    if isinstance(part, Static):
        return "as it is"
    source = "the time of the run" if part.is_now else f"column {part.column}"
    year = "ISO year" if part.iso_year else GRANULARITIES["YY"]
    words = f"{year if part.granularity == 'YY' else GRANULARITIES[part.granularity]} of " if part.granularity else ""
    if part.is_now:
        return f"{words}{source}" + ("" if part.name is None else f", as partition column {part.name}")
    cases = ["NULL"]
    if not template.compat:
        cases.append("no timestamp" if part.granularity else "empty")
    if part.optional:
        cases.append("missing")
    return f"{words}{source}; {part.null} if it is {' or '.join(cases)}"


def _paths(template: Template, sample: pa.Table) -> Iterator[str]:
    paths = template.render(sample)
    counts = pc.value_counts(paths.indices).to_pylist() if len(paths) else []
    counts.sort(key=lambda count: (-count["counts"], count["values"]))
    yield ""
    yield f"Paths of the sample's {sample.num_rows:,} rows:"
    names = paths.dictionary.to_pylist()
    for count in counts[:_SHOWN]:
        yield f"  {count['counts']:>12,}  {names[count['values']]}"
    if len(counts) > _SHOWN:
        yield f"  and {len(counts) - _SHOWN:,} more"
