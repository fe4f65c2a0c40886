"""CARD's released checkpoints, made up: checked by name and shape, and equal to what they were."""

import json
from dataclasses import replace

import pytest
import torch

import models
from models.card.model import CardSizes
from pipeline.authors_checkpoints import card, checkpoint_file
from pipeline.authors_checkpoints.scorer_dirl import POSITIONS
from pipeline.io.errors import InputError
from pipeline.text import vocabularies
from pipeline.text.vocabularies import SPECIAL
from pipeline.weights import trained_model
from tests import released
from tests.random_models import randomise
from tests.released import drop, put

D, S = "change_detector_state", "speaker_state"
WORDS = (*SPECIAL, "<SEP>", "", "a", "b", "c")  # two spaces in a row give the empty word
SIZES = CardSizes(1024, (14, 14), len(WORDS), 7, 8, 2, 2, 6)


@torch.no_grad()
def model():
    made = models.build("card", SIZES, card.SETTINGS)
    randomise(made, 0.2).regularisers["con"].temperature.fill_(0.2)
    return made


def states(made):
    """Its tensors as the released program names them."""
    return released.named(made, card.NAMES, {POSITIONS: made.decoder.positions})


def write(folder, spoil=None):
    tree = states(model())
    if spoil:
        spoil(tree)
    released.write(folder / "their.pt", tree)
    (folder / "vocab.json").write_text(json.dumps({word: number for number, word in enumerate(WORDS)}))


def bring_in(folder, heads=2, **features):
    file = checkpoint_file.read(folder / "their.pt")
    assert card.is_one(file)
    vocabulary = vocabularies.fixed(folder / "vocab.json", [], lower_case=False)
    own = replace(card.FEATURES, **features)
    return card.imported(file, vocabulary, "spot_the_diff", own, heads, 1)[:2]


def test_round_trip(tmp_path):
    write(tmp_path)
    trained_model.save(tmp_path / "ours", *bring_in(tmp_path))
    again, trained = trained_model.load(tmp_path / "ours")
    assert (trained.vocabulary, trained.longest, trained.shape) == (9, 7, (1024, 14, 14))
    assert (trained.recipe.model, trained.recipe.settings["variant"]) == ("card", "released")
    before, after = torch.randn(2, 2, 1024, 14, 14)
    tokens = torch.tensor([[2, 4, 5, 3], [2, 6, 3, 0]])
    with torch.no_grad():
        found, expected = (each.losses(before, after, tokens) for each in (again, model()))
    assert found == expected
    assert found["con"] > 0


def test_names_and_shapes_on_record():
    """Of the released program's sizes, as they were read off it."""
    sizes = CardSizes(1024, (14, 14), 2033, 70, 512, 8, 2, 300)
    with torch.device("meta"):
        made = models.build("card", sizes, card.SETTINGS)
    shapes = {
        card.NAMES.place(name).name: card.NAMES.place(name).shape(tuple(tensor.shape))
        for name, tensor in made.state_dict().items()
    }
    expected = {
        "change_detector_state.temp": (),
        "change_detector_state.positions": (197, 512),
        "change_detector_state.bef_cls_token": (1, 1, 512),
        "change_detector_state.img.0.weight": (512, 1024, 1, 1),
        "change_detector_state.encoder.attention.in_proj_weight": (1536, 512),
        "change_detector_state.transformer.attention.out_proj.bias": (512,),
        "change_detector_state.transformer.norm1.weight": (512,),
        "change_detector_state.diff_trans2.0.weight": (512, 1024),
        "speaker_state.core.embed.weight": (2033, 300),
        "speaker_state.core.fc.0.weight": (512, 300),
        "speaker_state.core.layer.1.cross_att.in_proj_bias": (1536,),
        "speaker_state.core.layer.0.linear1.weight": (2048, 512),
        "speaker_state.core.layer.1.norm3.bias": (512,),
        "speaker_state.logit.weight": (2033, 512),
    }
    assert expected.items() <= shapes.items()
    assert len(shapes) == 6 + 2 * 6 + 7 * 2 + 5 + 2 * (2 * 4 + 2 * 2 + 3 * 2)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (drop(D, "temp"), r"change_detector_state\.temp is missing"),
        (
            put(D, "fc.0.bias", torch.zeros(9)),
            r"change_detector_state\.fc\.0\.bias is \(9,\), where the model has \(8,\)",
        ),
        (put(S, "more", torch.zeros(1)), r"speaker_state\.more is no tensor of CARD"),
        (put(S, "core.position_enc.pe", torch.zeros(7, 6)), "is not the sinusoids"),
        (
            put(D, "positions", torch.zeros(50, 8)),
            r"change_detector_state\.positions is \(50, 8\), where the model has \(197, 8\)",
        ),
    ],
)
def test_what_does_not_fit_is_named(tmp_path, spoil, said):
    write(tmp_path, spoil)
    with pytest.raises(InputError, match=said) as error:
        bring_in(tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"heads": 3}, "width 8 is not a multiple of heads"),
        ({"size": 256}, "features.size is 256, the checkpoint was trained with 224"),
    ],
)
def test_heads_and_features_that_do_not_fit(tmp_path, how, said):
    write(tmp_path)
    with pytest.raises(InputError, match=said):
        bring_in(tmp_path, **how)


def test_another_vocabulary_is_refused(tmp_path):
    write(tmp_path)
    (tmp_path / "vocab.json").write_text(json.dumps(dict(zip(SPECIAL, range(4), strict=True))))
    with pytest.raises(InputError, match="is of 9 words, the vocabulary of 4"):
        bring_in(tmp_path)
