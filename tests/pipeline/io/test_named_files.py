"""DVC notices changed contents of the files that the settings name."""

import json

import pytest
import yaml
from dvc.repo import Repo

from pipeline.io import named_files
from tests import project_params
from tests.running import ROOT, succeed

# key of a setting that names a file -> the section of the settings that changes with the file
SECTIONS = {
    "features__weights": "features",
    "dataset__tabletop__features__weights": "features",
    "dataset__tabletop__text__vocabulary": "text",
    "dataset__tabletop__own__clip__start": "own",
}


def resolved(folder):
    (folder / "stages").mkdir(exist_ok=True)  # without a source file to hash
    succeed(folder, "settings --code code --settings settings")
    return {path.stem: path.read_text() for path in (folder / "settings/tabletop").glob("*.yaml")}


@pytest.mark.parametrize(("key", "section"), SECTIONS.items())
def test_the_settings_change_with_a_named_file_and_with_no_other(tmp_path, key, section):
    project_params.write(tmp_path, **{key: "file.json"})
    absent = resolved(tmp_path)
    assert not [path for path in (tmp_path / named_files.OF_DATASETS).iterdir() if path.is_symlink()]
    (tmp_path / "file.json").write_text("1")
    before = resolved(tmp_path)
    assert resolved(tmp_path) == before != absent
    (tmp_path / "file.json").write_text("2")
    (tmp_path / "other.json").write_text("3")
    after = resolved(tmp_path)
    assert {name for name in before if before[name] != after[name]} == {section}
    (link,) = [path for path in (tmp_path / named_files.OF_DATASETS).iterdir() if path.is_symlink()]
    assert link.resolve() == tmp_path / "file.json"
    project_params.write(tmp_path)
    assert "files" not in str(resolved(tmp_path))
    assert not link.is_symlink()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the libraries that DVC uses
def test_dvc_runs_a_stage_again_only_after_an_exchange(tmp_path, monkeypatch):
    """The stage `settings` is replaced by a command that makes a link in the folder on which it depends."""
    stage = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]["settings"]
    (dep,) = [dep for dep in stage["deps"] if dep.startswith("data/named")]
    (tmp_path / dep).mkdir(parents=True)
    (tmp_path / dep / "README.md").write_text("a page")
    cmd = f"ln -sfn {tmp_path}/words.json {dep}/words && cat {dep}/words > out"
    stages = {"stages": {"plan": {"cmd": cmd, "deps": [dep], "outs": ["out"]}}}
    (tmp_path / "dvc.yaml").write_text(json.dumps(stages))
    monkeypatch.chdir(tmp_path)
    repo = Repo.init(no_scm=True)
    for words, name in (("one", "words.json"), ("two", "words.json"), ("six", "new.json")):
        (tmp_path / name).write_text(words)
        (tmp_path / name).replace(tmp_path / "words.json")
        assert [len(repo.reproduce()), len(repo.reproduce())] == [1, 0]
        assert (tmp_path / "out").read_text() == words


def test_a_link_to_a_missing_file_is_removed_and_the_file_named(tmp_path):
    project_params.write(tmp_path, dataset__tabletop__text__vocabulary="words.json")
    (tmp_path / "words.json").write_text("1")
    resolved(tmp_path)
    folder = tmp_path / named_files.OF_DATASETS
    (folder / "mine").symlink_to("nowhere")
    assert succeed(tmp_path, "check_lock").stderr == ""
    (tmp_path / "words.json").unlink()
    assert "words.json, which is missing" in succeed(tmp_path, "check_lock").stderr
    assert [path.name for path in folder.iterdir()] == ["mine"]


def test_pretraining_has_its_own_links(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cub.pth").write_text("1")
    own = {"datasets": ["cub"], "root": {"cub": "raw"}, "weights": "cub.pth"}
    named_files.link(project_params.tree(pretraining=own))
    (link,) = named_files.OF_PRETRAINING.iterdir()
    assert link.resolve() == tmp_path / "cub.pth"
    assert not [*named_files.OF_DATASETS.iterdir()]
