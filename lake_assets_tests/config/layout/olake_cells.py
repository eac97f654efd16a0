"""Ours and OLake's paths side by side: the cells of the table in docs/layout.md, each of which is a test."""

from collections.abc import Sequence

CELLS: Sequence[tuple[str, str, str, str]] = (
    ("{v,unknown,}", '"x"', "x", "x"),
    ("/{v,unknown,}/", '"x"', "x", "x"),
    ("{v,unknown,}", "null", "default_unknown", "unknown"),
    ("{v,unknown,}", "missing", "default_unknown", "unknown"),
    ("{v,default_v,}", "null", "default_v", "default_v"),
    ("{v,,}", "null", "default_v", "default_v"),
    ("{v, 'unknown', }", "null", "default_unknown", "'unknown"),
    ("a/{v}", '"x"', "a/x", "a"),
    ("a/{v}", "null", "a/__HIVE_DEFAULT_PARTITION__", "a"),
    ("{v,2025,MM}", '"2026-02-11"', "02", "02"),
    ("{v,2025,MM}", "null", "default_2025", "2025"),
    ("{v,2025,MM}", '"2026-02-30"', "default_2025", "01"),
    ("{v,2025,MM}", '"soon"', "default_2025", "soon"),
    ("{v,2025,YYYY}", '"2026-02-30"', "default_2025", "1970"),
    ("{v,2025,YYYY}", '"2026-02-11"', "2026", "2026"),
    ("{v,2025,YY}", '"2026-02-11"', "2026", "2026"),
    ("{v,2025,QQ}", '"2026-02-11"', "error", "2026-02-11"),
    ("{v,2025,mm}", '"2026-02-11"', "error", "2026-02-11"),
    ("{v,,YYYY}-{v,,WW}", '"2024-12-30"', "2025-01", "2024-01"),
    ("{v,,YYYY}-{v,,MM}-{v,,WW}", '"2024-12-30"', "2024-12-01", "2024-12-01"),
    ("{v,,HH}", '"2026-02-11 01:30:00+02:00"', "23", "23"),
    ("{v,,YYYY}", "1770800000", "error", "2026"),
    ("{v,,}", "1.5", "error", "1.5"),
    ("{v,,}", "true", "true", "true"),
    ("{now(),2025,YYYY}", "null", "2026", "2026"),
    ("{now(),2025,YY}", "null", "2026", "2026"),
    ("{now(),06,HH}", "null", "09", "09"),
    ("{now(),,}", "null", "error", "2026-02-11 09:30:00 +0000 UTC"),
    ("{v,,}", '"a/b"', "a%2Fb", "a/b"),
    ("x/{v,,}/y", '"../../b"', "x/..%2F..%2Fb/y", "../b/y"),
    ("x/{v,,}/y", '".."', "x/%2E%2E/y", "y"),
    ("x/{v,,}/y", '""', "x/default_v/y", "x/y"),
    ("k={v,,}", '"a=b: 100%"', "k=a%3Db%3A 100%25", "k=a=b: 100%"),
    ("{v},,}", '"x"', "error", ",,}"),
    ("{v,,", '"x"', "error", "{v,,"),
    ("{v,,}{v,,}", '"x"', "error", "xx"),
    ("a//{v,,}", '"x"', "error", "a/x"),
    ("../{v,,}", '"x"', "error", "../x"),
)
"""Template, value of `v` as JSON or `missing`, our path, OLake's path; `error` where it is refused."""


def olake_table() -> str:
    """Return the table in Markdown."""
    head = "| template | value of `v` | ours | `compat: olake` |\n|---|---|---|---|\n"
    return head + "".join(
        f"| {' | '.join(cell if cell == 'error' else f'`{cell}`' for cell in row)} |\n" for row in CELLS
    )
