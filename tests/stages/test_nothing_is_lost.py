"""No output of any command deletes what it did not make: folders with a stranger's files survive."""

import argparse
import importlib
import tempfile
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import outputs, params
from pipeline.captioning import package
from pipeline.errors import InputError
from pipeline.outputs import Contents, file_to_write, replacing
from pipeline.studying import results_figures, study_cells
from stages import report
from tests.command_options import LATER, OUTPUTS, READ
from tests.running import ROOT, stage

COMMANDS = sorted(path.stem for path in (ROOT / "stages").glob("[!_]*.py") if path.stem != "arguments")


class ParsedError(Exception):
    pass


def options(command):
    """The options of a command, by name."""
    found = []

    def caught(self, *_):
        found.extend(action for action in self._actions if action.dest != "help")
        raise ParsedError

    with patch.object(argparse.ArgumentParser, "parse_args", caught), suppress(ParsedError):
        importlib.import_module(f"stages.{command}").main()
    return {action.dest: action for action in found}


def contents(kind):
    """What an option's folder holds; None of a file's, False of an option that is no output."""
    if kind is file_to_write:
        return None
    if kind is package.to_write:
        return package.CONTENTS
    own = getattr(kind, "__self__", None)
    return own if isinstance(own, Contents) else False


EACH = [
    (command, name, contents(action.type))
    for command in COMMANDS
    for name, action in options(command).items()
    if contents(action.type) is not False
] + [("report", "out", report.CONTENTS)]
FOLDERS = list(dict.fromkeys([*(own for *_, own in EACH if own), study_cells.CONTENTS]))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_output_of_a_command_is_known(command):
    found = options(command)
    own = {name for name, action in found.items() if contents(action.type) is not False}
    assert own == OUTPUTS.get(command, set())
    assert {name for name in found.keys() - own if (command, name) not in LATER} <= {*READ}


def own_files(kind):
    """The paths that a folder of these contents may hold, one for each pattern."""
    return [name.replace("*", "000001") for name in (kind.mark, *kind.names)] if kind else ["a.txt"]


def trees(kind):
    """Files in a folder, by path: some that the stage writes, and at least one that it does not."""
    folders = sorted({str(Path(name).parent) for name in own_files(kind)} | {".", "another"})
    name = st.text("ab.- '*[ä\n", max_size=8)
    strange = st.builds(lambda folder, name: f"{folder}/mine{name}", st.sampled_from(folders), name)
    mine = st.dictionaries(strange, st.binary(max_size=20), min_size=1, max_size=3)
    return st.builds(dict.__or__, st.dictionaries(st.sampled_from(own_files(kind)), st.just(b"made")), mine)


def write(folder, tree):
    for name, data in tree.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def state(folder):
    return {path.relative_to(folder): path.is_file() and path.read_bytes() for path in folder.rglob("*")}


def refused(folder, command, name, place="there"):
    """The command says in one line that it does not write there, and leaves all as it is."""
    before = state(folder)
    done = stage(folder, f"{command} --{name.replace('_', '-')} {place}")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert done.stderr.startswith("error: ")
    assert state(folder) == before


@pytest.mark.parametrize(("command", "name", "kind"), EACH)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_a_folder_with_a_strangers_file_survives_every_command(command, name, kind, data):
    with tempfile.TemporaryDirectory() as place:
        write(Path(place) / "there", data.draw(trees(kind)))
        refused(Path(place), command, name)


@pytest.mark.parametrize(("command", "name", "kind"), EACH)
def test_neither_a_file_by_a_folder_nor_a_folder_by_a_file(command, name, kind, tmp_path):
    if kind:
        (tmp_path / "there").write_text("a stranger's")
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "link").symlink_to("elsewhere")
        places = ("there", "link", ".", "..", "elsewhere/..", "/")
    else:
        (tmp_path / "there").mkdir()
        (tmp_path / "link").symlink_to("there")
        places = ("there", "link", ".", "..", "/", "/dev/null")
    for place in places:
        refused(tmp_path, command, name, place)


def typed(action, place):
    """What a user types for an option, or in the place of an argument."""
    if action.choices:
        place = str(next(iter(action.choices)))
    elif action.type is int or "whole" in str(action.type):
        place = "1"
    return [*action.option_strings[:1], place]


