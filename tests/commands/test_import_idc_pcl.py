"""import_checkpoint of IDC-PCL's files, of both phases: the command as its user types it."""

import json

import pytest

from pipeline.weights import trained_model
from tests import project_params
from tests.pipeline.authors_checkpoints.test_idc_pcl_checkpoints import IDS, write
from tests.running import refuse, succeed

COMMAND = "import_checkpoint their.pt --vocab vocab.json --dataset clevr_change --heads 2 --longest 12"
MARKS = {"<PAD>": "<NULL>", "<UNK>": "<UNK>", "<BOS>": "<START>", "<EOS>": "<END>"}


@pytest.fixture
def folder(tmp_path):
    project_params.write(tmp_path, features__stride=32)
    return tmp_path


@pytest.mark.parametrize("first", [True, False])
def test_weights_and_curves(folder, first):
    write(folder, first)
    succeed(folder, f"{COMMAND} --seed 3")
    load = trained_model.load_first if first else trained_model.load
    kept = folder / "data/imported/clevr_change/idc_pcl/3" / ("first" if first else "train")
    _, trained = load(kept / "weights")
    assert (trained.seed, trained.shape, trained.longest, trained.vocabulary) == (3, (2048, 7, 7), 12, 9)
    assert trained.recipe.dataset == "clevr_change"
    assert (kept / "curves/validation.csv").read_text() == "iteration,CIDEr-D\n"
    assert (kept / "curves/loss.csv").read_text() == "iteration,cap\n"


def ours(ids):
    """A vocabulary of as many rows, with the marks of SCORER's."""
    words = [word for word in ids if not word.startswith("<")]
    return {word: number for number, word in enumerate([*MARKS.values(), *words, "x", "y"])}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (ours, "vocab.json lacks <PAD>; name the vocabulary of the checkpoint of IDC-PCL"),
        (lambda ids: ids | {"e": 11}, "vocab.json: ids must run from 0 without gaps"),
        (lambda ids: ids | {"e": 9}, "vocab.json: ids must run from 0 without gaps"),
        (lambda ids: ids | {"f": 11}, "word_embedding.weight is (11, 8), where"),
    ],
)
def test_another_vocabulary_is_refused(folder, change, said):
    write(folder, True)
    (folder / "vocab.json").write_text(json.dumps(change(IDS)))
    refuse(folder, COMMAND, said)
    assert not (folder / "data").exists()
