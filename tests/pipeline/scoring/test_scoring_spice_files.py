"""SPICE's files: verified by hash, fetched only when told to, one clear line for all that is wrong."""

import hashlib
import os
import sys
import types
from pathlib import Path

import pytest

from pipeline.errors import InputError
from pipeline.scoring import spice_files
from pipeline.scoring.spice_files import Jar, fetch, problem
from stages import spice as command

CONTENT = {"alpha-1.jar": b"the first", "beta-2-models.jar": b"the second"}


def jar(artifact: str, version: str, classifier: str, content: bytes) -> Jar:
    return Jar(
        "org.example", artifact, version, len(content), hashlib.sha256(content).hexdigest(), classifier
    )


JARS = (
    jar("alpha", "1", "", CONTENT["alpha-1.jar"]),
    jar("beta", "2", "models", CONTENT["beta-2-models.jar"]),
)


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


@pytest.fixture
def mvn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository; an `mvn` that notes how it was called and copies what the repository holds."""
    repository, bin_ = tmp_path / "repository", tmp_path / "bin"
    repository.mkdir()
    bin_.mkdir()
    for name, content in CONTENT.items():
        (repository / name).write_bytes(content)
    (bin_ / "mvn").write_text(
        f'#!/bin/sh\necho "$@" >> "{tmp_path}/calls"\n'
        'for word; do case "$word" in\n'
        '-DoutputDirectory=*) to="${word#*=}" ;;\n-Dartifact=*) of="${word#*=}" ;;\nesac; done\n'
        'name=$(echo "$of" | sed "s/^[^:]*://; s/:jar//; s/:/-/g").jar\n'
        f'cp "{repository}/$name" "$to" || {{ echo "[ERROR] Could not find artifact $of"; exit 1; }}\n'
    )
    (bin_ / "mvn").chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_}:/usr/bin:/bin")
    return repository


def calls(mvn: Path) -> list[str]:
    noted = mvn.parent / "calls"
    return noted.read_text().splitlines() if noted.exists() else []


def refused(act: Jar) -> str:
    with pytest.raises(InputError) as caught:
        fetch(act)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_names_and_coordinates() -> None:
    names = [jar.name for jar in spice_files.JARS]
    assert names[:2] == ["stanford-corenlp-3.6.0.jar", "stanford-corenlp-3.6.0-models.jar"]
    assert spice_files.JARS[1].coordinates == "edu.stanford.nlp:stanford-corenlp:3.6.0:jar:models"
    assert spice_files.JARS[2].coordinates == "org.mozilla:rhino:1.7.15.1"
    assert all(len(bytes.fromhex(jar.sha256)) == 32 for jar in spice_files.JARS)


def test_the_folder_is_the_repository_s_unless_the_variable_names_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SPICE_CACHE", raising=False)
    assert spice_files.folder() == Path(__file__).parents[3] / ".cache/spice"
    assert spice_files.shown() == ".cache/spice"
    monkeypatch.setenv("SPICE_CACHE", "/elsewhere")
    assert (spice_files.folder(), spice_files.shown()) == (Path("/elsewhere"), "$SPICE_CACHE")


def test_files_that_are_absent(folder: Path, mvn: Path) -> None:
    assert problem() == "alpha-1.jar is not in $SPICE_CACHE; run `make spice`"
    assert not folder.exists()
    assert calls(mvn) == [], "nothing is fetched unless told to"


def test_files_put_there_by_hand_are_hashed_once(by_hand: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert problem() is None
    monkeypatch.setattr(spice_files, "_sha256", lambda path: pytest.fail("hashed again"))
    assert problem() is None


@pytest.mark.parametrize("content", [b"the thirst", b"the firsT", b""])
def test_a_file_that_is_not_the_published_one(by_hand: Path, content: bytes) -> None:
    (by_hand / "alpha-1.jar").write_bytes(content)
    said = "alpha-1.jar in $SPICE_CACHE is not the published file (damaged, or another); run `make spice`"
    assert problem() == said


def test_a_file_that_is_changed_after_it_was_verified(by_hand: Path) -> None:
    assert problem() is None
    beside = by_hand / "other"
    beside.write_bytes(b"THE FIRST")  # of the same size and time
    os.utime(beside, ns=(0, (by_hand / "alpha-1.jar").stat().st_mtime_ns))
    beside.replace(by_hand / "alpha-1.jar")
    assert "alpha-1.jar in $SPICE_CACHE is not the published file" in problem()


@pytest.mark.parametrize("record", ["", "[]", "nonsense", '{"alpha-1.jar": null}'])
def test_a_damaged_record_is_made_anew(by_hand: Path, record: str) -> None:
    (by_hand / "verified.json").write_text(record)
    assert problem() is None
    assert set(spice_files._verified()) == set(CONTENT)


def test_the_command_fetches_what_is_missing_and_what_is_bad(
    folder: Path, mvn: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["spice"])
    monkeypatch.setattr(command.spice, "unavailable", lambda timeout: "no memory")
    command.main()
    assert problem() is None
    first, second = calls(mvn)
    assert spice_files.COPY in first
    assert "-Dartifact=org.example:alpha:1 " in first
    assert "-Dartifact=org.example:beta:2:jar:models " in second
    assert sorted(path.name for path in folder.iterdir()) == [*sorted(CONTENT), "verified.json"]
    (folder / "beta-2-models.jar").write_bytes(b"damaged")
    command.main()
    assert len(calls(mvn)) == 3
    assert (folder / "beta-2-models.jar").read_bytes() == CONTENT["beta-2-models.jar"]
    assert "alpha-1.jar (0.00 MB) …\n  is there\n" in (said := capsys.readouterr().out)
    assert said.endswith("warning: the files are right, but SPICE cannot run now: no memory\n")


def test_a_wrong_file_from_the_repository_is_not_kept(folder: Path, mvn: Path) -> None:
    (mvn / "alpha-1.jar").write_bytes(b"tampered!")
    assert "org.example:alpha:1 is not the published file: its sha256 is" in refused(JARS[0])
    assert list(folder.iterdir()) == []


def test_a_repository_that_lacks_the_file(folder: Path, mvn: Path) -> None:
    (mvn / "alpha-1.jar").unlink()
    said = refused(JARS[0])
    assert "([ERROR] Could not find artifact org.example:alpha:1); check the network" in said
    assert f"put alpha-1.jar into {folder} by hand" in said


def test_an_mvn_that_does_nothing(folder: Path, mvn: Path) -> None:
    (mvn.parent / "bin" / "mvn").write_text("#!/bin/sh\n")
    assert "the resolver brought no alpha-1.jar" in refused(JARS[0])


def test_an_mvn_that_stalls(folder: Path, mvn: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (mvn.parent / "bin" / "mvn").write_text("#!/bin/sh\nexec sleep 1000\n")
    monkeypatch.setattr(spice_files, "FETCH_SECONDS", 0.3)
    assert "alpha-1.jar did not come within 0.3 s" in refused(JARS[0])


def test_a_folder_that_cannot_be(tmp_path: Path, mvn: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SPICE_CACHE", str(tmp_path / "file" / "cache"))
    assert "(Not a directory); set SPICE_CACHE" in refused(JARS[0])


def test_without_maven_and_without_jgo(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jgo.maven", None)
    said = refused(JARS[1])
    assert "install Maven, or `pip install jgo`" in said
    assert f"put beta-2-models.jar (org.example:beta:2:jar:models) into {folder} by hand" in said


def test_without_maven_jgo_brings_it(folder: Path, mvn: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Component(types.SimpleNamespace):
        """Stands for jgo's context, project, component and artifact."""

        def project(self, group: str, artifact: str) -> "Component":
            return Component(name=artifact)

        def at_version(self, version: str) -> "Component":
            return Component(name=f"{self.name}-{version}")

        def artifact(self, classifier: str) -> "Component":
            return Component(name=f"{self.name}{classifier and '-'}{classifier}.jar")

        def resolve(self) -> Path:
            return mvn / self.name

    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setitem(sys.modules, "jgo", types.ModuleType("jgo"))
    monkeypatch.setitem(sys.modules, "jgo.maven", types.SimpleNamespace(MavenContext=Component))
    assert [fetch(jar) for jar in JARS] == [True, True]
    assert problem() is None
    (folder / "alpha-1.jar").unlink()
    (mvn / "alpha-1.jar").unlink()
    assert "jgo could not bring org.example:alpha:1 (FileNotFoundError" in refused(JARS[0])
