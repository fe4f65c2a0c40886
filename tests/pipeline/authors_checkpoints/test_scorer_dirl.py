"""Released checkpoints: checked by name and shape, and equal to what they were when imported."""

import json
import pickle
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import models
from models.common.captioner import Sizes
from pipeline.authors_checkpoints import checkpoint_file, scorer_dirl
from pipeline.authors_checkpoints.scorer_dirl import DIRL, SCORER, SYSTEMS
from pipeline.authors_checkpoints.tensor_names import check_features, shapes_of
from pipeline.config.store_contents import IMPORTED
from pipeline.io.errors import InputError
from pipeline.text.vocabularies import SPECIAL, WordVocabulary
from pipeline.weights import trained_model
from tests.released import VOCABULARY, drop, model, put, states, write

GOLDEN = Path(__file__).parents[2] / "golden"


def bring_in(path, vocabulary=VOCABULARY, heads=2):
    file, features = checkpoint_file.read(path), scorer_dirl.FEATURES
    return scorer_dirl.imported(file, vocabulary, "clevr_change", features, heads, 1)[:2]


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.title)
def test_round_trip(tmp_path, system, zipped):
    made = model(system)
    path = write(tmp_path / "their.pt", states(made, system), _use_new_zipfile_serialization=zipped)
    with pytest.raises((pickle.UnpicklingError, AttributeError, ModuleNotFoundError)):
        torch.load(path, weights_only=True)  # torch itself refuses such a file
    trained_model.save(tmp_path / "ours", *bring_in(path))
    again, trained = trained_model.load(tmp_path / "ours")
    assert (trained.vocabulary, trained.longest, trained.shape) == (11, 7, (1024, 14, 14))
    assert trained.recipe.sizes == {"width": 8, "heads": 2, "layers": 2, "decoder_layers": 2, "word_width": 6}
    assert trained.recipe.features["resize"] == "opencv_bicubic"
    assert trained.recipe.settings["variant"] == "released"
    assert trained.recipe.model == system.model
    assert again.terms == made.terms
    before, after = torch.randn(2, 2, 1024, 14, 14)
    tokens = torch.tensor([[2, 4, 5, 3], [2, 6, 3, 0]])
    with torch.no_grad():
        expected, found = made.losses(before, after, tokens), again.losses(before, after, tokens)
        pair = made.encode(before, after)
        assert torch.equal(again.encode(before, after).memory, pair.memory)
        assert torch.equal(again.decoder(tokens, pair).logits, made.decoder(tokens, pair).logits)
    assert {name: loss.item() for name, loss in found.items()} == {
        name: loss.item() for name, loss in expected.items()
    }


@pytest.mark.parametrize(("system", "vocabulary", "longest"), [(SCORER, 76, 24), (DIRL, 87, 40)])
def test_names_and_shapes_are_the_released_ones(system, vocabulary, longest):
    sizes = Sizes(1024, (14, 14), vocabulary, longest, 512, 8, 2, 2, 300)
    with torch.device("meta"):
        made = models.build(system.model, sizes, scorer_dirl.settings(system, system.coordinates[0]))
    wanted = scorer_dirl.wanted(system, sizes, shapes_of(made))
    golden = json.loads((GOLDEN / f"released_{system.title.lower()}_shapes.json").read_text())
    assert wanted == {
        f"{s}.{name}": tuple(shape) for s, names in golden.items() for name, shape in names.items()
    }


def test_the_last_layers_temperature_is_the_contrasts(tmp_path):
    tree = states(model())
    tree["change_detector_state"]["scorer.0.attention.logit_scale"] = torch.tensor(0.25)
    tree["change_detector_state"]["scorer.1.attention.logit_scale"] = torch.tensor(0.75)
    _, tensors = bring_in(write(tmp_path / "their.pt", tree))
    assert tensors["regularisers.cv.contrast.s"].item() == 0.75


def test_numbers_may_be_of_16_bits_and_share_a_storage(tmp_path):
    tree = states(model())
    whole = {f"{state}.{name}": value.half() for state in tree for name, value in tree[state].items()}
    flat = torch.cat([value.flatten() for value in whole.values()])
    parts = flat.split([value.numel() for value in whole.values()])
    for (name, value), part in zip(whole.items(), parts, strict=True):
        state, rest = name.split(".", 1)
        tree[state][rest] = part.view(value.shape)
    _, tensors = bring_in(write(tmp_path / "their.pt", tree))
    expected = model().state_dict()
    assert all(torch.equal(tensor, expected[name].half().float()) for name, tensor in tensors.items())


def test_a_joined_tensor_is_query_key_and_value(tmp_path):
    tree = states(model(DIRL), DIRL)
    joined = torch.arange(24.0)[:, None].expand(24, 8).contiguous()
    tree["change_detector_state"]["transformer.1.attention.in_proj_weight"] = joined
    tree["speaker_state"]["core.layer.0.cross_att.in_proj_bias"] = torch.arange(24.0)
    _, tensors = bring_in(write(tmp_path / "their.pt", tree))
    for number, part in enumerate(("query", "key", "value")):
        rows = torch.arange(8.0 * number, 8.0 * number + 8)
        assert torch.equal(tensors[f"difference.attentions.1.{part}.weight"][:, 0], rows)
        assert torch.equal(tensors[f"decoder.layers.0.cross_attention.{part}.bias"], rows)


def test_an_attention_of_torchs_own_gives_what_ours_gives(tmp_path):
    theirs = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
    tree = states(model(DIRL), DIRL)
    for name, value in theirs.state_dict().items():
        tree["change_detector_state"][f"transformer.0.attention.{name}"] = value
    trained_model.save(tmp_path / "ours", *bring_in(write(tmp_path / "their.pt", tree)))
    ours = trained_model.load(tmp_path / "ours")[0].difference.attentions[0]
    x, y = torch.randn(2, 3, 5, 8)
    with torch.no_grad():
        torch.testing.assert_close(ours(x, y), theirs(x, y, y)[0])


