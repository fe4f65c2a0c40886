"""The files and folders that the settings name."""

import pytest

from pipeline.io import named_files
from tests import project_params


@pytest.mark.parametrize(
    ("key", "section"),
    [
        ("features__weights", "features"),
        ("dataset__tabletop__features__weights", "features"),
        ("dataset__tabletop__text__vocabulary", "text"),
        ("dataset__tabletop__models__clip__start", "models"),
    ],
)
def test_a_named_file_belongs_to_one_section(key, section):
    found = named_files.of_dataset(project_params.tree(**{key: "file.json"}), "tabletop")
    assert {name: files for name, files in found.items() if "file.json" in files} == {section: ["file.json"]}


def test_a_missing_file_has_no_hash(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").write_text("1")
    found = named_files.hashes(["a", "b"])
    assert found["b"] is None
    assert len(str(found["a"])) == 64


def test_the_folder_of_a_rendered_dataset_is_not_the_users():
    tree = project_params.tree()
    assert named_files.folders_of_dataset(tree, "tabletop") == {}
    assert named_files.folders_of_dataset(tree, "clevr_dc") == {
        "dataset.clevr_dc.prepare.root": "data/raw/clevr_dc"
    }
    tree = project_params.tree(
        dataset__tabletop__prepare__root="mine", dataset__tabletop__features__npy="npy"
    )
    assert [*named_files.folders_of_dataset(tree, "tabletop").values()] == ["mine", "npy"]


def test_the_folder_of_weights_to_start_from():
    tree = project_params.tree(train__fine_tune="mine")
    assert named_files.folders_of_dataset(tree, "tabletop") == {named_files.FINE_TUNE: "mine"}


def test_weights_of_pretraining():
    assert named_files.weights_of_pretraining(project_params.tree()) == []
    own = project_params.tree(pretraining__weights="cub.pth")
    assert named_files.weights_of_pretraining(own) == ["cub.pth"]
