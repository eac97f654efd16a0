"""The starter project's folder: written completely or not at all, without overwriting a file."""

import datetime as dt
import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory

from lake_assets.config.load import load_config
from lake_assets.config.models import schema_of
from lake_assets.errors import StorageError
from lake_assets.landing.retail import Retail
from lake_assets.landing.writer import LandingWriter

STREAM = "sales"  # of the template's config

# The path of each template in the project. Git would apply a .gitignore among the sources.
_TEMPLATES = {
    "lake.yaml": "lake.yaml",
    "workspace.yaml": "workspace.yaml",
    "dagster.yaml": "dagster_home/dagster.yaml",
    "README.md": "README.md",
    "gitignore": ".gitignore",
}
_LANDED = Retail(stores=4, regions=("NW", "SW"), days=2, seed=1, start=dt.date(2026, 2, 11), per_store=100)


def start(folder: Path) -> list[Path]:
    """Write the project into a folder that is new, or has only hidden files (`.git`, `.venv`).

    Everything is written to a hidden folder below it and moved at the end, so a failure leaves no files.

    Returns:
        The written files and folders of data, relative to the folder.

    Raises:
        StorageError: a file is in the way, or the folder cannot be written; nothing was written.
    """
    _refuse_content(folder)
    with _made(folder), TemporaryDirectory(prefix=".lake-assets-init-", dir=folder) as name:
        building = Path(name)
        _write(building)
        made = sorted(building.iterdir())
        written = [path.relative_to(building) for path in _shown(made)]
        for path in made:
            path.rename(folder / path.name)
    return written


def _refuse_content(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise StorageError(f"{folder} exists and is a file:", "name another folder.")
    ours = {Path(path).parts[0] for path in _TEMPLATES.values()}
    existing = sorted(folder.iterdir()) if folder.exists() else []
    in_the_way = [path for path in existing if path.name in ours or not path.name.startswith(".")]
    if in_the_way:
        raise StorageError(
            f"{in_the_way[0]} exists, and a project starts in a folder of its own; nothing was written:",
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
            raise StorageError(
                f"the folder {folder} cannot be written: {error.strerror}.", "Name another one."
            ) from error
        raise


def _write(folder: Path) -> None:
    for template, path in _TEMPLATES.items():
        (folder / path).parent.mkdir(exist_ok=True)
        text = files("lake_assets.templates.starter").joinpath(template).read_text(encoding="utf-8")
        (folder / path).write_text(text, encoding="utf-8")
    (folder / "lake.schema.json").write_text(json.dumps(schema_of(), indent=2) + "\n", encoding="utf-8")
    stream = load_config(folder / "lake.yaml").streams[STREAM]
    with LandingWriter(STREAM, stream) as writer:
        for block in _LANDED.blocks():
            writer.write(block)


def _shown(made: list[Path]) -> Iterator[Path]:
    for path in made:
        if path.name == "dagster_home":
            yield from path.iterdir()
        else:
            yield path