APART = [
    (command, out, read)
    for command, outs in OUTPUTS.items()
    for found in [options(command)]
    for out in sorted(outs)
    for read, action in found.items()
    if read != out and (action.type is Path or read in outs)
    if command not in ("caption", "score")  # which have their own: test_arguments.py
]


@pytest.mark.parametrize(("command", "out", "read"), APART)
def test_no_output_is_an_input_or_another_output(command, out, read, tmp_path, monkeypatch):
    """Nothing is there yet: their names alone tell."""
    monkeypatch.chdir(tmp_path)
    words = [
        word
        for name, action in options(command).items()
        if action.required or name in (out, read)
        for word in typed(action, "same" if name in (out, read) else f"own-{name}")
    ]
    monkeypatch.setattr("sys.argv", [command, *words])
    with pytest.raises(InputError, match="same is named twice, and would be lost"):
        importlib.import_module(f"stages.{command}").main()
    assert not list(tmp_path.iterdir())


def _made_meanwhile(path, kind, mine):
    with replacing(path, kind) as beside:
        write(beside, dict.fromkeys(own_files(kind), b"made"))
        write(path, mine)


@pytest.mark.parametrize("kind", FOLDERS, ids=lambda kind: kind.mark)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_what_writes_a_folder_replaces_its_own_and_no_other(kind, data):
    """The same below the command line, where a stranger's file comes while the stage is at work."""
    late, mine = data.draw(st.booleans()), data.draw(trees(kind))
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "there"
        for _ in range(2):  # the second time it replaces its own
            with replacing(path, kind) as beside:
                write(beside, dict.fromkeys(own_files(kind), b"made"))
            assert {file for file, found in state(path).items() if found} == set(map(Path, own_files(kind)))
        outputs.remove(path)
        if not late:
            write(path, mine)
        with pytest.raises(InputError, match="which was not written by"):
            _made_meanwhile(path, kind, mine)
        assert {file: found for file, found in state(path).items() if found is not False} == {
            Path(name): found for name, found in mine.items()
        }
        assert [left.name for left in Path(place).iterdir()] == ["there"]


@pytest.mark.parametrize("kind", FOLDERS, ids=lambda kind: kind.mark)
def test_files_without_the_stages_mark_are_a_strangers(kind, tmp_path):
    """Others have an `index.html`, too: only the file that no stranger has tells that it is the stage's."""
    other = next(name for name in own_files(kind) if name != kind.mark)
    write(tmp_path / "there", {other: b"a stranger's"})
    with pytest.raises(InputError, match="not written by what would replace"):
        kind.check(tmp_path / "there")
    write(tmp_path / "there", {kind.mark: b"made"})
    kind.check(tmp_path / "there")


def test_an_empty_folder_is_taken_and_an_empty_one_within_is_a_strangers(tmp_path):
    kind = Contents("a", ("b/*/c",))
    (tmp_path / "there/b/1").mkdir(parents=True)
    kind.check(tmp_path / "there")
    (tmp_path / "there/b/1/c").mkdir()
    with pytest.raises(InputError, match="holds 'b/1/c', which"):
        kind.check(tmp_path / "there")


def test_a_folder_named_as_a_figure_of_the_results_is_left(tmp_path):
    name = results_figures.SEEDS
    write(tmp_path, {f"{name}/mine": b"a stranger's"})
    before = state(tmp_path)
    with pytest.raises(InputError, match="is a folder, which a file does not replace"):
        results_figures.write(tmp_path, [], params.load(ROOT / "params.yaml"))
    assert state(tmp_path) == before


@pytest.mark.parametrize("place", ["", ".", "..", "a/..", "/"])
def test_text_is_not_written_in_a_folders_place(place, tmp_path, monkeypatch):
    (tmp_path / "here/a").mkdir(parents=True)
    (tmp_path / "here/mine").write_text("a stranger's")
    monkeypatch.chdir(tmp_path / "here")
    before = state(tmp_path)
    with pytest.raises(InputError, match="is a folder, which a file does not replace"):
        outputs.write_text(place, "a")
    assert state(tmp_path) == before
