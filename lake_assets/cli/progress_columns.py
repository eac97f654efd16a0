"""The figures of a progress bar: how many are done, how many a second, and how long the others take."""

from rich.progress import ProgressColumn, Task
from rich.text import Text

from lake_assets.layout.texts import age, size


class Done(ProgressColumn):
    """Such as `3/25 partitions`, `1.2 MB/3.4 MB` or `40 %`; without a total `12,000 objects`, and nothing for none."""

    def render(self, task: Task) -> Text:
        """Return the text."""
        unit = task.fields["unit"]
        if unit == "%":
            return Text(f"{task.completed:.0f} %")
        if unit == "bytes":
            return Text(size(round(task.completed)) + ("" if task.total is None else f"/{size(round(task.total))}"))
        if not task.completed and task.total is None:
            return Text()
        total = "" if task.total is None else f"/{task.total:,.0f}"
        return Text(f"{task.completed:,.0f}{total} {unit}")


class Pace(ProgressColumn):
    """Such as `1.2/s, 18 s left`, by the average since the start; empty until one is done.

    Commits come in groups, one for each Spark job, so that an average of the last seconds would be too high after a
    group and zero before the next.
    """

    def render(self, task: Task) -> Text:
        """Return the text."""
        if not task.completed or not task.elapsed:
            return Text()
        rate = task.completed / task.elapsed
        number = f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"
        text = {"%": f"{number} %/s", "bytes": f"{size(round(rate))}/s"}.get(task.fields["unit"], f"{number}/s")
        return Text(text if task.remaining is None else f"{text}, {age(task.remaining / rate)} left")
