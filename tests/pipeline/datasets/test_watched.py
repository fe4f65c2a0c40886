"""A changed file of the user changes the hashes that the stage watch writes, and other files do not."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.datasets.watched import state
from pipeline.io.errors import InputError


def every(_name):
    return True


def test_an_edit_a_new_file_and_a_removed_file_change_the_state(tmp_path):
    (tmp_path / "p").mkdir()
    (tmp_path / "p/a.png").write_text("1")
    states = [state(tmp_path, every)]
    assert state(tmp_path, every) == states[0]
    (tmp_path / "p/a.png").write_text("two")
    states.append(state(tmp_path, every))
    os.utime(tmp_path / "p/a.png", ns=(1, 1))  # other content of the same size has another time
    states.append(state(tmp_path, every))
    (tmp_path / "p/b.png").write_text("1")
    states.append(state(tmp_path, every))
    (tmp_path / "p/b.png").rename(tmp_path / "b.png")
    states.append(state(tmp_path, every))
    (tmp_path / "p/a.png").unlink()
    states.append(state(tmp_path, every))
    assert len(set(states)) == len(states)


NAMES = st.text(st.characters(exclude_characters="/\0", codec="utf-8"), min_size=1, max_size=50)


@given(st.dictionaries(NAMES.filter(lambda name: name[0] != "."), st.binary(), min_size=1))
def test_the_state_depends_on_all_counted_files_in_any_order(tmp_path_factory, files):
    folders = [tmp_path_factory.mktemp("f") for _ in range(2)]
    for folder, names in zip(folders, (list(files), list(files)[::-1]), strict=True):
        for name in names:
            (folder / name).write_bytes(files[name])
            os.utime(folder / name, ns=(5, 5))
    assert state(folders[0], every) == state(folders[1], every)
    last = next(iter(files))
    (folders[1] / last).write_bytes(files[last] + b"1")
    is_system = last.casefold() in ("thumbs.db", "ehthumbs.db", "desktop.ini", "__macosx", "@eadir")
    assert (state(folders[0], every) == state(folders[1], every)) == is_system


def test_files_of_systems_and_files_that_do_not_count_are_left_out(tmp_path):
    before = state(tmp_path, lambda name: name.endswith(".png"))
    (tmp_path / "@eaDir").mkdir()
    for name in (".hidden.png", "notes.txt", "@eaDir/a.png"):
        (tmp_path / name).write_text("1")
    assert state(tmp_path, lambda name: name.endswith(".png")) == before


def test_links_are_followed_but_not_in_circles(tmp_path):
    (tmp_path / "root/below").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    for name in ("root/again", "root/below/again"):
        (tmp_path / name).symlink_to(tmp_path / "root")
    (tmp_path / "root/nothing.png").symlink_to("nowhere")
    (tmp_path / "root/itself").symlink_to("itself")
    (tmp_path / "root/images").symlink_to(tmp_path / "elsewhere")
    before = state(tmp_path / "root", every)
    assert state(tmp_path / "root", every) == before
    (tmp_path / "elsewhere/a.png").write_text("1")
    assert state(tmp_path / "root", every) != before


def test_a_missing_folder_has_no_state(tmp_path):
    assert state(tmp_path / "missing", every) is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every folder")
def test_a_folder_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "closed").mkdir(mode=0)
    with pytest.raises(InputError, match="closed"):
        state(tmp_path, every)
