"""A training that starts from trained weights (setting train.fine_tune)."""

import shutil
from dataclasses import replace

import pytest
import torch

from pipeline.config import resolving
from pipeline.datasets import watched
from pipeline.io.content_hashes import file_hash
from pipeline.io.errors import InputError
from pipeline.text.vocabularies import identity
from pipeline.training import phases
from pipeline.weights import trained_model
from stages.recipe import check_start, pretraining_hashes
from tests import project_params
from tests.killed import train
from tests.pipeline.training.test_phases import recipe, save, without_pretraining


@pytest.fixture
def trained(pixels, tmp_path):
    """Return the recipe, the tensors and the folder of a small trained model."""
    first = without_pretraining(recipe())  # as a run that starts from trained weights
    history, _ = train(pixels, tmp_path / "state", first)
    save(tmp_path / "weights", first, pixels, history)
    return first, history.best, tmp_path / "weights"


def starting_from(folder, first):
    return replace(first, phases={"train": first.phases["train"] | {"fine_tune": str(folder)}})


def test_the_training_starts_from_all_tensors(pixels, trained):
    first, tensors, folder = trained
    phase = phases.phase_of(starting_from(folder, first))
    model = phase.make(pixels.store.shape, phase.cut(pixels.vocabulary))
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, tensors[name]), name
    fresh = phases.phase_of(first).make(pixels.store.shape, pixels.vocabulary).state_dict()
    assert any(not torch.equal(tensor, tensors[name]) for name, tensor in fresh.items())
    assert set(phase.keys) - set(phases.phase_of(first).keys) == {
        file_hash(trained_model.weights_file(folder))
    }


def test_other_words_and_other_sizes_are_refused(pixels, trained):
    first, _, folder = trained
    phase = phases.phase_of(starting_from(folder, first))
    longer = replace(pixels.vocabulary, longest=pixels.vocabulary.longest - 1)
    phase.make(pixels.store.shape, longer)  # another maximum length is no other vocabulary
    more = replace(pixels.vocabulary, words=(*pixels.vocabulary.words, "zebra"))
    with pytest.raises(InputError, match=str(folder)):
        phase.make(pixels.store.shape, more)
    wider = starting_from(folder, replace(first, sizes=first.sizes | {"joint": 16, "width": 16}))
    with pytest.raises(InputError, match=f"{folder}.*fine_tune"):
        phases.phase_of(wider).make(pixels.store.shape, pixels.vocabulary)


def test_other_words_of_the_same_number_are_refused(pixels, trained):
    first, history, folder = trained
    described = trained_model.describe(folder)
    words = replace(described, hashes={"vocabulary": identity(pixels.vocabulary)})
    shutil.rmtree(folder)
    trained_model.save(folder, words, history)
    phase = phases.phase_of(starting_from(folder, first))
    phase.make(pixels.store.shape, pixels.vocabulary)
    renamed = replace(pixels.vocabulary, words=(*pixels.vocabulary.words[:-1], "zebra"))
    with pytest.raises(InputError, match=str(folder)):
        phase.make(pixels.store.shape, renamed)


def test_a_folder_without_weights_is_named(trained):
    first, _, folder = trained
    missing = folder.with_name("none")
    with pytest.raises(InputError, match=f"{missing}.*fine_tune"):
        phases.phase_of(starting_from(missing, first))
    with pytest.raises(InputError, match=f"{missing}.*fine_tune"):
        pretraining_hashes(starting_from(missing, first), None)


def test_a_run_does_not_start_from_its_own_output(tmp_path):
    with pytest.raises(InputError, match=r"train\.fine_tune"):
        check_start(tmp_path / "a/../weights", tmp_path / "weights")
    check_start(tmp_path / "copy", tmp_path / "weights")
    check_start(tmp_path / "weights", None)


def test_changed_weights_change_the_inputs_of_a_run(trained):
    first, _, folder = trained
    chosen = starting_from(folder, first)
    noted = pretraining_hashes(chosen, None)
    assert noted == {"fine_tune": file_hash(trained_model.weights_file(folder))}
    settings = project_params.settings(train__fine_tune=str(folder))
    before = watched.of_dataset(settings, "tabletop")["train"]
    file = trained_model.weights_file(folder)
    file.write_bytes(file.read_bytes() + b" ")
    assert pretraining_hashes(chosen, None) != noted
    assert watched.of_dataset(settings, "tabletop")["train"] != before


@pytest.mark.parametrize("model", ["clip4idc", "idc_pcl", "scorer_cbr", "clip_ft"])
def test_a_run_that_starts_from_trained_weights_has_no_pretraining(model):
    changes = {"dataset__tabletop__models__clip__start": "clip.safetensors"}
    chosen = project_params.settings(train__fine_tune="demo/clip4idc", **changes)
    resolved = resolving.resolve(chosen, "tabletop", model)
    assert resolved.phases["train"]["fine_tune"] == "demo/clip4idc"
    assert [*resolved.phases] == ["train"]
    assert "start" not in resolved.phases["train"]
    assert resolving.stage_lists([resolved])["pretrain"] == []
    without = resolving.resolve(project_params.settings(**changes), "tabletop", model)
    assert "fine_tune" not in without.phases["train"]
    assert (without.pretraining is not None) == (model in ("clip4idc", "idc_pcl"))
