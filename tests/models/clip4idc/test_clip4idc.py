"""CLIP4IDC's equations against loops, in both variants; trained tensors, rates and 16-bit weights."""

import math
import re
from copy import deepcopy
from dataclasses import replace

import pytest
import torch

import models
from models.clip4idc.encoders import ClipSizes, ClipSwitches, Patches
from models.clip4idc.model import LARGEST
from models.common.decoder import NULL
from pipeline.training import optimisers
from tests.random_models import randomise
from tests.reference.attention_by_hand import of_memory
from tests.reference.loops import added, attend, fed, gelu, linear, maps_of, norm

SIZES = ClipSizes(3, (16, 24), 30, 8, 8, 16, 2, 2, 1, 12, 2, 2, 10, 12, 2, 2)
CELLS = 6  # 2 x 3 patches
NAMES = ("clip_ft", "clip4idc_no_adapt", "clip4idc")


def settings(name, variant="paper", **switches):
    given = {"variant": variant, "switches": switches, "dropout": 0.0, "coef_lr": 0.001}
    return given | ({"temperature": 0.07} if name == "clip4idc" else {})


def built(name="clip4idc", variant="paper", **switches):
    torch.manual_seed(0)
    return models.build(name, SIZES, settings(name, variant, **switches))


def adapting(variant="paper", **switches):
    torch.manual_seed(0)
    return models.build("clip4idc", SIZES, settings("clip4idc", variant, **switches), "adapt")


def images(count):
    return torch.randint(0, 256, (count, 3, 16, 24), generator=torch.Generator().manual_seed(1)).float()


def captions(count):
    """Captions of 3 to 7 tokens with <START> and <END>, NULL-padded."""
    tokens = torch.randint(4, 30, (count, 7), generator=torch.Generator().manual_seed(2))
    for row in range(count):
        length = 3 + row % 5
        tokens[row, 0], tokens[row, length - 1] = 2, 3
        tokens[row, length:] = NULL
    return tokens


