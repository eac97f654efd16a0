"""The demo's folder and sample config, without its run."""

import re
from pathlib import Path

import pytest

from lake_assets.config.load import load_config, parse_config
from lake_assets.demo.folder import CONFIG, MARKER, prepare
from lake_assets.errors import StorageError

ENVIRONMENT = {"LAKE_PASSWORD": "x", "KEY_ID": "x", "SECRET": "x"}


def test_what_the_user_put_into_the_folder_stays(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    config = prepare(folder)
    notes, journal = folder / "notes.txt", folder / "catalog.sqlite-journal"
    notes.write_text("mine")
    journal.write_text("of a run that was killed")
    config.write_text("edited")
    (folder / "landing" / "flights").mkdir(parents=True)

    prepare(folder)

    assert sorted(path.name for path in folder.iterdir()) == sorted([MARKER, CONFIG, "notes.txt"])
    assert set(load_config(config).streams) == {"flights", "delays"}


def test_a_link_in_the_folder_is_removed_and_not_what_it_leads_to(tmp_path: Path) -> None:
    folder, other = tmp_path / "demo", tmp_path / "other"
    prepare(folder)
    other.mkdir()
    (other / "precious").write_text("mine")
    (folder / "lake").symlink_to(other)

    prepare(folder)

    assert not (folder / "lake").exists()
    assert (other / "precious").read_text() == "mine"


def test_an_empty_folder_is_taken_and_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("mine")

    prepare(tmp_path / "empty")

    with pytest.raises(StorageError, match="was not made by the demo"):
        prepare(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


def test_every_other_choice_of_the_sample_config_is_valid(tmp_path: Path) -> None:
    lines = prepare(tmp_path / "demo").read_text(encoding="utf-8").splitlines()
    choices = [number for number, line in enumerate(lines) if line.lstrip().startswith("#| ")]

    for number in choices:
        text = "\n".join(chosen(lines, number))
        assert parse_config(text, tmp_path / CONFIG, ENVIRONMENT) != parse_config(
            "\n".join(lines), tmp_path / CONFIG, ENVIRONMENT
        ), lines[number]

    assert len(choices) >= 6


def chosen(lines: list[str], number: int) -> list[str]:
    """The lines with this choice in the place of the nearest key above it with the same name and depth."""
    choice = re.sub(r"#\| ", "", lines[number], count=1)
    key = choice.split(":", 1)[0] + ":"
    result = [*lines[:number], choice, *lines[number + 1 :]]
    depth = len(choice) - len(choice.lstrip())
    for above in range(number - 1, -1, -1):
        line = lines[above]
        if line.startswith(key):
            return result[:above] + result[number:]  # with the block that hangs below the key
        if line.strip() and not line.lstrip().startswith("#") and len(line) - len(line.lstrip()) < depth:
            break  # the mapping begins here, and the key is new
    return result
