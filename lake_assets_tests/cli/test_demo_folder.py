"""The demo's folder and sample config, without its run."""

from pathlib import Path

from click.testing import CliRunner

from lake_assets.cli import main
from lake_assets.streams.load import load_config
from lake_assets.wings.templates.demo.demo_run import CONFIG, MARKER, prepare
from lake_assets_tests.cli.choices import changed_by_each_choice


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


def test_an_empty_folder_is_taken_and_a_foreign_one_or_a_file_is_refused(tmp_path: Path) -> None:
    for name in ("empty", "foreign"):
        (tmp_path / name).mkdir()
    mine = [tmp_path / "file", tmp_path / "foreign" / "mine.txt"]
    for file in mine:
        file.write_text("mine")

    prepare(tmp_path / "empty")

    for name in ("file", "foreign"):
        refused = CliRunner().invoke(main, ["demo", "--folder", str(tmp_path / name)])
        assert (refused.exit_code, "was not made by the demo" in refused.stderr) == (1, True), refused.output
    assert [file.read_text() for file in mine] == ["mine"] * 2
    assert list((tmp_path / "foreign").iterdir()) == mine[1:]


def test_every_other_choice_of_the_sample_config_is_valid(tmp_path: Path) -> None:
    assert changed_by_each_choice(prepare(tmp_path / "demo")) >= 6
