"""The check of prose finds openings and retired words, and the repository passes it."""

import pytest

from tests import prose

SOURCE = '''"""What a file is for."""

def f():
    """Of numbers those of this part."""
    return 1  # made anew, beside it


def g():
    """Return the ofs of a what. Where this stands in a later sentence does not matter."""
'''


def test_the_repository_has_no_new_faults():
    lines, _ = prose.compared(prose.by_group(), prose.LEFT)
    assert lines == []


def test_openings_and_retired_words_are_found(tmp_path):
    file = tmp_path / "a.py"
    file.write_text(SOURCE)
    found = prose.faults(file, "a.py")
    assert [line.split(": ")[0] for line in found] == ["a.py:1", "a.py:4", "a.py:5", "a.py:5"]
    page = tmp_path / "a.md"
    page.write_text("A lab-twin, twinned.\nThe Strangers\n")
    assert [line.split(":")[1] for line in prose.faults(page, "a.md")] == ["1", "2"]


@pytest.mark.parametrize(
    ("found", "lines", "notes"),
    [({"a": ["x", "y"]}, 3, 0), ({"a": ["x"]}, 0, 0), ({}, 0, 1), ({"a": ["x"], "b": ["z"]}, 2, 0)],
)
def test_a_number_may_fall_and_not_rise(found, lines, notes):
    one, other = prose.compared(found, {"a": 1})
    assert (len(one), len(other)) == (lines, notes)
