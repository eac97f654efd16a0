"""The starter project's folder: written completely or not at all, without overwriting a file."""

import datetime as dt
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory

import pendulum
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lake_assets.base.errors import StorageError
from lake_assets.config.models import LakeConfig
from lake_assets.streams.load import load_config
from lake_assets.wings.land.writer import LandingWriter

DAGSTER_SETTINGS = "dagster.yaml"
STREAM = "sales"  # in the template's config

# The path of each template in the project. Git would apply a .gitignore among the sources.
_TEMPLATES = {
    "lake.yaml": "lake.yaml",
    "workspace.yaml": "workspace.yaml",
    "dagster.yaml": "dagster_home/dagster.yaml",
    "README.md": "README.md",
    "gitignore": ".gitignore",
}
_ANOTHER = "name another folder."
_TEMPLATE_DAY = "2026-02-11"  # in the templates, in place of the first day
_LANDED, _LATE = "sales.parquet", "late.parquet"  # generated records of two days; more of the first, to land later


def first_day() -> dt.date:
    """Return the first day of a new project: the day before yesterday, so that both days of its data are over (UTC)."""
    return dt.datetime.now(dt.UTC).date() - dt.timedelta(days=2)


def start(folder: Path, first: dt.date) -> list[Path]:
    """Write the starter project, with two days of landed data; returns the written files and folders, relative to it.

    The folder is new, or has hidden files only; see `start_with`. If the first day is long past, the stream's dates end
    with the month after it, so that Dagster does not show every date up to today.
    """
    end = pendulum.date(first.year, first.month, 1).add(months=2).subtract(days=1)
    days = f"start: {first}, end: {end}" if end < first_day() else f"start: {first}"

    def write(building: Path) -> None:
        for name, path in _TEMPLATES.items():
            text = template(name).replace(f"start: {_TEMPLATE_DAY}", days)
            _write(building / path, text.replace(_TEMPLATE_DAY, str(first)))
        stream = load_config(building / "lake.yaml").streams[STREAM]
        with LandingWriter(STREAM, stream) as writer:
            writer.write(_records(_LANDED, first))
        pq.write_table(_records(_LATE, first), building / _LATE)

    return _start(folder, write)


def _records(name: str, first: dt.date) -> pa.Table:
    """Return the records of a template, of which the earliest are of the given day."""
    with files("lake_assets.wings.templates.starter").joinpath(name).open("rb") as file:
        records = pq.read_table(file)
    later = pa.scalar(first - dt.date.fromisoformat(_TEMPLATE_DAY), pa.duration("us"))
    for column in ("timestamp", "date"):
        place, kind = records.schema.get_field_index(column), records.schema.field(column).type
        moved = pc.add(records[column].cast(pa.timestamp("us")), later).cast(kind)
        records = records.set_column(place, column, moved)
    return records


def start_with(folder: Path, config: str, stream: str) -> list[Path]:
    """Write a project with this config, and without data; returns the written files, relative to the folder.

    The folder is new, or has hidden files only (`.git`, `.venv`). `stream` is one of the config's, for the examples of
    the README. If the config is not valid (ConfigError), or the folder cannot be written, nothing was written.
    """

    def write(building: Path) -> None:
        for name, path in _TEMPLATES.items():
            if name not in {"README.md", "lake.yaml"}:
                _write(building / path, template(name))
        _write(building / "README.md", template("README_of_landed.md").replace("STREAM", stream))
        _write(building / "lake.yaml", config)
        load_config(building / "lake.yaml")

    return _start(folder, write)


def _start(folder: Path, write: Callable[[Path], None]) -> list[Path]:
    """Write a project to a hidden folder below it, and move it at the end, so that a failure leaves no files."""
    refuse_content(folder)
    with _made(folder), TemporaryDirectory(prefix=".lake-assets-init-", dir=folder) as name:
        building = Path(name)
        write(building)
        _write(building / "lake.schema.json", json.dumps(LakeConfig.model_json_schema(), indent=2) + "\n")
        made = sorted(building.iterdir())
        written = [path.relative_to(building) for path in _shown(made)]
        for path in made:
            path.rename(folder / path.name)
    return written


def refuse_content(folder: Path) -> None:
    """Refuse a folder in which a project cannot start: it has files, or is a file."""
    if folder.exists() and not folder.is_dir():
        raise StorageError(f"{folder} exists and is a file:", _ANOTHER)
    ours = {Path(path).parts[0] for path in _TEMPLATES.values()}
    existing = sorted(folder.iterdir()) if folder.exists() else []
    in_the_way = [path for path in existing if path.name in ours or not path.name.startswith(".")]
    if in_the_way:
        raise StorageError(
            f"{in_the_way[0]} exists, and a project needs a new or empty folder, so nothing was written:",
            "name a new folder, as in `lake-assets init my-lake`.",
        )


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """Make the folder and its parents; after an error, remove those that were made."""
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException as error:
        for path in new:
            if path.exists() and not any(path.iterdir()):
                path.rmdir()
        if isinstance(error, OSError):
            raise StorageError(f"the folder {folder} cannot be written: {error.strerror}:", _ANOTHER) from error
        raise


def template(name: str) -> str:
    """Return the text of a template by its file name."""
    return files("lake_assets.wings.templates.starter").joinpath(name).read_text(encoding="utf-8")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _shown(made: list[Path]) -> Iterator[Path]:
    for path in made:
        if path.name == "dagster_home":
            yield from path.iterdir()
        else:
            yield path
