"""SPICE's files: verified by hash, brought by the user, one clear line for all that is wrong."""

import hashlib
from pathlib import Path

import pytest

from pipeline.scoring import spice_files
from pipeline.scoring.spice_files import problem

CONTENT = {"alpha-1.jar": b"the first", "beta-2-models.jar": b"the second"}


JARS = {
    "alpha-1.jar": ("org.example:alpha:1", hashlib.sha256(CONTENT["alpha-1.jar"]).hexdigest()),
    "beta-2-models.jar": (
        "org.example:beta:2:jar:models",
        hashlib.sha256(CONTENT["beta-2-models.jar"]).hexdigest(),
    ),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(spice_files, "JARS", JARS)
    monkeypatch.setenv("SPICE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def by_hand(folder: Path) -> Path:
    folder.mkdir()
    for name, content in CONTENT.items():
        (folder / name).write_bytes(content)
    return folder


def test_names_and_coordinates() -> None:
    for name, (coordinates, digest) in spice_files.JARS.items():
        _, artifact, version, *classifier = coordinates.replace(":jar:", ":").split(":")
        assert name == "-".join([artifact, version, *classifier]) + ".jar"
        assert len(bytes.fromhex(digest)) == 32


def test_the_folder_is_the_repository_s_unless_the_variable_names_one(monkeypatch):
    monkeypatch.delenv("SPICE_CACHE", raising=False)
    assert spice_files.folder() == Path(__file__).parents[3] / ".cache/spice"
    assert spice_files.shown() == ".cache/spice"
    monkeypatch.setenv("SPICE_CACHE", "/elsewhere")
    assert (spice_files.folder(), spice_files.shown()) == (Path("/elsewhere"), "$SPICE_CACHE")


def test_files_that_are_absent(by_hand: Path) -> None:
    (by_hand / "beta-2-models.jar").unlink()
    assert problem() == (
        "beta-2-models.jar is not in $SPICE_CACHE; "
        "put Maven's org.example:beta:2:jar:models there (docs/evaluation.md#spice)"
    )


def test_without_the_folder_nothing_is_made(folder: Path) -> None:
    assert problem().startswith("alpha-1.jar is not in $SPICE_CACHE; put Maven's org.example:alpha:1 there")
    assert not folder.exists()


def test_files_put_there_by_hand(by_hand: Path) -> None:
    assert problem() is None


@pytest.mark.parametrize("content", [b"the thirst", b"the firsT", b""])
def test_a_file_that_is_not_the_published_one(by_hand: Path, content: bytes) -> None:
    (by_hand / "alpha-1.jar").write_bytes(content)
    said = "alpha-1.jar in $SPICE_CACHE is not the published file (damaged, or another); put Maven's org.ex"
    assert problem().startswith(said)
