"""No output of any command removes or changes what the command did not make, whatever has its name."""

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.cli.arguments import is_output
from pipeline.io import outputs as writing
from pipeline.io.errors import InputError
from pipeline.io.folder_records import RECORD
from pipeline.io.outputs import Contents, Files, replacing
from pipeline.study import study_cells
from tests.command_options import COMMANDS, options, outputs, typed
from tests.running import script, stage

EACH = [(command, name, kind) for command in COMMANDS for name, kind in outputs(command).items()]
FOLDERS = list(
    dict.fromkeys([*(kind for *_, kind in EACH if isinstance(kind, Contents)), study_cells.CONTENTS])
)


def silent(actions):
    """The arguments that do not say what they name: something to read, an output, or a word."""
    return [a.dest for a in actions if a.nargs != 0 and not a.choices and a.type in (None, str, Path)]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_argument_says_what_it_names(command):
    assert silent(options(command).values()) == []
    assert "parse_args" not in Path(script(command).__file__).read_text(), (
        "that is for pipeline/cli/arguments.py"
    )


def test_the_outputs_of_other_times_are_outputs():
    """They were counted as what is read, and folders of somebody's were emptied through them."""
    found = {(command, name) for command, name, _ in EACH}
    assert found >= {(command, "live") for command in ("train", "pretrain")} | {
        ("report", "out"),
    }


NAMES = st.text("ab.- '*[ä\n", max_size=8).map(lambda text: f"mine{text}")
OWN = {"made.json": b"made", "below/made.csv": b"made, too"}


def write(folder, tree):
    for name, data in tree.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def make(folder, kind, tree=OWN):
    """The folder, as a command of this kind leaves it."""
    with replacing(folder, kind) as beside:
        write(beside, tree)


def somebodys(folder, kind, draw):
    """The folder with something that is not the command's own."""
    what = draw(
        st.sampled_from(["no record", "another kind", "a file", "changed", "link", "pipe", "empty folder"])
    )
    if kind is None or what == "no record":
        names = [RECORD, "dvc.yaml", "README.md", "zarr.json", "model.yaml", "a/b"]
        write(folder, dict.fromkeys(draw(st.sets(st.sampled_from(names), min_size=1)), b"{}"))
        return
    make(folder, Contents("another") if what == "another kind" else kind)
    own = folder / draw(st.sampled_from([*OWN]))
    if what == "a file":
        write(folder, {draw(st.sampled_from(["", "below/", "new/"])) + draw(NAMES): b"mine"})
    elif what == "changed":
        own.write_bytes(b"made by hand")
    elif what == "empty folder":
        (folder / "below/mine").mkdir()
    elif what in ("link", "pipe"):
        own.unlink()
        own.symlink_to("nowhere") if what == "link" else os.mkfifo(own)


def state(folder):
    """What is there: the bytes of files, what links name, and of all else what it is."""
    return {
        path.relative_to(folder): path.readlink()
        if path.is_symlink()
        else (path.read_bytes() if path.is_file() else path.stat().st_mode)
        for path in folder.rglob("*")
    }


def refused(folder, command, name, place="there"):
    """The command says in one line that it does not write there, and leaves all as it is."""
    before = state(folder)
    done = stage(folder, [command, *options(command)[name].option_strings[:1], place])
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert done.stderr.startswith("error: ")
    assert state(folder) == before


@pytest.mark.parametrize(
    ("command", "name", "kind"), [each for each in EACH if not isinstance(each[2], Files)], ids=str
)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_a_folder_with_anything_of_somebodys_survives_every_command(command, name, kind, data):
    with tempfile.TemporaryDirectory() as place:
        somebodys(Path(place) / "there", kind, data.draw)
        refused(Path(place), command, name)


