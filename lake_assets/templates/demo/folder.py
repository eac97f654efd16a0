"""The demo's folder: made anew by each run, and never somebody else's."""

import shutil
from importlib.resources import files
from pathlib import Path

from lake_assets.errors import StorageError

MARKER = ".made-by-lake-assets-demo"
CONFIG = "lake.yaml"

# What a run makes; all else in the folder is the user's and stays.
_OURS = ("landing", "lake", CONFIG, "catalog.sqlite*")  # the last with its lock and SQLite's journal beside it


def prepare(folder: Path) -> Path:
    """Make the folder, or empty it of what an earlier run made, and write the config into it.

    A run that was interrupted at any moment leaves a folder that the next one takes.

    Returns:
        The config's path.

    Raises:
        StorageError: the folder has content and no marker of the demo, or is a file; nothing was touched.
    """
    marker = folder / MARKER
    if folder.exists() and not marker.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise StorageError(
            f"{folder} exists and was not made by the demo:", "name another folder with --folder, or move it away."
        )
    folder.mkdir(parents=True, exist_ok=True)
    marker.write_text("The demo made this folder, and makes what lies in it anew when it runs again.\n")
    for path in [path for pattern in _OURS for path in folder.glob(pattern)]:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    config = folder / CONFIG
    config.write_text(
        files("lake_assets.templates.demo").joinpath(CONFIG).read_text(encoding="utf-8"), encoding="utf-8"
    )
    return config
