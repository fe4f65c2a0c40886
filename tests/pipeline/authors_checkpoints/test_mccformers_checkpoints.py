"""MCCFormers' released checkpoints, made up of torch's own layers in whole objects: read, and equal."""

import json
import sys
from dataclasses import replace

import pytest
import torch
from torch import nn

from models.common.decoder import sinusoids
from pipeline.authors_checkpoints import checkpoint_file, mccformers
from pipeline.io.errors import InputError
from pipeline.text import vocabularies
from pipeline.text.vocabularies import SPECIAL
from pipeline.weights import trained_model
from tests.released import foreign_class

WIDTH, HEADS, LONGEST = 8, 2, 9
IDS = {"<pad>": 0, "The": 1, "a": 2, "b": 3, ".": 4, "<unk>": 5, "<start>": 6, "<end>": 7}
ROWS = [0, 5, 6, 7, 1, 2, 3, 4]  # of our words, in theirs
EVERY = pytest.mark.parametrize("name", ["mccformers_d", "mccformers_s"])


def held(kind, **parts):
    made = kind()
    for name, part in parts.items():
        setattr(made, name, part)
    return made


def encoder(kind, name):
    project = nn.Conv2d(1024, WIDTH, 1)
    tables = {f"{side}_embedding": nn.Embedding(16, WIDTH // 2) for side in "wh"}
    if name == "mccformers_s":
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, batch_first=True)
        transformer = nn.TransformerEncoder(layer, 2)
        return held(
            kind, input_proj=project, idx_embedding=nn.Embedding(2, WIDTH), transformer=transformer, **tables
        )
    layers = [
        held(
            kind,
            attention=nn.MultiheadAttention(WIDTH, HEADS, batch_first=True),
            linear1=nn.Linear(WIDTH, 4 * WIDTH),
            linear2=nn.Linear(4 * WIDTH, WIDTH),
            norm1=nn.LayerNorm(WIDTH),
            norm2=nn.LayerNorm(WIDTH),
        )
        for _ in range(2)
    ]
    return held(kind, projection=project, transformer=nn.ModuleList(layers), **tables)


def decoder(kind):
    M = 2 * WIDTH
    places = kind()
    places.register_buffer("pe", sinusoids(50, M)[:, None])
    layer = nn.TransformerDecoderLayer(M, HEADS, 4 * M, batch_first=True)
    return held(
        kind,
        vocab_embedding=nn.Embedding(len(IDS), M),
        position_encoding=places,
        transformer=nn.TransformerDecoder(layer, 2),
        wdc=nn.Linear(M, len(IDS)),
    )


@torch.no_grad()
def whole(kind, name):
    """Encoder and decoder with random weights, biases and norms included."""
    torch.manual_seed(0)
    made = encoder(kind, name), decoder(kind)
    for part in made:
        for parameter in part.parameters():
            parameter.copy_(torch.randn(parameter.shape) * 0.3)
    return [part.eval() for part in made]


def write(folder, name, spoil=None):
    module, kind = foreign_class("Holder", (nn.Module,))
    module.__name__ = "their_configs"
    sys.modules["their_configs"] = module
    try:
        parts = whole(kind, name)
        if spoil:
            spoil(*parts)
        optimisers = {
            f"{part}_optimizer": torch.optim.Adam(made.parameters())
            for part, made in zip(mccformers.PARTS, parts, strict=True)
        }
        tree = dict(zip(mccformers.PARTS, parts, strict=True)) | {"epoch": 40} | optimisers
        torch.save(tree, folder / "their.pt")
    finally:
        del sys.modules["their_configs"]
    (folder / "vocab.json").write_text(json.dumps(IDS))
    return parts


def bring_in(folder, heads=HEADS, **features):
    file = checkpoint_file.read(folder / "their.pt")
    assert mccformers.is_one(file)
    words = folder / "vocab.json"
    vocabulary = replace(vocabularies.fixed(words, [], lower_case=False), longest=LONGEST)
    own = replace(mccformers.FEATURES, **features)
    return mccformers.imported(file, words, vocabulary, "clevr_change", own, heads, 1)[:2]


def cells(made, image, project, side):
    places = [
        [torch.cat([made.w_embedding.weight[j], made.h_embedding.weight[i]]) for j in range(side)]
        for i in range(side)
    ]
    grid = torch.stack([torch.stack(row) for row in places])  # side x side x D
    return (project(image).permute(0, 2, 3, 1) + grid).flatten(1, 2)


def crossed(layer, x, other):
    """Their block, by torch's own parts."""
    y = layer.norm1(x + layer.attention(x, other, other, need_weights=False)[0])
    return layer.norm2(y + layer.linear2(layer.linear1(y).relu()))


@EVERY
@pytest.mark.parametrize("size", [256, 224])
@torch.no_grad()
def test_ours_computes_what_torchs_layers_do(tmp_path, name, size):
    """And a smaller grid reads the tables' first rows."""
    theirs, words = write(tmp_path, name)
    trained_model.save(tmp_path / "ours", *bring_in(tmp_path, size=size))
    ours, trained = trained_model.load(tmp_path / "ours")
    side = size // 16
    assert (trained.vocabulary, trained.longest, trained.shape) == (8, LONGEST, (1024, side, side))
    assert trained.recipe.model == name
    before, after = torch.randn(2, 2, 1024, side, side)
    if name == "mccformers_s":
        b, a = (
            cells(theirs, image, theirs.input_proj, side) + theirs.idx_embedding.weight[number]
            for number, image in enumerate((before, after))
        )
        b, a = theirs.transformer(torch.cat([b, a], 1)).chunk(2, 1)
    else:
        b, a = (cells(theirs, image, theirs.projection, side) for image in (before, after))
        for layer in theirs.transformer:
            b, a = crossed(layer, b, a), crossed(layer, a, b)
    memory = torch.cat([b, a], -1)
    pair = ours.encode(before, after)
    torch.testing.assert_close(pair.memory, memory, rtol=1e-4, atol=1e-4)

    tokens = torch.tensor([[2, 4, 5, 1, 3], [2, 6, 7, 4, 3]])
    given = words.vocab_embedding(torch.tensor(ROWS)[tokens[:, :-1]]) + words.position_encoding.pe[:4, 0]
    causal = torch.ones(4, 4, dtype=torch.bool).triu(1)
    logits = words.wdc(words.transformer(given, memory, tgt_mask=causal))[..., ROWS]
    torch.testing.assert_close(ours.decoder(tokens, pair).logits, logits, rtol=1e-3, atol=1e-3)


def test_words_are_put_into_our_order(tmp_path):
    write(tmp_path, "mccformers_d")
    vocabulary = vocabularies.fixed(tmp_path / "vocab.json", [], lower_case=False)
    assert vocabulary.words == (*SPECIAL, "The", "a", "b", ".")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda encoder, decoder: delattr(decoder, "wdc"), r"decoder\.wdc\.weight is missing"),
        (
            lambda encoder, decoder: setattr(encoder, "more", nn.Linear(1, 1)),
            r"encoder\.more\.weight is no tensor of MCCFormers",
        ),
        (
            lambda encoder, decoder: setattr(encoder.transformer[1], "norm2", nn.LayerNorm(9)),
            r"encoder\.transformer\.1\.norm2\.weight is \(9,\), where the model has \(8,\)",
        ),
        (
            lambda encoder, decoder: decoder.position_encoding.pe.zero_(),
            r"decoder\.position_encoding\.pe is not the sinusoids",
        ),
        (
            lambda encoder, decoder: setattr(encoder, "w_embedding", nn.Embedding(12, 4)),
            r"encoder\.w_embedding\.weight has 12 rows, the features 16; set features\.size",
        ),
        (
            lambda encoder, decoder: setattr(encoder, "projection", nn.Conv2d(2048, WIDTH, 1)),
            r"encoder\.projection\.weight reads 2048 channels",
        ),
    ],
)
def test_what_does_not_fit_is_named(tmp_path, spoil, said):
    write(tmp_path, "mccformers_d", spoil)
    with pytest.raises(InputError, match=said) as error:
        bring_in(tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"heads": 3}, "its width, 8, is not a multiple of 3 heads; mend --heads"),
        ({"stride": 32}, "features.stride is 32, the checkpoint was trained with 16"),
    ],
)
def test_heads_and_features_that_do_not_fit(tmp_path, how, said):
    write(tmp_path, "mccformers_s")
    with pytest.raises(InputError, match=said):
        bring_in(tmp_path, **how)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda ids: {**ids, "more": 9}, "ids must run from 0 without gaps"),
        (lambda ids: {**ids, "more": 8}, r"decoder\.vocab_embedding\.weight is \(8, 16\), where"),
    ],
)
def test_another_vocabulary_is_refused(tmp_path, change, said):
    write(tmp_path, "mccformers_d")
    (tmp_path / "vocab.json").write_text(json.dumps(change(IDS)))
    with pytest.raises(InputError, match=said):
        bring_in(tmp_path)


def test_a_vocabulary_of_other_marks_is_refused(tmp_path):
    write(tmp_path, "mccformers_d")
    ids = dict(zip([*SPECIAL, "The", "a", "b", "."], range(8), strict=True))
    (tmp_path / "vocab.json").write_text(json.dumps(ids))
    with pytest.raises(InputError, match="lacks <pad>; name the vocabulary of the checkpoint of MCCFormers"):
        bring_in(tmp_path)
