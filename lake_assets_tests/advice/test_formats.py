"""Advice of errors about the formats of landed objects."""

import pytest

from lake_assets_tests.advice.cases import Case, Steps, follow, named
from lake_assets_tests.world import NW, World

CASES: list[Case] = []


def case(steps: Case) -> Case:
    CASES.append(steps)
    return steps


@case
def a_log_is_split_where_its_fields_change(local_world: World) -> Steps:
    local_world.options = {"format": {"type": "csv", "comment": "#", "delimiter": " "}}
    parts = [b"#Version: 1.0\n#Fields: id total\n0 1.5\n", b"#Version: 1.0\n#Fields: total id\n2.5 1\n"]
    local_world.land(NW, b"".join(parts), "a.csv")
    yield "or split it at that line"
    for name, part in zip(("a.csv", "b.csv"), parts, strict=True):
        local_world.land(NW, part, name)
    return [1.5, 2.5]


@pytest.mark.parametrize("case", CASES, ids=named)
def test_the_advice_about_formats_leads_to_the_right_rows(case: Case, request: pytest.FixtureRequest) -> None:
    follow(case, request)
