"""`results` writes single files into a folder: it replaces its own, and those that git has."""

import subprocess

import pytest

from commands import results
from pipeline.config import params
from pipeline.io.errors import InputError
from pipeline.results import results_figures
from tests.folders import contents
from tests.running import ROOT


def write(folder, tree):
    for name, data in tree.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


@pytest.mark.parametrize("name", results.OWN_FILES.names)
def test_a_page_of_results_that_somebody_wrote_or_changed_is_left(name, tmp_path):
    kind = results.OWN_FILES
    write(tmp_path, {"mine.md": b"mine"})
    for data in (b"mine", b"made, and changed"):
        if data != b"mine":
            with kind.written(tmp_path):
                write(tmp_path, dict.fromkeys(kind.names, b"made"))
            kind.check(tmp_path)
        write(tmp_path, {name: data})
        before = contents(tmp_path)
        with pytest.raises(InputError, match=name), kind.written(tmp_path):
            pass
        assert contents(tmp_path) == before
        (tmp_path / name).unlink()
    kind.check(tmp_path)


def test_a_page_of_results_that_is_in_git_is_replaced(tmp_path):
    """As in a new clone, which has no record."""
    kind = results.OWN_FILES
    for command in ("init -q", "add .", "-c user.name=a -c user.email=a@b commit -qm a"):
        write(tmp_path, {kind.names[0]: b"committed"})
        subprocess.run(["git", "-C", tmp_path, *command.split()], check=True)
    kind.check(tmp_path)
    write(tmp_path, {kind.names[0]: b"changed"})
    with pytest.raises(InputError, match=kind.names[0]):
        kind.check(tmp_path)


def test_a_folder_named_as_a_figure_of_the_results_is_left(tmp_path):
    name = results_figures.SEEDS
    write(tmp_path, {f"{name}/mine": b"somebody's"})
    before = contents(tmp_path)
    with pytest.raises(InputError, match="is a folder, which a file does not replace"):
        results_figures.write(tmp_path, [], params.load(ROOT / "params.yaml"))
    assert contents(tmp_path) == before
