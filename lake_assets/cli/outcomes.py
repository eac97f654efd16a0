"""The outcomes of a run: a line for each on standard output, or all in a document."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lake_assets.base.errors import LakeAssetsError
from lake_assets.base.texts import count, duration, size, visible_name
from lake_assets.cli.output import Failures, Form, echo, exported_text, info, is_json, style

if TYPE_CHECKING:
    from lake_assets.ingest.outcome import Outcome, Refreshed


class Outcomes:
    """Prints the outcomes of a run and collects them; for a document they are not printed."""

    def __init__(self, run: "Refreshed", form: Form, *, debug: bool) -> None:
        self.run = run
        self._prints = form == "text" and not is_json()  # the log has an event of each partition
        self._failures = Failures(debug=debug, reported=True, err=form == "json")

    @property
    def failed(self) -> int:
        """The number of failed partitions so far."""
        return self._failures.count

    def add(self, outcome: "Outcome") -> None:
        """Print the result or the error of a partition. An error that is not a `LakeAssetsError` is raised."""
        self.run.partitions.append(outcome)
        if outcome.is_done and self._prints:
            info(_result_line(outcome))
        elif outcome.waits and self._prints:
            info(f"{style('waiting', fg='yellow')}    {outcome.row.load_partition}  {outcome.note}")
        if isinstance(outcome.error, LakeAssetsError):
            self._failures.add(str(outcome.partition), outcome.error)
        elif outcome.error is not None:
            raise outcome.error

    def print_repeated(self) -> None:
        """Print the failures whose error was printed for another one; call it when the run ends."""
        self._failures.print_repeated()

    @contextmanager
    def summed_up(self) -> Iterator[None]:
        """Print the errors that repeat, and of several partitions how many ended in which way, also after Ctrl-C."""
        from lake_assets.ingest.outcome import counted_outcomes  # noqa: PLC0415 - keeps `--help` quick

        start = time.perf_counter()
        with counted_outcomes(self.run.run, self.run.stream) as ended:
            try:
                yield
            finally:
                self.print_repeated()
                self._print_sum(ended, duration(time.perf_counter() - start))

    def _print_sum(self, ended: Counter[str], seconds: str) -> None:
        partitions = self.run.selected
        untouched = partitions - (ended.total() - ended["rows"])
        if untouched == partitions or partitions < 2:
            return
        texts = [f"{ended['committed']:,} of {count(partitions, 'partition')} committed"]
        texts += [count(ended["rows"], "row")] if ended["committed"] else []
        waiting = sum(outcome.waits for outcome in self.run.partitions)
        others = {"skipped": ended["skipped"], "without data": ended["left_out"] - waiting, "waiting": waiting}
        bad = {"failed": ended["failed"], "cancelled": ended["cancelled"], "untouched": untouched}
        texts += [f"{number:,} {status}" for status, number in (others | bad).items() if number]
        line = f"{self.run.stream}: {', '.join(texts)}, in {seconds}"
        if any(bad.values()):
            echo(line, err=True)
        elif self._prints:
            info(line)


def _result_line(outcome: "Outcome") -> str:
    row = outcome.row
    if row.status == "skipped":
        return f"{style('skipped', dim=True)}    {row.load_partition}  {outcome.why_skipped}"
    seconds = sum(seconds for step, seconds in outcome.seconds.items() if step != "start")  # Spark's
    # Only MotherDuck knows the files that it manages.
    has_files = row.files_written is not None
    added = " added" if row.reads_new else ""
    copied = f" ({row.files_copied:,} copied)" if row.files_copied else ""
    files = f"{count(row.files_written or 0, 'file')}{copied}, {size(row.bytes_written or 0)}, " if has_files else ""
    return (
        f"{style('committed', fg='green')}  {row.load_partition}  {count(row.row_count or 0, 'row')}{added} "
        f"(before: {row.rows_before or 0:,}), {files}snapshot {row.snapshot_id}, {seconds:.1f} s"
        + "".join(f"; {visible_name(str(change))}" for change in outcome.changes)
        + ("" if outcome.deltas is None else f"; {exported_text(outcome.deltas)}")
        + ("; it was held, and the hold remains until `lake-assets restore --release`" if row.hold else "")
        + (f"; {style('left out', fg='yellow')} {left_out}" if (left_out := _left_out(outcome)) else "")
        + (f"; {style('dead letters', fg='yellow')} {letters}" if (letters := _dead_letters(outcome)) else "")
    )


def _left_out(outcome: "Outcome") -> str:
    """Return the first of the objects that were left out, and why; empty if there is none."""
    if not outcome.left_out:
        return ""
    key = min(outcome.left_out)
    return f"{count(len(outcome.left_out), 'object')}, the first: {outcome.left_out[key]}"


def _dead_letters(outcome: "Outcome") -> str:
    """Return the number of rows that were left out, where the first are, and why; empty if there is none."""
    if not outcome.letters:
        return ""
    first = outcome.letters[0]
    rows = count(sum(letter.rows for letter in outcome.letters), "row")
    return f"{rows}, in {count(len(outcome.letters), 'file')}, the first is {first.uri}: {first.reason}"
