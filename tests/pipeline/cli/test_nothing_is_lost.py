"""No output of any command removes or changes files that the command did not make."""

import json
import os

import pytest

from pipeline.cli.arguments import is_output
from pipeline.io import outputs as writing
from pipeline.io.errors import InputError
from pipeline.io.folder_records import RECORD
from pipeline.io.outputs import Contents, replacing
from pipeline.study import study_runs
from tests.command_options import COMMANDS, options, outputs, typed
from tests.folders import contents
from tests.running import refuse, script

EACH = [(command, name, kind) for command in COMMANDS for name, kind in outputs(command).items()]
FOLDERS = list(
    dict.fromkeys([*(kind for *_, kind in EACH if isinstance(kind, Contents)), study_runs.CONTENTS])
)
OWN = {"made.json": "made", "below/made.csv": "made, too"}


def test_every_argument_has_a_type_that_says_what_it_names():
    silent = {
        (command, action.dest)
        for command in COMMANDS
        for action in options(command).values()
        if action.nargs != 0
        and not action.choices
        and getattr(action.type, "__name__", "str") in ("str", "Path")
    }
    assert silent == set()


def test_the_outputs_of_several_commands_are_found():
    found = {(command, name) for command, name, _ in EACH}
    assert found >= {("train", "live"), ("pretrain", "live"), ("report", "out")}


def write(folder, tree):
    for name, text in tree.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def make(folder, kind, tree=OWN):
    """Make the folder as a command of this kind does."""
    with replacing(folder, kind) as beside:
        write(beside, tree)


def record(by, *names):
    return json.dumps({"by": by, "files": dict.fromkeys(names)})


# folders that are not, or not only, the work of a command of the kind "own"
FOREIGN = {
    "no record": {"made.json": "mine"},
    "an empty record": {"made.json": "mine", RECORD: ""},
    "a record that is no JSON": {"made.json": "mine", RECORD: "{"},
    "a record without files": {"made.json": "mine", RECORD: '{"by": "own"}'},
    "a record of another kind": {"made.json": "mine", RECORD: record("another", "made.json")},
    "a key twice": {
        "made.json": "mine",
        RECORD: record("own", "made.json").replace('"by"', '"by": "x", "by"'),
    },
    "another file": {"made.json": "made", "mine.txt": "mine", RECORD: record("own", "made.json")},
    "another file below": {"a/made": "made", "a/mine *[": "mine", RECORD: record("own", "a/made")},
}


@pytest.mark.parametrize("tree", FOREIGN.values(), ids=FOREIGN)
def test_a_folder_with_files_of_others_is_not_replaced(tmp_path, tree):
    write(tmp_path / "there", tree)
    with pytest.raises(InputError, match="there"), replacing(tmp_path / "there", Contents("own")) as beside:
        beside.mkdir()
    assert contents(tmp_path / "there") == {name: text.encode() for name, text in tree.items()}
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


@pytest.mark.parametrize("kind", FOLDERS, ids=lambda kind: kind.by)
def test_a_folder_replaces_its_own_kind_even_if_files_are_missing(tmp_path, kind):
    for _ in range(2):
        make(tmp_path / "there", kind)
        record_name = ".there.made.json" if kind.record_outside else RECORD
        assert {path.name for path in tmp_path.rglob("*.*")} == {record_name, "made.json", "made.csv"}
        (tmp_path / "there/made.json").unlink()


def test_a_folder_with_a_changed_file_is_not_replaced(tmp_path):
    with replacing(tmp_path / "out", FOLDERS[0]) as folder:
        write(folder, OWN)
    (tmp_path / "out/made.json").write_text("mine")
    with pytest.raises(InputError, match=r"made\.json"), replacing(tmp_path / "out", FOLDERS[0]) as folder:
        folder.mkdir()
    assert (tmp_path / "out/made.json").read_text() == "mine"


