"""DUDA's and VARD's released checkpoints, made up: checked by name and shape, and equal to what they were."""

import json

import pytest
import torch

import models
from models.common.dynamic_speaker import SpeakerSizes
from models.vard.model import VardSizes
from pipeline.authors_checkpoints import checkpoint_file, duda_vard
from pipeline.authors_checkpoints.duda_vard import DUDA, SETTINGS, VARD
from pipeline.decoding.greedy import greedy
from pipeline.io.errors import InputError
from pipeline.text import vocabularies
from pipeline.text.vocabularies import SPECIAL
from pipeline.weights import trained_model
from tests import project_params, released
from tests.reference import dynamic
from tests.released import drop, put
from tests.running import refuse, succeed

SYSTEMS = pytest.mark.parametrize("system", [DUDA, VARD], ids=lambda each: each.model)
DATA = 1024, (14, 14), 9, 24
SIZES = {"duda": SpeakerSizes(*DATA, 8, 4, 3), "vard": VardSizes(*DATA, 8, 4, 3, 8, 4)}
WORDS = {word: number for number, word in enumerate((*SPECIAL, *"abcde"))}


def model(system):
    """Of their ids: it ends captions with 0."""
    torch.manual_seed(0)
    made = models.build(system.model, SIZES[system.model], SETTINGS).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(torch.randn(parameter.shape) * 0.5)
        made.difference.map.weigh.bias.fill_(-4.0)  # sums over 196 cells, of which few are seen
        made.decoder.vocabulary.bias[0] = 0.5  # some captions end, and not at once
    return made


def states(system):
    """Its tensors as the released program names them."""
    made = model(system)
    idle = {"weight": torch.ones(6, made.decoder.look.in_features // 3), "bias": torch.ones(6)}
    beside = {f"change_detector_state.fc1.{kind}": value for kind, value in idle.items()}
    return released.named(made, system.names, beside)


def write(folder, system, spoil=None):
    tree = states(system)
    if spoil:
        spoil(tree)
    (folder / "vocab.json").write_text(json.dumps(WORDS))
    return released.write(folder / "their.pt", tree)


def bring_in(path, heads=None):
    file = checkpoint_file.read(path)
    assert duda_vard.is_one(file)
    vocabulary = vocabularies.fixed(path.with_name("vocab.json"), [], lower_case=False)
    return duda_vard.imported(file, vocabulary, "clevr_change", duda_vard.FEATURES, heads, 24, 1)[:2]


def theirs(made, vectors):
    """The greedy caption of their ids: <NULL> ends it."""
    said = [2]
    while len(said) < 24 and (len(said) == 1 or said[-1] != 0):
        said.append(int(dynamic.spoken(made.decoder, *vectors, said)[-1][0].argmax()))
    return [token for token in said[1:] if token > 0]


@SYSTEMS
@torch.no_grad()
def test_the_imported_one_says_what_theirs_says(tmp_path, system):
    """In its own ids, where <NULL> ends a caption and any other token may be written."""
    made = model(system).double()
    trained_model.save(tmp_path / "ours", *bring_in(write(tmp_path, system)))
    again, trained = trained_model.load(tmp_path / "ours")
    again = again.double()
    assert (trained.vocabulary, trained.longest, trained.shape) == (9, 24, (1024, 14, 14))
    assert trained.recipe.settings["variant"] == "released"
    before, after = torch.randn(2, 8, 1024, 14, 14, dtype=torch.float64)
    difference = again.encode(before, after)
    torch.testing.assert_close(made.encode(before, after).memory, difference.memory)
    words, lengths = greedy(again, difference).tolist(), set()
    for row, vectors in enumerate(difference.memory):
        own = [{0: 3}.get(token, token) for token in words[row][: (words[row] + [3]).index(3)]]
        wanted = theirs(made, vectors)
        assert own == wanted
        lengths.add(len(wanted))
    assert min(lengths) < 23
    assert max(lengths) > 0


@SYSTEMS
def test_rows_that_did_not_change_places_would_say_something_else(system):
    rows = torch.arange(10.0)[:, None]
    assert duda_vard.exchanged(rows).flatten().tolist() == [3, 1, 2, 0, 4, 5, 6, 7, 8, 9]
    weights = states(system)["speaker_state"]["logit.weight"]
    assert not torch.equal(duda_vard.exchanged(weights), weights)


def zeros(state, name, shape):
    return put(state, name, torch.zeros(shape))


@pytest.mark.parametrize(
    ("system", "spoil", "said"),
    [
        (DUDA, drop("change_detector_state", "att.bias"), r"state\.att\.bias is missing"),
        (DUDA, drop("change_detector_state", "fc1.bias"), r"state\.fc1\.bias is missing"),
        (VARD, drop("change_detector_state", "perl.key.bias"), r"perl\.key\.bias is missing; name a .* VARD"),
        (
            DUDA,
            zeros("change_detector_state", "embed.0.weight", (8, 2048, 1, 1)),
            r"\(8, 2048, 1, 1\), where",
        ),
        (DUDA, zeros("change_detector_state", "embed.0.weight", (8, 2052)), "has not 4 dimensions"),
        (DUDA, zeros("change_detector_state", "embed.0.weight", (6, 2052, 1, 1)), "maps 6 is not a multiple"),
        (VARD, zeros("change_detector_state", "img.weight", (6, 1026)), "width 6 is not a multiple of heads"),
        (DUDA, zeros("speaker_state", "core.extra", (2,)), r"core\.extra is no tensor of DUDA"),
        (DUDA, zeros("speaker_state", "embed.0.weight", (8, 3)), "is of 8 words, the vocabulary of 9"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path, system, spoil, said):
    with pytest.raises(InputError, match=said):
        bring_in(write(tmp_path, system, spoil))


@SYSTEMS
def test_the_command(tmp_path, system):
    project_params.write(tmp_path)
    write(tmp_path, system)
    command = "import_checkpoint their.pt --vocab vocab.json --dataset clevr_change"
    succeed(tmp_path, f"{command} --seed 3")
    kept = tmp_path / f"data/imported/clevr_change/{system.model}/3/train"
    _, trained = trained_model.load(kept / "weights")
    assert (trained.seed, trained.longest, trained.recipe.model) == (3, 24, system.model)
    assert (kept / "curves/loss.csv").read_text() == "iteration,cap,maps,entropy\n"


def test_the_command_refuses_other_features(tmp_path):
    project_params.write(tmp_path, features__stride=32)
    write(tmp_path, DUDA)
    command = "import_checkpoint their.pt --vocab vocab.json --dataset clevr_change"
    refuse(tmp_path, command, "features.stride is 32, the checkpoint was trained with 16")
    assert not (tmp_path / "data").exists()