def test_dirls_models_with_coordinates_are_told_by_their_channels(tmp_path):
    for beside in (0, 2):
        made = model(DIRL, beside=beside)
        trained, _ = bring_in(write(tmp_path / "their.pt", states(made, DIRL)))
        assert trained.recipe.settings["switches"] == ({"coordinates": True} if beside else {})
        assert trained.shape == (1024, 14, 14)


def test_what_is_of_neither_system_is_refused(tmp_path):
    tree = states(model())
    tree["change_detector_state"] = {"layer.0.weight": torch.zeros(1)}
    with pytest.raises(InputError, match=r"no tensor is of a layer of SCORER or DIRL; name a released"):
        bring_in(write(tmp_path / "their.pt", tree))


D, S = "change_detector_state", "speaker_state"
NO_EMBEDDING = drop(S, "core.embed.weight")
NOT_FINITE = put(S, "logit.bias", torch.full((11,), torch.nan))


@pytest.mark.parametrize(
    ("system", "change", "said"),
    [
        (
            SCORER,
            put(D, "scorer.1.attention.key.weight", torch.zeros(8, 9)),
            r"scorer\.1\.attention\.key\.weight is \(8, 9\), where the model has \(8, 8\)",
        ),
        (
            SCORER,
            drop(S, "core.layer.1.norm2.bias"),
            r"speaker_state\.core\.layer\.1\.norm2\.bias is missing",
        ),
        (
            SCORER,
            put(S, "core.memory", torch.zeros(3)),
            r"speaker_state\.core\.memory is no tensor of SCORER",
        ),
        (SCORER, NO_EMBEDDING, r"speaker_state\.core\.embed\.weight is missing"),
        (
            SCORER,
            put(S, "core.embed.weight", torch.zeros(66)),
            r"speaker_state\.core\.embed\.weight is \(66,\), and has not 2 dimensions",
        ),
        (SCORER, NOT_FINITE, r"speaker_state\.logit\.bias has a number that is not finite"),
        (
            SCORER,
            put(S, "core.position_enc.pe", torch.zeros(7, 6)),
            r"position_enc\.pe is not the sinusoids",
        ),
        (
            SCORER,
            put(S, "logit.bias", torch.zeros(11, dtype=torch.float64)),
            r"speaker_state\.logit\.bias is torch\.strided, torch\.float64, not of floats of at most 32",
        ),
        (
            SCORER,  # without coordinates
            put(D, "img.0.weight", torch.zeros(8, 1024, 1, 1)),
            r"features of \(1022, 14, 14\).*stride 16 at 224 pixels gives \(1024, 14, 14\)",
        ),
        (SCORER, drop(S), r"has no tensors under 'speaker_state'"),
        (SCORER, put(S, "logit.bias", [0.0]), r"has no tensors under 'speaker_state'"),
        (
            DIRL,
            put(D, "transformer.1.attention.in_proj_bias", torch.zeros(16)),
            r"transformer\.1\.attention\.in_proj_bias is \(16,\), where the model has \(24,\)",
        ),
        (
            DIRL,
            put(S, "core.fc.2.bias", torch.zeros(8)),
            r"core\.fc\.2\.bias is no tensor of DIRL; name a released checkpoint of DIRL",
        ),
        (
            DIRL,
            put(D, "img.0.weight", torch.zeros(8, 1023, 1, 1)),
            r"features of \(1023, 14, 14\) with 0 coordinates more, but stride 16 at 224",
        ),
        (DIRL, drop(D, "mlp.3.bias"), r"state\.mlp\.3\.bias is missing; name a released checkpoint of DIRL"),
        (
            DIRL,
            NO_EMBEDDING,
            r"speaker_state\.core\.embed\.weight is missing; name a released checkpoint of DIRL",
        ),
        (DIRL, NOT_FINITE, r"speaker_state\.logit\.bias has a number that is not finite"),
    ],
)
def test_the_first_tensor_that_differs_is_named(tmp_path, system, change, said):
    tree = states(model(system), system)
    change(tree)
    with pytest.raises(InputError, match=said) as error:
        bring_in(write(tmp_path / "their.pt", tree))
    assert "\n" not in str(error.value)
    assert "their.pt" in str(error.value)
    assert system is SCORER or "SCORER" not in str(error.value)


def test_other_words_and_heads_are_refused(tmp_path):
    path = write(tmp_path / "their.pt", states(model()))
    with pytest.raises(InputError, match=r"core\.embed\.weight is of 11 words, the vocabulary of 5"):
        bring_in(path, WordVocabulary((*SPECIAL, "a"), 7, lower_case=False))
    with pytest.raises(InputError, match=r"its width, 8, is not a multiple of 3 heads; mend --heads"):
        bring_in(path, heads=3)
    with pytest.raises(InputError, match=r"not a multiple of 0 heads"):
        bring_in(path, heads=0)


def test_features_are_the_released_ones_or_imported():
    released = scorer_dirl.FEATURES
    check_features(released, released)
    check_features(replace(released, weights=IMPORTED, resize=IMPORTED), released)
    others = {"backbone": "resnet18", "weights": "w.pth", "stride": 32, "finer": True, "standardise": True}
    for key, value in (others | {"resize": "pil_bicubic", "size": 64}).items():
        with pytest.raises(
            InputError, match=rf"features\.{key} is {value!r}, the checkpoint was trained with"
        ):
            check_features(replace(released, **{key: value}), released)
