"""Figures of a page of the documentation, between its markers; the rest of the page is written by hand."""

from collections.abc import Iterable, Iterator, Mapping, Sequence


def with_sections(page: str, sections: Mapping[str, Iterable[str]]) -> str:
    """The page with these lines between `<!-- NAME -->` and `<!-- end NAME -->`.

    Raises:
        ValueError: the page lacks a marker.
    """
    for name, lines in sections.items():
        begin, end = f"<!-- {name} -->", f"<!-- end {name} -->"
        if page.count(begin) != 1 or page.count(end) != 1:
            raise ValueError(f"the page has not one section {begin} … {end}")
        before, rest = page.split(begin)
        _, after = rest.split(end)
        page = "".join([before, "\n".join([begin, "", *lines, "", end]), after])
    return page


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of a table in Markdown."""
    for row in (head, ["---"] * len(head), *rows):
        yield f"| {' | '.join(row)} |"