@pytest.mark.parametrize("inside", [False, True])
def test_a_record_next_to_the_folder_protects_its_files(tmp_path, inside):
    """The record is in the folder if the process was killed before the record was moved."""
    kind = Contents("own", record_outside=True)
    make(tmp_path / "out", kind, {"old.json": "old"})
    make(tmp_path / "out", kind)
    note = tmp_path / ".out.made.json"
    if inside:
        note.rename(tmp_path / "out" / RECORD)
        note.write_text(record("own", "old.json"))
    make(tmp_path / "out", kind)
    assert set(contents(tmp_path)) == {".out.made.json", *(f"out/{name}" for name in OWN)}
    (tmp_path / "out/made.json").write_text("mine")
    with pytest.raises(InputError, match=r"made\.json"), replacing(tmp_path / "out", kind) as folder:
        folder.mkdir()
    assert (tmp_path / "out/made.json").read_text() == "mine"


def test_a_large_file_that_was_changed_is_kept_though_its_size_is_equal(tmp_path):
    with replacing(tmp_path / "out", FOLDERS[0]) as folder:
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(bytes(9 << 20))
    with (tmp_path / "out/model.safetensors").open("r+b") as file:
        file.write(b"1")
    with pytest.raises(InputError, match=r"model\.safetensors"):
        FOLDERS[0].check(tmp_path / "out")


@pytest.mark.parametrize(("command", "name", "kind"), [*EACH, ("export", "out", "zip")], ids=str)
def test_no_command_replaces_a_folder_a_pipe_or_a_device_of_others(command, name, kind, tmp_path):
    write(tmp_path, {"folder/mine": "mine"})
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    before = contents(tmp_path)
    places = ["pipe", "link", "/dev/null"]
    if (command, name) != ("results", "out"):  # single files in a folder
        places += ["folder", ".", "/"]
    if isinstance(kind, Contents):
        (tmp_path / "to a folder").symlink_to("folder")
        places += ["folder/mine", "to a folder", "folder/.."]
    for place in places:
        refuse(tmp_path, [command, *options(command)[name].option_strings[:1], place], "")
    assert contents(tmp_path) == before


def test_a_link_to_a_file_is_replaced_itself_because_dvc_links_outputs_into_its_cache(tmp_path):
    (tmp_path / "cached").write_text("mine")
    (tmp_path / "link").symlink_to("cached")
    writing.write_text(tmp_path / "link", "made")
    assert (tmp_path / "cached").read_text() == "mine"
    assert (tmp_path / "link").read_text() == "made"


APART = [
    (command, out, read)
    for command in COMMANDS
    for found in [options(command)]
    for out in outputs(command)
    for read, action in found.items()
    if read != out and (is_output(action) or "to_read" in str(action.type))
    if command not in ("caption", "report", "results", "score", "sensitivity")  # one of several is required
]


@pytest.mark.parametrize(("command", "out", "read"), APART)
def test_no_output_is_an_input_or_another_output(command, out, read, tmp_path, monkeypatch):
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


def test_a_file_that_appears_during_the_work_is_not_lost(tmp_path):
    write(tmp_path / "made", OWN)
    write(tmp_path / "there", {"mine": "mine"})
    with pytest.raises(InputError, match="there"):
        writing.place(tmp_path / "made", tmp_path / "there", Contents("own"))
    writing.remove(tmp_path / "made")
    assert contents(tmp_path) == {"there/mine": b"mine"}


def test_equal_folders_have_equal_records_and_an_empty_folder_has_none(tmp_path):
    for name, tree in (("a", OWN), ("b", OWN), ("empty", {})):
        (tmp_path / name).mkdir()
        with replacing(tmp_path / name, FOLDERS[0]) as beside:
            beside.mkdir()
            write(beside, tree)
    assert (tmp_path / "a" / RECORD).read_bytes() == (tmp_path / "b" / RECORD).read_bytes()
    assert not list((tmp_path / "empty").iterdir())
