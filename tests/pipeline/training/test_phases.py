"""Settings of phases, and CLIP4IDC's two phases: adaptation and captioning."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from models.common.trainable import Group
from pipeline.config.recipe_file import Recipe
from pipeline.datasets.schema import NO_CHANGE, of_split
from pipeline.io.content_hashes import file_hash
from pipeline.io.errors import InputError
from pipeline.training import optimisers
from pipeline.training.sampling import sentences_of, training_batches
from pipeline.weights import trained_model
from pipeline.weights.imported_weights import name_in_file
from pipeline.weights.model_description import Trained
from stages.recipe import pretraining_hashes
from tests.killed import KilledError, train
from tests.own_settings import captioning, pretraining_phase
from tests.samplers import sampler_of

SIZES = {"patch": 8, "width": 8, "heads": 2, "intra": 1, "inter": 1, "text_width": 8, "text_heads": 2}
SIZES |= {"text_layers": 1, "context": 16, "joint": 8, "caption_heads": 2, "caption_layers": 1}
PHASE = {"iterations": 6, "batch": 4, "references": 1, "learning_rate": 1e-2, "schedule": "warmup_cosine"}
PHASE |= {"validate_every": 2, "exchange": True, "precision": "float32", "optimiser": "bert_adam"}
PHASE |= {"beta2": 0.98, "weight_decay": 0.2, "clip_norm": 1.0, "patience": None, "mirror": True, "shift": 2}
FT = {"dropout": 0.1, "coef_lr": 0.5}


def recipe(**changes):
    settings, phase = FT | {"temperature": 0.07}, PHASE | changes
    return Recipe("tabletop", "clip4idc", settings, SIZES, {}, {"adapt": phase, "train": phase}, {}, {})


def without_pretraining(chosen, **changes):
    return replace(chosen, phases={"train": chosen.phases["train"]}, **changes)


def run(pixels, folder, phase, chosen, scores=(), killed_at=None):
    return train(pixels, folder, chosen, phase, scores=scores, killed_at=killed_at)


def save(folder: Path, chosen, pixels, history):
    own = (3, 16, 24), len(pixels.vocabulary), pixels.vocabulary.longest
    trained = Trained(chosen, 1, *own, history.best_iteration, history.best_score)
    trained_model.save(folder, trained, history.best)


def same(one, other):
    return all(torch.equal(other.best[name], tensor) for name, tensor in one.best.items())


def test_both_phases_and_a_kill_in_each(pixels, tmp_path):
    chosen = recipe()
    history, adapting = run(pixels, tmp_path, pretraining_phase(chosen), chosen)
    with pytest.raises(KilledError):
        run(pixels, tmp_path / "k", pretraining_phase(chosen), chosen, killed_at=2)
    again, _ = run(pixels, tmp_path / "k", pretraining_phase(chosen), chosen)
    assert same(history, again)
    assert [list(row) for row in history.validation] == [["iteration", "R@1"]] * 3
    assert history.best_iteration == 6  # the later of equal scores
    earlier = recipe(keep="earlier")
    assert run(pixels, tmp_path / "first", pretraining_phase(earlier), earlier)[0].best_iteration == 2
    save(tmp_path / "adapted", chosen.pretraining, pixels, history)
    loaded, _ = trained_model.load(tmp_path / "adapted", "pretrain")
    assert torch.equal(loaded.inter.images, adapting.inter.images)

    second = captioning(chosen, tmp_path / "adapted")
    model = second.make(pixels.store.shape, pixels.vocabulary)
    for here, before in ((model.difference.inter, adapting.inter), (model.encoding, adapting.encoding)):
        for name, tensor in before.state_dict().items():
            assert torch.equal(here.state_dict()[name], tensor), name
    whole, _ = run(pixels, tmp_path / "c", second, chosen, scores=[1.0, 3.0, 2.0])
    with pytest.raises(KilledError):
        run(pixels, tmp_path / "d", second, chosen, scores=[1.0, 3.0], killed_at=2)
    resumed, _ = run(pixels, tmp_path / "d", second, chosen, scores=[3.0, 2.0])
    assert whole.best_iteration == resumed.best_iteration == 4
    assert same(whole, resumed)
    other = captioning(recipe(schedule="constant"), tmp_path / "adapted")
    different, _ = run(pixels, tmp_path / "e", other, chosen, scores=[1.0, 3.0, 2.0])
    assert not same(whole, different)


@pytest.mark.parametrize(
    ("name", "tensor"),
    [("inter.images", None), ("inter.more", torch.zeros(1)), ("inter.images", torch.zeros(3, 8))],
)
def test_weights_that_do_not_fit_are_named(pixels, tmp_path, name, tensor):
    chosen = recipe()
    model = pretraining_phase(chosen).make(pixels.store.shape, pixels.vocabulary)
    weights = {**model.state_dict(), name: tensor}
    if tensor is None:
        del weights[name]
    trained = Trained(chosen.pretraining, 1, (3, 16, 24), 9, 9, 1, 0.0)
    trained_model.save(tmp_path / "adapted", trained, weights)
    with pytest.raises(InputError, match=name):
        captioning(chosen, tmp_path / "adapted").make(pixels.store.shape, pixels.vocabulary)


def test_missing_weights_of_pre_training_are_named(tmp_path):
    with pytest.raises(InputError, match=r"clip4idc .*--start-from"):
        captioning(recipe())


@pytest.mark.parametrize(
    ("patience", "keep", "best", "ends"),
    [(1, None, 4, 6), (2, None, 4, 8), (9, None, 4, 12), (1, "later", 8, 10), (2, "later", 8, 12)],
)
def test_patience(pixels, tmp_path, patience, keep, best, ends):
    """A run ends after `patience` validations without a new best score."""
    chosen = recipe(patience=patience, keep=keep, iterations=12)
    scores = [1.0, 2.0, 2.0, 2.0, 0.0, 0.0] if keep else [1.0, 2.0, 0.0, 0.0, 0.0, 0.0]
    second = captioning(without_pretraining(chosen))
    history, _ = run(pixels, tmp_path, second, chosen, scores)
    assert (history.best_iteration, history.validation[-1]["iteration"]) == (best, ends)
    again, _ = run(pixels, tmp_path, second, chosen, [])  # a finished run does not continue
    assert len(again.validation) == len(history.validation)


def test_bert_adam_by_hand():
    torch.manual_seed(0)
    w = nn.Parameter(torch.randn(3))
    idle = nn.Parameter(torch.ones(2))
    optimiser = optimisers.BertAdam([{"params": [w, idle], "weight_decay": 0.2}], 0.1, (0.9, 0.98))
    wanted, m, v = w.detach().clone().double(), torch.zeros(3).double(), torch.zeros(3).double()
    for _ in range(4):
        g = torch.randn(3)
        w.grad = g
        optimiser.step()
        m, v = 0.9 * m + 0.1 * g, 0.98 * v + 0.02 * g.double() ** 2
        wanted = wanted - 0.1 * (m / (v.sqrt() + 1e-6) + 0.2 * wanted)
    torch.testing.assert_close(w.detach().double(), wanted, rtol=1e-5, atol=1e-6)
    assert torch.equal(idle, torch.ones(2))


def test_rates_and_decay_by_name():
    model = nn.ModuleDict({"clip": nn.Linear(2, 2), "new": nn.Linear(2, 2)})
    model["new"].bias.requires_grad_(False)
    groups = (Group("clip.*bias", 0.1, False), Group("clip", 0.1, True), Group("", 1.0, True))
    found = optimisers.build(model, groups, PHASE).param_groups
    assert [group["lr"] for group in found] == pytest.approx([1e-3, 1e-3, 1e-2])
    assert [group["weight_decay"] for group in found] == [0.0, 0.2, 0.2]
    wanted = (model["clip"].bias, model["clip"].weight, model["new"].weight)
    assert all(group["params"][0] is tensor for group, tensor in zip(found, wanted, strict=True))


@pytest.mark.parametrize("kind", ["adam", "adamw", "bert_adam"])
@pytest.mark.parametrize("decay", [0.0, 0.2])
def test_decay_without_groups(kind, decay):
    built = optimisers.build(nn.Linear(2, 2), (), PHASE | {"optimiser": kind, "weight_decay": decay})
    assert [group["weight_decay"] for group in built.param_groups] == [decay]


def test_gradients_are_clipped_together(pixels, tmp_path):
    chosen = recipe(iterations=1, clip_norm=0.01)
    _, model = run(pixels, tmp_path, pretraining_phase(chosen), chosen)
    norms = [p.grad.norm() for p in model.parameters() if p.grad is not None]
    assert torch.stack(norms).norm().item() == pytest.approx(0.01, rel=1e-3)


def test_the_items_of_the_adaptation_are_captions_of_changed_pairs(pixels):
    own = of_split(pixels.pairs, "train")
    items = sentences_of(own)
    changed = [pair for pair in own if pair.change_type != NO_CHANGE]
    assert [(item[0].pair_id, *item[0].captions) for item in items] == [
        (pair.pair_id, caption) for pair in changed for caption in pair.captions
    ]
    sampler = sampler_of(own, 4, 1, True, by_sentence=True)
    seen, replaced = [], 0
    distractor = {pair.scene_id: pair.after for pair in own if pair.change_type == NO_CHANGE}
    for iteration in range(sampler.epoch):
        scenes, captions = sampler.draw(iteration)
        for (pair,), (said,) in zip(scenes, captions, strict=True):
            seen.append((pair.pair_id, *said))
            original = next(each for each in changed if each.pair_id == pair.pair_id)
            assert pair.before in (original.before, distractor[pair.scene_id])
            replaced += pair.before != original.before
    assert len(set(seen)) == len(seen) == len(items) // 4 * 4
    assert 0.25 < replaced / len(seen) < 0.75


def test_the_images_and_captions_of_a_scene_are_moved_together(pixels):
    own = [replace(pair, captions=("it is left of it",)) for pair in of_split(pixels.pairs, "train")]
    words = (*pixels.vocabulary.words[:4], "is", "it", "left", "of", "right")
    vocabulary = replace(pixels.vocabulary, words=words)
    sampler = sampler_of(own, 4, 1, False, mirror=True, shift=2)
    (batch,) = training_batches(sampler, pixels.store, vocabulary, range(1))
    scenes, _ = sampler.draw(0)
    mirrored = 0
    for number, pair in enumerate(pair for part in zip(*scenes, strict=True) for pair in part):
        move = sampler.moves(0, scenes)[pair.scene_id]
        mirrored += move.mirrored
        assert vocabulary.decode(batch.tokens[number].tolist()) == move.caption("it is left of it")
        for name, place in ((pair.before, batch.before[number]), (pair.after, batch.after[number])):
            image = pixels.store.read([name])[0]
            for y, x in ((0, 0), (8, 11), (15, 23), (3, 20)):
                source_x = min(max(x - move.right, 0), 23)
                source_y = min(max(y - move.down, 0), 15)
                value = image[:, source_y, 23 - source_x if move.mirrored else source_x]
                assert batch.images[place, :, y, x].tolist() == value.tolist()
    assert 0 < mirrored < 8


def test_weights_of_16_bits_are_trained_and_saved(pixels, tmp_path):
    chosen = recipe(half_weights=True)
    history, _ = run(pixels, tmp_path, pretraining_phase(chosen), chosen)
    assert history.best["encoding.blocks.0.mlp.0.weight"].dtype == torch.float16
    with pytest.raises(KilledError):
        run(pixels, tmp_path / "k", pretraining_phase(chosen), chosen, killed_at=2)
    again, _ = run(pixels, tmp_path / "k", pretraining_phase(chosen), chosen)
    assert same(history, again)
    save(tmp_path / "adapted", chosen.pretraining, pixels, history)
    model = captioning(chosen, tmp_path / "adapted").make(pixels.store.shape, pixels.vocabulary)
    mine = model.state_dict()["encoding.blocks.0.mlp.0.weight"]
    assert torch.equal(mine, history.best["encoding.blocks.0.mlp.0.weight"])
    assert mine.dtype == torch.float16
    loaded, _ = trained_model.load(tmp_path / "adapted", "pretrain")
    assert loaded.encoding.blocks["0"].mlp[0].weight.dtype == torch.float32


@pytest.mark.parametrize("phase", ["adapt", "train"])
def test_the_first_phase_starts_from_the_weights_of_clip(pixels, tmp_path, phase):
    plain = recipe() if phase == "adapt" else without_pretraining(recipe(), model="clip_ft", settings=FT)
    own = PHASE | {"start": str(tmp_path / "clip")}
    chosen = replace(plain, phases=plain.phases | {phase: own})
    make = pretraining_phase if phase == "adapt" else captioning
    with pytest.raises(InputError, match="clip cannot be read"):
        make(chosen)
    unstarted = make(plain).make(pixels.store.shape, pixels.vocabulary)
    file = {
        clip: torch.randn(tensor.shape)
        for name, tensor in unstarted.state_dict().items()
        if (clip := name_in_file(unstarted.starts, name))
    }
    save_file(file, tmp_path / "clip")
    made = make(chosen).make(pixels.store.shape, pixels.vocabulary).state_dict()
    here = "inter.blocks.1." if phase == "adapt" else "encoding.blocks.1."
    assert torch.equal(made[f"{here}mlp.0.weight"], file["blocks.1.mlp.0.weight"])
    assert torch.equal(made["encoding.patches.token"], file["patches.token"])
    assert set(make(chosen).keys) - set(make(plain).keys) == {file_hash(tmp_path / "clip")}
    assert pretraining_hashes(plain, None) == {}
    assert pretraining_hashes(chosen, None) == {"clip": file_hash(tmp_path / "clip")}
