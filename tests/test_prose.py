"""tests/prose.py finds openings and retired words, and the repository passes."""

from tests import prose

SOURCE = '''"""What a file is for."""

def f():
    """Of numbers those of this part."""
    return 1  # made anew, beside it


def g():
    """Return the ofs of a what. Where this stands in a later sentence does not matter."""
'''


def test_the_repository_has_no_faults():
    assert prose.all_faults() == []


def test_openings_and_retired_words_are_found(tmp_path):
    file = tmp_path / "a.py"
    file.write_text(SOURCE)
    found = prose.faults(file, "a.py")
    assert [line.split(": ")[0] for line in found] == ["a.py:1", "a.py:4", "a.py:5", "a.py:5"]
    page = tmp_path / "a.md"
    page.write_text("A new-anew, renewed.\nThe Strangers\n")
    assert [line.split(":")[1] for line in prose.faults(page, "a.md")] == ["1", "2"]
