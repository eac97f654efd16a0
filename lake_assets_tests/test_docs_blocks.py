"""How the site shows code blocks and tables: languages, which decide what a button copies, and labels of cells."""

import pytest

from docs.hooks.site import fenced, labelled


@pytest.mark.parametrize(
    ("block", "fence"),
    [
        ("$ lake-assets ingest\ncommitted", "console"),
        ("lake-assets ingest sales", "text"),
        ("committed  region=NW", "text { .no-copy }"),
        ("a\n\nb", "text { .no-copy }"),
    ],
)
def test_an_indented_block_gets_the_language_of_its_content(block: str, fence: str) -> None:
    indented = "\n".join(f"    {line}" if line else "" for line in block.split("\n"))

    assert fenced(f"Text.\n\n{indented}\n\nText.\n") == f"Text.\n\n```{fence}\n{block}\n```\n\nText.\n"


def test_a_block_after_a_fence_is_one_too() -> None:
    fence = "```yaml\na: 1\n```\n\n"

    assert fenced(f"{fence}    $ lake-assets ingest\n    committed\n") == (
        f"{fence}```console\n$ lake-assets ingest\ncommitted\n```\n"
    )


@pytest.mark.parametrize(
    "text", ["- item\n\n    a paragraph of it\n", "1. item\n\n    $ a command\n", "```yaml\na:\n\n    b: 1\n```\n"]
)
def test_lists_and_fenced_blocks_stay_as_they_are(text: str) -> None:
    assert fenced(text) == text


def test_each_cell_has_the_name_of_its_column() -> None:
    head = "<table><thead><tr><th>key</th><th>type</th></tr></thead>"
    table = f"{head}<tbody><tr><td>a</td><td align='x'>b</td></tr></tbody></table>"

    assert '<td data-label="key">a</td><td data-label="type" align=\'x\'>b</td>' in labelled(table)
