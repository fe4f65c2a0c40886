"""Checks of a dataset's folder by names, sizes and hashes, without opening an image."""

import os

import pytest

from pipeline.datasets import checking
from pipeline.datasets.images import Indexed
from pipeline.io import content_hashes
from pipeline.io.errors import InputError


@pytest.fixture
def root(tmp_path):
    for name in ("images/a.png", "images/b.png", "other/c.JPG", "d.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


def test_a_missing_image_is_named_with_its_fault(root):
    (root / "images/b.png").write_text("")
    names = ["images/a.png", "images/b.png", "images/c.png", "images", "d.txt/x.png", "x" * 300, "a\0b"]
    assert checking.missing(root, names) == [
        "images/b.png: empty (0 bytes)",
        "images/c.png: missing",
        "images: not a file",
        "d.txt/x.png: missing",
        f"{'x' * 300}: cannot be read (File name too long)",
        "a\0b: cannot be read (embedded null byte)",
    ]


def test_files_below_a_folder_are_listed_and_an_unreadable_folder_is_named(
    root, tmp_path_factory, monkeypatch
):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "e.png").write_text("e")
    (root / "linked").symlink_to(elsewhere)
    found = list(checking.files_below(root))
    assert found == ["d.txt", "images/a.png", "images/b.png", "linked/e.png", "other/c.JPG"]
    assert [name for name in found if checking.is_image(root / name)] == found[1:]

    def refuse(folder):
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(InputError, match=r"cannot be read \(Permission denied\)"):
        list(checking.files_below(root))


def test_changes_by_size_and_by_content(root, monkeypatch):
    index = [
        Indexed(name, 1, 1, (root / name).stat().st_size, content_hashes.sha256(root / name))
        for name in ("images/a.png", "images/b.png", "other/c.JPG")
    ]
    assert list(checking.changed(root, index)) == []
    (root / "images/a.png").write_text("longer than it was")
    (root / "images/b.png").write_text("images/B.png")
    (root / "other/c.JPG").unlink()
    assert list(checking.changed(root, index)) == [
        "images/a.png: other content",
        "images/b.png: other content",
        "other/c.JPG: cannot be read (No such file or directory)",
    ]
    monkeypatch.setattr(checking, "sha256", lambda path: pytest.fail("a file of another size is hashed"))
    assert len(list(checking.changed(root, index[:1]))) == 1


def test_differences_between_items_are_counted_by_kind(root):
    old = checking.hashes(root, [root / "d.txt", root / "images/a.png", root / "images/b.png"])
    assert list(old) == ["d.txt", "images/a.png", "images/b.png"]
    (root / "images/a.png").write_text("images/A.png")
    new = checking.hashes(root, [root / "d.txt", root / "images/a.png", root / "other/c.JPG"])
    assert checking.differences("files", old, old) == []
    assert checking.differences("files", old, new) == [
        "files that are new: 1, such as other/c.JPG",
        "files that are gone: 1, such as images/b.png",
        "files that are changed: 1, such as images/a.png",
    ]
