"""What becomes of a column is decided in one place: a table of its verdicts, and no other file reads the policy."""

import ast

import pyarrow as pa
import pytest

from lake_assets.schema.annotations import opaque_type
from lake_assets.schema.column_rules import REGISTERED, ColumnVerdict, Rules
from lake_assets.schema.misfits import Misfit, misfits
from lake_assets_tests.test_rooms import PACKAGE

FILL, OUT, CHANGE, CAST, RESCUE, REFUSE = (
    ColumnVerdict.FILL,
    ColumnVerdict.LEAVE_OUT,
    ColumnVerdict.CHANGE,
    ColumnVerdict.CAST,
    ColumnVerdict.RESCUE,
    ColumnVerdict.REFUSE,
)
RULES = [Rules(policy, rescue=rescue) for rescue in (None, "_rest") for policy in ("strict", "evolve", "ignore_extra")]
INTERVAL = opaque_type(pa.binary(12), "INTERVAL")
POINT = pa.struct([("x", pa.int32())])


@pytest.mark.parametrize(
    ("given", "known", "verdicts"),
    [
        (None, pa.int32(), (REFUSE, FILL, REFUSE, REFUSE, FILL, REFUSE)),
        (pa.string(), None, (REFUSE, CHANGE, OUT, RESCUE, CHANGE, OUT)),
        (pa.null(), None, (REFUSE, OUT, OUT, RESCUE, OUT, OUT)),
        (INTERVAL, None, (REFUSE, CHANGE, OUT, RESCUE, RESCUE, OUT)),
        (pa.string(), pa.null(), (CHANGE,) * 6),
        (pa.int64(), pa.int32(), (CAST, CHANGE, CAST, RESCUE, CHANGE, RESCUE)),
        (pa.float64(), pa.int32(), (CAST, CAST, CAST, RESCUE, RESCUE, RESCUE)),
        (pa.string(), pa.int32(), (REFUSE, REFUSE, REFUSE, RESCUE, RESCUE, RESCUE)),
        (pa.struct([("x", pa.int32()), ("y", pa.int8())]), POINT, (REFUSE, CHANGE, OUT, RESCUE, CHANGE, OUT)),
        (pa.struct([("y", pa.null())]), POINT, ((REFUSE, REFUSE), (FILL, OUT), (REFUSE, OUT), (REFUSE, RESCUE))),
        (pa.struct([("x", pa.int32()), ("X", pa.int32())]), POINT, (REFUSE, CHANGE, REFUSE, RESCUE, CHANGE, RESCUE)),
    ],
    ids=str,
)
def test_each_difference_has_one_verdict(
    given: pa.DataType | None,
    known: pa.DataType | None,
    verdicts: tuple[ColumnVerdict | tuple[ColumnVerdict, ...], ...],
) -> None:
    landed, table = (pa.schema([("a", kind)] if kind is not None else []) for kind in (given, known))
    for rules, expected in zip(RULES, verdicts, strict=False):
        wanted = expected if isinstance(expected, tuple) else (expected,)
        assert tuple(rules.verdict(misfit) for misfit in misfits(landed, table)) == wanted, rules


def test_a_file_that_is_registered_keeps_its_types() -> None:
    assert REGISTERED.verdict(Misfit(("a",), pa.int64(), pa.int32())) is REFUSE


def test_a_declared_column_is_added_and_never_changes() -> None:
    rules = Rules("evolve", types={"a": pa.field("A", pa.int32()), "s": pa.field("s", POINT)})
    given = pa.schema([("A", pa.int64()), ("s", pa.struct([("y", pa.int8())]))])
    assert rules.evolved(pa.schema([]), [("x", given.remove(1))], ()) == pa.schema([("A", pa.int32())])
    verdicts = rules.verdicts(given, pa.schema([("a", pa.int32()), ("s", POINT)]))
    names = {verdict: [misfit.name for misfit in found] for verdict, found in verdicts.items() if found}
    assert names == {CAST: ["a"], FILL: ["s.x"], REFUSE: ["s.y"]}


def test_what_a_transform_reads_changes_no_table() -> None:
    columns = {"missing": (None, pa.int8()), "unknown": (pa.int8(), None), "wider": (pa.int16(), pa.int8())}
    rules = Rules("evolve", is_input=True)
    assert [rules.verdict(Misfit((name,), *types)) for name, types in columns.items()] == [FILL, REFUSE, CAST]


def test_no_other_file_reads_the_policy() -> None:
    words = {"strict", "evolve", "ignore_extra"}
    texts = {path.relative_to(PACKAGE).as_posix(): path.read_text("utf-8") for path in PACKAGE.rglob("*.py")}
    found = {
        path
        for path, text in texts.items()
        if any(f'"{word}"' in text for word in words)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Compare)
        for part in (node.left, *node.comparators)
        if isinstance(part, ast.Constant) and part.value in words
    }
    assert {path for path in found if not path.startswith("config/")} == {"schema/column_rules.py"}
