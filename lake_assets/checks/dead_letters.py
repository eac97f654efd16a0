"""The check of landed rows that are not in the lake because they do not fit the table, or belong elsewhere."""

from collections.abc import Mapping, Sequence

from lake_assets.checks.facts import Examined, Facts
from lake_assets.checks.result import NAMED, CheckResult
from lake_assets.layout.partition import Partition
from lake_assets.layout.texts import count
from lake_assets.parquet.job import LetterFile


def dead_letters(facts: Facts) -> Examined:
    """Whether all landed rows are in the lake: no partition has dead letters.

    Raises:
        CatalogError: ledger or manifest cannot be read.
    """
    letters, tried = facts.dead_letters, facts.scope.tried

    def by_partition() -> Mapping[Partition, CheckResult]:
        partitions = letters if tried is None else tried
        return {partition: _of_letters({partition: letters.get(partition, [])}) for partition in partitions}

    return Examined(lambda: _of_letters(letters), by_partition)


def _of_letters(letters: Mapping[Partition, Sequence[LetterFile]]) -> CheckResult:
    files = [letter for of_one in letters.values() for letter in of_one]
    rows = sum(letter.rows for letter in files)
    partitions = sum(bool(of_one) for of_one in letters.values())
    are = "is" if rows == 1 else "are"
    return CheckResult(
        "dead_letters",
        not files,
        f"{count(rows, 'landed row')} {are} not in the lake; correct and land again, or remove."
        if files
        else "No landed row is a dead letter.",
        "warn",
        {"rows": rows, "partitions": partitions},
        list(map(str, files[:NAMED])),
    )
