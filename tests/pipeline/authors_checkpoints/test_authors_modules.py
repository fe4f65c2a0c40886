"""Imported weights in our models compute what the authors' modules compute, or reference loops of them."""

import json
import sys

import pytest
import torch
from torch import nn

from models.common.decoder import sinusoids
from pipeline.decoding.greedy import greedy
from pipeline.weights import trained_model
from tests import project_params, released
from tests.reference import dynamic
from tests.released import CASES, foreign_class
from tests.running import succeed

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


def write(folder, name):
    module, kind = foreign_class("Holder", (nn.Module,))
    module.__name__ = "their_configs"
    sys.modules["their_configs"] = module
    try:
        parts = whole(kind, name)
        optimisers = {
            f"{part}_optimizer": torch.optim.Adam(made.parameters())
            for part, made in zip(("encoder", "decoder"), parts, strict=True)
        }
        tree = dict(zip(("encoder", "decoder"), parts, strict=True)) | {"epoch": 40} | optimisers
        torch.save(tree, folder / "their.pt")
    finally:
        del sys.modules["their_configs"]
    (folder / "vocab.json").write_text(json.dumps(IDS))
    return parts


def imported(folder, options):
    succeed(folder, f"import_checkpoint their.pt --vocab vocab.json --out ours {options}")
    return trained_model.load(folder / "ours")


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
    project_params.write(tmp_path, features__size=size)
    ours, trained = imported(tmp_path, f"--heads {HEADS} --longest {LONGEST}")
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


def said(made, vectors):
    """The greedy caption in their ids: <NULL> ends it."""
    tokens = [2]
    while len(tokens) < 24 and (len(tokens) == 1 or tokens[-1] != 0):
        tokens.append(int(dynamic.spoken(made.decoder, *vectors, tokens)[-1][0].argmax()))
    return [token for token in tokens[1:] if token > 0]


@pytest.mark.parametrize(("name", "ends"), [("duda", 1.0), ("vard", 0.7)])
@torch.no_grad()
def test_the_imported_speaker_says_what_theirs_says(tmp_path, name, ends):
    """In its own ids, where <NULL> ends a caption and any other token may be written."""
    flat = {key: tensor * 2.5 for key, tensor in released.tensors(CASES[name]).items()}
    flat["change_detector_state.att.bias"].fill_(-4.0)  # sums over 196 cells, of which few are seen
    flat["speaker_state.logit.bias"][0] = ends  # some captions end, and not at once
    released.prepare(tmp_path, CASES[name], flat)
    ours = imported(tmp_path, "")[0].double()
    torch.manual_seed(0)
    difference = ours.encode(*torch.randn(2, 8, 1024, 14, 14, dtype=torch.float64))
    words, lengths = greedy(ours, difference).tolist(), set()
    for part in (ours.decoder.words.weight, ours.decoder.vocabulary.weight, ours.decoder.vocabulary.bias):
        part[[0, 3]] = part[[3, 0]]  # theirs again
    for row, vectors in zip(words, difference.memory, strict=True):
        own = [{0: 3}.get(token, token) for token in row[: [*row, 3].index(3)]]
        wanted = said(ours, vectors)
        assert own == wanted
        lengths.add(len(wanted))
    assert min(lengths) < 23
    assert max(lengths) > 0
