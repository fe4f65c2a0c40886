"""IDC-PCL's released checkpoints, made up: checked by name and shape, and equal to what they were."""

import json
from collections import OrderedDict, defaultdict
from dataclasses import replace

import pytest
import torch

import models
from models.common.trainable import Labels
from models.idc_pcl.network import PclSizes, positions
from models.idc_pcl.switches import RELEASED
from pipeline.authors_checkpoints import checkpoint_file, idc_pcl
from pipeline.config.store_contents import IMPORTED
from pipeline.io.errors import InputError
from pipeline.text import vocabularies
from pipeline.text.vocabularies import SPECIAL
from pipeline.weights import trained_model
from tests.released import drop, put

SIZES = PclSizes(2048, (7, 7), 9, 12, 8, 2, 1, 1, 2, 1)
IDS = {"<PAD>": 0, "<BOS>": 1, "b": 2, "<EOS>": 3, "a": 4, "<MASK>": 5, "<CLS>": 6, "c": 7, "<UNK>": 8}
IDS |= {"d": 9, "e": 10}
ROWS = [0, 8, 1, 3, 2, 4, 7, 9, 10, 5, 6]  # of our words, then [MASK] and [CLS], in theirs
SETTINGS = idc_pcl.SETTINGS | {"variant": "released", "switches": {}}


def model(first):
    torch.manual_seed(0)
    made = models.build("idc_pcl", SIZES, SETTINGS, "pretrain" if first else None).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(torch.randn(parameter.shape) * 0.2)
    return made


def state(made, first):
    """Its tensors as the released program names them."""
    found = OrderedDict(
        (idc_pcl.NAMES.place(name).name, tensor.clone()) for name, tensor in made.state_dict().items()
    )
    for name in ("word_embedding.weight", "output_layer.weight", "output_layer.bias"):
        whole = torch.zeros_like(found[name])
        whole[ROWS] = found[name]
        found[name] = whole
    found["position_encoding.pe"] = positions(200, 8, RELEASED)[None]
    if first:
        found["feat_regress.weight"] = found["img_project.0.weight"]
        found["pooler.0.weight"], found["pooler.0.bias"] = torch.zeros(2, 24), torch.zeros(2)
    return found


def write(folder, first, spoil=None, **how):
    tensors = state(model(first), first)
    if spoil:
        spoil(tensors)
    counts = defaultdict(int, {"mlm": 3})
    tree = {"global_step": 7, "model_state_dict": tensors, "task_batch_num": counts} if first else tensors
    torch.save(tree, folder / "their.pt", **how)
    (folder / "vocab.json").write_text(json.dumps(IDS))
    return folder / "their.pt"


def bring_in(path, heads=2, **features):
    file = checkpoint_file.read(path)
    assert idc_pcl.is_one(file)
    words = path.with_name("vocab.json")
    vocabulary = replace(vocabularies.fixed(words, [], lower_case=False), longest=12)
    assert vocabulary.words == (*SPECIAL, "b", "a", "c", "d", "e")
    own = replace(idc_pcl.FEATURES, **features)
    return idc_pcl.imported(file, words, vocabulary, "clevr_change", own, heads, 1)[:2]


@pytest.mark.parametrize("first", [True, False])
def test_round_trip(tmp_path, first):
    made = model(first)
    trained_model.save(tmp_path / "ours", *bring_in(write(tmp_path, first)))
    if first:
        again, trained = trained_model.load_first(tmp_path / "ours")
        labels = Labels(torch.tensor([1, 0]), "mvcl")
    else:
        again, trained = trained_model.load(tmp_path / "ours")
        labels = Labels(torch.tensor([1, 0]))
    assert (trained.vocabulary, trained.longest, trained.shape) == (9, 12, (2048, 7, 7))
    assert trained.recipe.settings["variant"] == "released"
    before, after = torch.randn(2, 2, 2048, 7, 7).unbind(0)
    tokens = torch.tensor([[2, 4, 5, 3], [2, 6, 3, 0]])
    found = []
    for each in (made, again):
        torch.manual_seed(3)
        encoded = each.encoding(before), each.encoding(after)
        with torch.no_grad():
            found.append({k: x.item() for k, x in each.losses_of(*encoded, tokens, labels=labels).items()})
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (drop("encoder.layers.1.attn.out.weight"), r"encoder\.layers\.1\.attn\.out\.weight is missing"),
        (put("encoder.norm.a_2", torch.zeros(9)), r"encoder\.norm\.a_2 is \(9,\), where the model has"),
        (put("more.weight", torch.zeros(1)), r"more\.weight is no tensor of IDC-PCL"),
        (
            put("output_layer.bias", torch.zeros(11, dtype=torch.int64)),
            r"output_layer\.bias is .*int64",
        ),
        (
            put("output_layer.bias", torch.full((11,), torch.nan)),
            r"output_layer\.bias has a number that",
        ),
        (put("position_encoding.pe", torch.zeros(1, 200, 8)), "is not the sinusoids"),
        (put("feat_regress.weight", torch.zeros(8, 2048)), "with which the model shares it"),
        (put("img_project.0.weight", torch.zeros(8, 1024)), "reads 1024 channels; stride 32 has 2048"),
        (
            put("word_embedding.weight", torch.zeros(12, 8)),
            r"word_embedding\.weight is \(12, 8\), where",
        ),
    ],
)
def test_what_does_not_fit_is_named(tmp_path, spoil, said):
    with pytest.raises(InputError, match=said) as raised:
        bring_in(write(tmp_path, True, spoil))
    assert "\n" not in str(raised.value)


def test_heads_and_features_that_do_not_fit(tmp_path):
    path = write(tmp_path, False)
    with pytest.raises(InputError, match="its width, 8, is not a multiple of 3 heads; mend --heads"):
        bring_in(path, heads=3)
    with pytest.raises(InputError, match=r"features\.stride is 16, the checkpoint was trained with"):
        bring_in(path, stride=16)
    bring_in(path, weights=IMPORTED, resize="pil_bicubic")  # how their images were resized is not known