@pytest.fixture
def odd(tmp_path):
    """Places that are neither files nor folders, by name; `file` is open, and a regular file."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("mine")
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "file").open("a") as file:
        opened = f"/proc/self/fd/{file.fileno()}"
        leads = {
            "to a folder": "folder",
            "to a pipe": "pipe",
            "to a device": "/dev/null",
            "to an open file": opened,
            "to a link": "to an open file",
            "to itself": "to itself",
        }
        for name, to in leads.items():
            (tmp_path / name).symlink_to(to)
        devices = ["/dev/null", "/dev/mine", f"/dev/fd/{file.fileno()}", opened, "folder/../to an open file"]
        yield tmp_path, [".", "..", "/", "folder/..", "pipe", *leads, *devices]


@pytest.mark.parametrize(("command", "name", "kind"), [*EACH, ("export", "out", "zip")], ids=str)
def test_no_device_no_pipe_and_no_link_to_one_is_replaced(command, name, kind, odd):
    folder, places = odd
    if isinstance(kind, Contents):
        places += ["file"]
    if isinstance(kind, Files):
        places = ["pipe", "to a pipe", "to a device", "file", *places[-5:-1]]
    for place in places:
        refused(folder, command, name, place)


def test_a_link_to_a_file_is_replaced_itself_as_dvc_links_outputs_into_its_cache(tmp_path):
    (tmp_path / "cached").write_text("mine")
    (tmp_path / "link").symlink_to("cached")
    writing.write_text(tmp_path / "link", "made")
    assert (tmp_path / "cached").read_text() == "mine"


APART = [
    (command, out, read)
    for command in COMMANDS
    for found in [options(command)]
    for out, kind in outputs(command).items()
    for read, action in found.items()
    if read != out and (is_output(action) or "to_read" in str(action.type))
    if not isinstance(kind, Files) and command not in ("caption", "report", "score")  # test_arguments.py
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
    with pytest.raises(InputError, match="same is named twice"):
        script(command).main()
    assert not list(tmp_path.iterdir())


def _made_meanwhile(path, kind, draw, mine):
    with replacing(path, kind) as beside:
        write(beside, OWN)
        somebodys(path, kind, draw)
        mine |= state(path)


@pytest.mark.parametrize("kind", FOLDERS, ids=lambda kind: kind.by)
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_what_writes_a_folder_replaces_its_own_and_no_other(kind, data):
    """The same below the command line, where somebody's file comes while the stage is at work."""
    late = data.draw(st.booleans())
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "there"
        make(path, kind)
        made = state(path)
        (path / "made.json").unlink()  # nothing is lost of it
        make(path, kind)
        assert state(path) == made
        writing.remove(path)
        mine = {}
        if late:
            with pytest.raises(InputError, match="there"):
                _made_meanwhile(path, kind, data.draw, mine)
        else:
            somebodys(path, kind, data.draw)
            mine |= state(path)
            with pytest.raises(InputError, match="there"), replacing(path, kind):
                pass
        assert state(path) == mine
        assert [left.name for left in Path(place).iterdir()] == ["there"]


def test_of_two_that_write_a_folder_at_once_the_last_one_stays_whole(tmp_path):
    kind = FOLDERS[0]
    make(tmp_path / "there", kind, {"before": b"0"})
    with replacing(tmp_path / "there", kind) as one:
        write(one, {"one": b"1"})
        make(tmp_path / "there", kind, {"two": b"2"})
        assert (tmp_path / "there/two").exists()
    assert {path.name for path in tmp_path.rglob("*")} == {"there", RECORD, "one"}


def test_the_record_says_what_was_written_and_nothing_of_when_or_where(tmp_path):
    for name, tree in (("a", OWN), ("b", OWN), ("other", OWN | {"made.json": b"MADE"})):
        make(tmp_path / name, FOLDERS[0], tree)
    a, b, other = ((tmp_path / name / RECORD).read_bytes() for name in ("a", "b", "other"))
    assert a == b != other


def test_an_empty_folder_is_replaced_and_has_no_record(tmp_path):
    (tmp_path / "there").mkdir()
    for _ in range(2):
        with replacing(tmp_path / "there", FOLDERS[0]) as beside:
            beside.mkdir()
    assert not list((tmp_path / "there").iterdir())


@pytest.mark.parametrize("place", ["", ".", "..", "a/..", "/"])
def test_text_is_not_written_in_a_folders_place(place, tmp_path, monkeypatch):
    (tmp_path / "here/a").mkdir(parents=True)
    (tmp_path / "here/mine").write_text("somebody's")
    monkeypatch.chdir(tmp_path / "here")
    before = state(tmp_path)
    with pytest.raises(InputError, match="is a folder, which a file does not replace"):
        writing.write_text(place, "a")
    assert state(tmp_path) == before