@pytest.mark.parametrize("variant", ["paper", "released"])
def test_joint_tokens(variant):
    """Eq. 4: Z = [H_1 + e_1 ; H_2 + e_2] + p; in `released`, the layer norm ln_mid follows."""
    model = adapting(variant).inter
    one, two = torch.randn(2, 7, 16), torch.randn(2, 7, 16)
    Z = model.joined(one, two)
    for b in range(2):
        for place in range(14):
            side, row = divmod(place, 7)
            wanted = (one, two)[side][b, row] + model.images[side] + model.positions[place]
            if variant == "released":
                mean, spread = wanted.mean(), wanted.var(correction=0)
                wanted = (wanted - mean) / (spread + 1e-5).sqrt()
            torch.testing.assert_close(Z[b, place], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("variant", ["paper", "released"])
@torch.no_grad()
def test_the_retrieval_loss(variant):
    """Eq. 5-8, term by term."""
    model = adapting(variant)
    encoded, tokens = model.encoding(images(6)), captions(3)
    joint = model.inter(encoded[:3], encoded[3:])
    v = [(joint[i, 0] + joint[i, CELLS + 1]) / 2 for i in range(3)]
    g = [model.text(tokens[i : i + 1])[0] for i in range(3)]
    S = torch.zeros(3, 3)
    for i in range(3):
        for j in range(3):
            S[i, j] = model.log_scale.exp() * (g[i] @ v[j]) / (g[i].norm() * v[j].norm())
    to_pair = sum(-math.log(S[i, i].exp() / sum(S[i, j].exp() for j in range(3))) for i in range(3)) / 3
    to_text = sum(-math.log(S[i, i].exp() / sum(S[j, i].exp() for j in range(3))) for i in range(3)) / 3
    found = model.losses_of(encoded[:3], encoded[3:], tokens)["retrieval"].item()
    assert found == pytest.approx((to_pair + to_text) * (0.5 if variant == "released" else 1), rel=1e-4)


def test_the_scale_is_kept_at_most_100():
    model = adapting()
    with torch.no_grad():
        model.log_scale.fill_(9.0)
    model.constrain()
    assert model.log_scale.item() == pytest.approx(LARGEST)


@pytest.mark.parametrize("variant", ["paper", "released"])
@pytest.mark.parametrize("name", NAMES)
def test_the_caption_loss_is_the_sum_over_the_parts_means(name, variant):
    """L = L_change + L_nochange; each term is a mean over the part's targets that are not padding."""
    model = built(name, variant).eval()
    encoded, tokens = model.encoding(images(8)), captions(4)
    before, after = encoded[:4], encoded[4:]
    found = model.losses_of(before, after, tokens, parts=2)["cap"].item()
    wanted = 0.0
    for part in (slice(0, 2), slice(2, 4)):
        losses = []
        for b in range(*part.indices(4)):
            memory = model.difference(before[b : b + 1], after[b : b + 1]).memory
            logits = model.decoder(tokens[b : b + 1], of_memory(memory)).logits[0]
            for place, target in enumerate(tokens[b, 1:].tolist()):
                if target != NULL:
                    losses.append(-logits[place].log_softmax(-1)[target].item())
        wanted += sum(losses) / len(losses)
    assert found == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("variant", ["paper", "released"])
@torch.no_grad()
def test_the_captioner_by_loops(variant):
    """Weights are large: with the initial deviation 0.02, the memories of all layers are nearly the same."""
    model = randomise(built(variant=variant).double())
    P, epsilon, tokens = dict(model.named_parameters()), 1e-12, captions(3)[2:, :5]
    encoded = model.encoding(images(2))
    memories, x = [], list(model.difference.inter(encoded[:1], encoded[1:])[0])
    for number in range(2):
        name = f"difference.memories.layers.{number}"
        x = added(P, f"{name}.norms.0", x, attend(P, f"{name}.attention", x, x, 2), epsilon)
        x = added(P, f"{name}.norms.1", x, fed(P, f"{name}.feed_forward", x, 2, gelu), epsilon)
        memories.append(x)
    words = [P["decoder.tables.tokens.weight"][token] for token in tokens[0, :-1]]
    y = added(P, "decoder.norm", words, P["decoder.tables.positions"][:4], epsilon)
    for number in range(2):
        name, memory = f"decoder.layers.{number}", memories[number if variant == "released" else -1]
        y = added(P, f"{name}.norms.0", y, attend(P, f"{name}.self_attention", y, y, 2, causal=True), epsilon)
        y = added(P, f"{name}.norms.1", y, attend(P, f"{name}.cross_attention", y, memory, 2), epsilon)
        y = added(P, f"{name}.norms.2", y, fed(P, f"{name}.feed_forward", y, 2, gelu), epsilon)
    y = torch.stack([norm(P, "decoder.head_norm", gelu(linear(P, "decoder.head.0", x)), epsilon) for x in y])
    wanted = y @ P["decoder.tables.tokens.weight"].T + P["decoder.bias"]
    found = model.decoder(tokens, model.difference(encoded[:1], encoded[1:])).logits[0]
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_attention_maps_have_the_patches_of_both_images_and_no_class_token():
    model, tokens = randomise(built().double()), captions(3)[2:, :5]
    decoder, difference = model.decoder, model.difference(*model.encoding(images(2)).chunk(2))
    state = decoder.begin(difference)
    steps = [decoder.step(word, place, state).trace for place, word in enumerate(tokens[:, :-1].unbind(1))]
    found = decoder.maps(torch.stack(steps, 1), state)[0, :, 0]
    x, memory = decoder.embed(tokens[:, :-1]), difference.memory[:, -1]
    for layer in decoder.layers:
        before, x = x, layer(x, memory).out
    queries = layer.norms[0](before + layer.self_attention(before, before, causal=True))[0]
    keys = layer.cross_attention.key(memory[0])
    rows = maps_of(layer.cross_attention.query(queries), keys, 2)
    patches = torch.stack([row[1 : 1 + CELLS] + row[2 + CELLS :] for row in rows])
    torch.testing.assert_close(found, patches / patches.sum(1, keepdim=True))


def test_patches_of_features_are_a_map_of_the_mean_of_some_cells():
    sizes = replace(SIZES, channels=5, grid=(4, 6), patch=2)
    made, features = Patches(sizes, ClipSwitches(patches="features")), torch.randn(3, 5, 4, 6)
    W, bias = made.project[1].weight[:, :, 0, 0], made.project[1].bias
    tokens = [made.token.expand(3, -1)]
    for row in (0, 2):
        for column in (0, 2, 4):
            cells = [features[:, :, row + i, column + j] for i in (0, 1) for j in (0, 1)]
            tokens.append(sum(cells) / 4 @ W.T + bias)
    torch.testing.assert_close(made(features), made.norm(torch.stack(tokens, 1) + made.positions))


@pytest.mark.parametrize(
    ("intra", "inter", "shown"), [(2, 1, [2, 3]), (1, 2, [1, 3]), (3, 0, [2, 3]), (0, 3, [2, 3])]
)
@torch.no_grad()
def test_class_token_maps_by_loops(intra, inter, shown):
    """The attention of the first token in each shown block, without the class tokens."""
    torch.manual_seed(0)
    sizes = replace(SIZES, intra=intra, inter=inter)
    model = models.build("clip4idc", sizes, settings("clip4idc")).eval()
    before, after = images(2).chunk(2)
    found = model.class_token_maps(before, after)
    assert list(found) == [f"block {number}" for number in shown]
    blocks = {**model.encoding.blocks, **model.difference.inter.blocks}
    sides = [model.encoding.patches(image)[0] for image in (before, after)]
    for number in range(1, 4):
        block = blocks[str(number - 1)]
        if number == intra + 1:
            sides = [model.difference.inter.joined(*(side[None] for side in sides))[0]]
        normed = [block.norm_1(tokens) for tokens in sides]
        rows = [maps_of(block.attention.query(x)[:1], block.attention.key(x), 2)[0] for x in normed]
        if number in shown:
            for side, half in enumerate(rows if number <= intra else rows[0].chunk(2)):
                wanted = (half[1:] / half[1:].sum()).view(2, 3)
                torch.testing.assert_close(found[f"block {number}"][0, side], wanted, rtol=1e-4, atol=1e-6)
        sides = [block(tokens[None])[0] for tokens in sides]


@pytest.mark.parametrize("intra", [0, 1, 2, 3])
def test_the_split_moves_blocks_and_keeps_their_number(intra):
    sizes = replace(SIZES, intra=intra, inter=3 - intra)
    model = models.build("clip4idc", sizes, settings("clip4idc"), "adapt")
    places = named(model, r"^(encoding|inter)\.blocks")
    assert {int(re.search(r"blocks\.(\d+)", name)[1]) for name in places} == {0, 1, 2}
    assert model.inter.blocks.keys() == {str(number) for number in range(intra, 3)}
    assert model.inter(*model.encoding(images(2)).chunk(2)).shape == (1, 14, 12)


def learning(model, learns=True):
    """Return the names of the parameters that are trained, or if not `learns`, of the frozen ones."""
    return {name for name, p in model.named_parameters() if p.requires_grad == learns}


def named(model, pattern):
    return {name for name, _ in model.named_parameters() if re.search(pattern, name)}


def rate(model, name):
    """Return (factor of the learning rate, True for weight decay) of a parameter."""
    return next((group.rate, group.decays) for group in model.groups if re.search(group.names, name))


@pytest.mark.parametrize("variant", ["paper", "released"])
def test_which_tensors_the_adaptation_trains_and_how(variant):
    model = adapting(variant)
    first = named(model, r"^encoding\.patches|^text\.tables")
    assert learning(model, False) == (first if variant == "released" else set())
    new = 1.0 if variant == "released" else 0.001
    assert rate(model, "inter.positions") == rate(model, "inter.images") == (new, True)
    if variant == "released":
        assert rate(model, "inter.norm.bias") == (1.0, False)
    assert rate(model, "encoding.blocks.0.norm_1.weight") == rate(model, "log_scale") == (0.001, True)
    assert rate(model, "encoding.blocks.0.norm_1.bias") == (0.001, False)
    assert rate(model, "inter.project.norm.bias") == (0.001, False)


@pytest.mark.parametrize("variant", ["paper", "released"])
@pytest.mark.parametrize("name", NAMES)
def test_which_tensors_the_captioning_trains_and_how(name, variant):
    model = built(name, variant)
    first = named(model, r"^encoding\.patches|^decoder\.tables")
    assert learning(model, False) == (first if variant == "released" else set())
    for parameter, _ in model.named_parameters():
        clips = parameter.startswith(("encoding.", "difference.inter."))
        words = variant == "released" and parameter.startswith("decoder.tables.")
        assert rate(model, parameter)[0] == (0.001 if clips or words else 1.0), parameter
    assert rate(model, "decoder.layers.0.norms.0.weight") == (1.0, False)
    assert rate(model, "decoder.head_norm.weight") == (1.0, False)
    assert rate(model, "encoding.blocks.0.norm_1.weight") == (0.001, True)


def test_in_table_7_captioning_does_not_train_the_encoder():
    assert learning(built(frozen="encoder"), False) == named(built(), r"^encoding\.|^difference\.inter\.")
    assert learning(adapting(frozen="encoder"), False) == learning(adapting("released"), False)


def test_stem_but_words_trains_the_words_in_captioning():
    """Only the captioner's positions are frozen, as in the program on Spot-the-Diff."""
    model, stem = built(variant="released", frozen="stem_but_words"), built(variant="released")
    assert learning(model) == learning(stem) | {"decoder.tables.tokens.weight"}
    assert "decoder.tables.tokens.weight" not in learning(stem)
    assert rate(model, "decoder.tables.tokens.weight") == (0.001, True)
    adapted = adapting("released", frozen="stem_but_words")
    assert learning(adapted, False) == learning(adapting("released"), False)


def test_clips_words_need_its_width():
    sizes = replace(SIZES, text_width=16)
    with pytest.raises(ValueError, match="words: clip needs a text_width of joint's 12, not 16"):
        models.build("clip4idc", sizes, settings("clip4idc", words="clip"))


@pytest.mark.parametrize("phase", ["adapt", None])
def test_maps_of_both_towers_have_16_bits_and_a_step_is_near_the_step_of_32_bits(phase):
    torch.manual_seed(0)
    given = settings("clip4idc", "released", frozen="none")
    whole = models.build("clip4idc", SIZES, given, phase)
    half = deepcopy(whole)
    half.halve()
    for name, parameter in half.named_parameters():
        maps = any(part in name for part in ("attention.", "mlp.", "map.", "project.weight"))
        wanted = (
            torch.float16
            if name.startswith(("encoding.", "inter.", "text.", "difference.inter.")) and maps
            else torch.float32
        )
        assert parameter.dtype == wanted, name
    found, wanted = (
        model.losses_of(*model.encoding(images(4)).chunk(2), captions(2)) for model in (half, whole)
    )
    for name, value in wanted.items():
        assert found[name].dtype == torch.float32
        assert found[name].item() == pytest.approx(value.item(), rel=1e-2)
    before = {name: p.detach().clone() for name, p in half.named_parameters()}
    step = {"learning_rate": 1e-3, "optimiser": "bert_adam", "weight_decay": 0.0}
    optimiser = optimisers.build(half, half.groups, step)
    sum(found.values()).backward()
    torch.nn.utils.clip_grad_norm_(half.parameters(), 1.0)
    optimiser.step()
    assert {state["v"].dtype for state in optimiser.state.values()} == {torch.float16, torch.float32}
    moved = {name for name, p in half.named_parameters() if not torch.equal(p, before[name])}
    assert any(name.startswith("encoding.blocks.0.mlp") for name in moved)
    assert all(p.isfinite().all() for p in half.parameters())
