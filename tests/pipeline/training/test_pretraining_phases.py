"""IDC-PCL's two phases: one task per iteration, resuming after a kill, unused tensors, kept snapshots."""

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from models.common.trainable import Labels
from pipeline.config.recipe_file import Recipe
from pipeline.datasets.schema import ClassPair, of_split
from pipeline.io.errors import InputError
from pipeline.training.loop import Training, seed_all
from pipeline.training.sampling import training_batches
from pipeline.training.task_sampling import CLASS_PAIRS, ClassItems, TaskSampler
from pipeline.training.validation import TaskValidation
from pipeline.weights import trained_model
from pipeline.weights.model_description import Trained
from tests.killed import KilledError, train
from tests.own_settings import captioning, pretraining_phase
from tests.pipeline.training.test_phases import same

SIZES = {"width": 8, "heads": 2, "single": 1, "pair": 1, "cross": 1, "pool": 3}
PHASE = {"iterations": 12, "batch": 4, "references": 1, "learning_rate": 1e-2, "schedule": "noam"}
PHASE |= {"validate_every": 4, "exchange": False, "precision": "float32", "optimiser": "adam", "beta2": 0.999}
PHASE |= {"weight_decay": 0.0, "clip_norm": None, "patience": None, "mirror": False, "shift": 0, "warm_up": 4}
FIRST = PHASE | {"tasks": {"mlm": 2.0, "mvcl": 1.0, "fda": 1.0}, "fda_pairs": 2}
SECOND = PHASE | {"schedule": "halves", "milestones": (4, 8), "select_after": 4, "references": 2}
SETTINGS = {"dropout": 0.1, "masked_words": 0.3, "masked_words_captioning": 0.3, "masked_cells": 0.3}
SETTINGS |= {"coef_lr": 1.0, "tau1": 1.0, "tau2": 1.0}


def recipe(settings=None, **changes):
    own, phases = SETTINGS | (settings or {}), {"pretrain": FIRST | changes, "train": SECOND}
    return Recipe("tabletop", "idc_pcl", own, SIZES, {"judge": 1.0}, phases, {}, {})


def negatives(pairs):
    return {pair.pair_id: [f"the ball turned metal {word}" for word in "abcdef"] for pair in pairs}


def run(prepared, folder, phase, chosen, scores=(), killed_at=None):
    """Train a phase with its own validation, or with `scores`."""
    return train(prepared, folder, chosen, phase, scores=scores, killed_at=killed_at, own=not scores)


@pytest.mark.parametrize("variant", ["paper", "released"])
def test_both_phases_and_a_kill_in_each(prepared, tmp_path, variant):
    chosen = recipe({"variant": variant})
    first = pretraining_phase(chosen, negatives(prepared.pairs))
    history, model = run(prepared, tmp_path, first, chosen)
    with pytest.raises(KilledError):
        run(prepared, tmp_path / "k", first, chosen, killed_at=3)
    again, _ = run(prepared, tmp_path / "k", first, chosen)
    assert same(history, again)
    assert history.best_iteration == 12  # the last weights are kept
    assert all(torch.equal(history.best[name], tensor) for name, tensor in model.state_dict().items())
    different = replace(first, settings=FIRST | {"learning_rate": 9e-3})
    other, _ = run(prepared, tmp_path / "o", different, chosen)
    assert not same(history, other)
    names = {"mlm_accuracy", "mvcl_rank", "fda_accuracy_change", "mlm", "mvcl", "fda"}
    assert names <= set(history.validation[0])
    row = history.losses[0]
    assert row["iteration"] == 4
    tasks = {first.sampler(prepared.pairs, 1).task(iteration) for iteration in range(4)}
    assert {task for task in FIRST["tasks"] if not math.isnan(row[task])} == tasks

    own = prepared.store.shape, len(prepared.vocabulary), prepared.vocabulary.longest
    trained = Trained(chosen.pretraining, 1, *own, 12, 0.5)
    trained_model.save(tmp_path / "pretrained", trained, history.best)
    loaded, _ = trained_model.load(tmp_path / "pretrained", "pretrain")
    assert torch.equal(loaded.difference.project.weight, model.difference.project.weight)
    second = captioning(chosen, tmp_path / "pretrained", "plain")
    captioner = second.make(prepared.store.shape, prepared.vocabulary)
    for name, tensor in model.difference.state_dict().items():
        assert torch.equal(captioner.difference.state_dict()[name], tensor), name
    whole, _ = run(prepared, tmp_path / "c", second, chosen, [9.0, 1.0, 2.0])
    with pytest.raises(KilledError):
        run(prepared, tmp_path / "d", second, chosen, [9.0, 1.0], killed_at=2)
    resumed, _ = run(prepared, tmp_path / "d", second, chosen, [1.0, 2.0])
    assert same(whole, resumed)
    assert whole.best_iteration == 12  # `select_after` excludes iteration 4
    assert {"iteration", "cap", "judge", "judge_accuracy"} == set(whole.losses[0])


ALL = -1  # length of the longest training caption


@pytest.mark.parametrize(
    ("name", "variant", "max_tokens", "expected"),
    [  # expected: limit L, tokens of a long caption, tokens to which mlm pads a short one
        ("images", "released", 40, (40, 39, 40)),
        ("pretrain", "released", 40, (40, 39, 40)),
        ("train", "released", 40, (40, 39)),
        ("pretrain", "released", 6, (6, 5, 6)),
        ("pretrain", "released", None, (ALL, ALL, ALL)),
        ("images", "paper", 40, (40, 40, 4)),  # CUB's captions have other lengths than the dataset's
        ("pretrain", "paper", 40, (ALL, ALL, 4)),
        ("pretrain", "paper", 6, (6, 6, 4)),
        ("train", "paper", 6, (6, 6)),
        ("train", "paper", None, (ALL, ALL)),
    ],
)
def test_the_lengths_of_captions(prepared, name, variant, max_tokens, expected):
    """In `released`, captions are padded to L in pre-training, and keep L - 3 words, as in the program."""
    limit = {"max_tokens": max_tokens}
    pretraining = {"pretrain" if name == "train" else name: FIRST | limit}
    own = {"variant": variant, "switches": {"extra_data": "cub"}}
    chosen = replace(recipe(own), phases=pretraining | {"train": SECOND | limit})
    phase = captioning(chosen, Path("pretrained")) if name == "train" else pretraining_phase(chosen)
    vocabulary = phase.cut(prepared.vocabulary)
    sizes = chosen.sizes_for(prepared.store.shape, len(vocabulary), vocabulary.longest)
    tokens = torch.tensor([vocabulary.encode("ball " * 99)])
    found = [sizes.longest, tokens.shape[1]]
    if name != "train":
        model = phase.make(prepared.store.shape, vocabulary)
        joint = model.joint
        model.joint = lambda *given: found.append(given[-1].shape[1]) or joint(*given)
        image = model.encoding(torch.randn(1, *prepared.store.shape))
        model.losses_of(image, image, tokens[:, -4:], labels=Labels(torch.tensor([1]), "mlm"))
    longest = prepared.vocabulary.longest
    assert tuple(found) == tuple(longest if number == ALL else number for number in expected)


def test_adam_moves_unused_tensors_in_released(prepared, tmp_path):
    """In `released`, a step of MLM also moves the head of MVCL, after the head's first use."""
    moved = {}
    for variant in ("paper", "released"):
        chosen = recipe({"variant": variant, "dropout": 0.0})
        phase = pretraining_phase(chosen, negatives(prepared.pairs))
        sampler = phase.sampler(prepared.pairs, 1)
        seed_all(1, 0)
        model = phase.make(prepared.store.shape, prepared.vocabulary)
        training = Training(model, chosen, 1, tmp_path / variant, lambda _: 0.0, phase=phase)
        drawn = {}
        batches = training_batches(sampler, prepared.store, prepared.vocabulary, range(12))
        for iteration, batch in enumerate(batches):
            drawn.setdefault(batch.task, (iteration, batch))
        bias = model.cell_head.bias
        steps = []
        for task in ("mlm", "mvcl", "mlm"):
            before = bias.detach().clone()
            iteration, batch = drawn[task]
            training.step(batch, iteration)
            steps.append(not torch.equal(bias, before))
        moved[variant] = steps
    assert moved == {"paper": [False, True, False], "released": [False, True, True]}


def test_tasks_are_drawn_by_weight_and_each_draws_all_items(prepared):
    pairs = of_split(prepared.pairs, "train")
    settings = FIRST | {"iterations": 3000}
    sampler = TaskSampler(pairs, settings, ("mlm", "mvcl", "fda"), 1, negatives(pairs))
    tasks = [sampler.task(iteration) for iteration in range(3000)]
    counts = Counter(tasks)
    assert counts["mlm"] / 3000 == pytest.approx(0.5, abs=0.03)
    assert counts["fda"] / 3000 == pytest.approx(0.25, abs=0.03)
    items = {(pair.pair_id, caption) for pair in pairs for caption in pair.captions}
    for task, size in (("mlm", 4), ("fda", 2)):
        own = [i for i in range(3000) if tasks[i] == task][: len(items) // size]
        seen = []
        for iteration in own:
            scenes, captions = sampler.draw(iteration)
            assert len(scenes) == size
            for (pair,), (said,) in zip(scenes, captions, strict=True):
                assert said[1:] == (negatives(pairs)[pair.pair_id] if task == "fda" else [])
                seen.append((pair.pair_id, said[0]))
        assert len(set(seen)) == len(seen) == len(items) // size * size
    # a longer training begins with the same batches
    longer = TaskSampler(pairs, FIRST | {"iterations": 9}, ("mlm", "mvcl", "fda"), 1, negatives(pairs))
    assert [longer.task(i) for i in range(9)] == tasks[:9]
    assert longer.draw(7) == sampler.draw(7)
    other = TaskSampler(pairs, settings, ("mlm", "mvcl", "fda"), 2, negatives(pairs))
    assert [other.task(i) for i in range(3000)] != tasks


def class_items(prepared, count):
    names = list(prepared.store.row)
    pairs = [ClassPair(f"{n}", "train", names[n], names[n + 1], n % 3, n % 2) for n in range(count)]
    return ClassItems(pairs, prepared.store, 555)


def test_a_batch_of_class_pairs(prepared):
    items = class_items(prepared, 5)
    batch = items.batch(items.pairs)
    assert len(batch.images) == 6  # each image once
    assert batch.classes.tolist() == [[0, 1, 2, 0, 1], [0, 1, 0, 1, 0]]
    for row, pair in enumerate(items.pairs):
        for images, name in ((batch.before, pair.before), (batch.after, pair.after)):
            assert torch.equal(batch.images[images[row]], torch.from_numpy(prepared.store.read([name]))[0])
    labels = batch.labels(torch.device("cpu"))
    assert labels.task == CLASS_PAIRS
    assert torch.equal(labels.classes, batch.classes)


def test_class_pairs_are_a_task_with_its_own_items(prepared):
    train, items = of_split(prepared.pairs, "train"), class_items(prepared, 10)
    settings = FIRST | {"iterations": 400, "tasks": {"mlm": 1.0, CLASS_PAIRS: 3.0}}
    first, again = (TaskSampler(train, settings, ("mlm", CLASS_PAIRS), 1, {}, items) for _ in range(2))
    own = [i for i in range(400) if first.task(i) == CLASS_PAIRS]
    assert len(own) / 400 == pytest.approx(0.75, abs=0.08)
    assert all((first.wordless(i) is None) == (i not in own) for i in range(20))
    assert all(torch.equal(first.wordless(i).classes, again.wordless(i).classes) for i in own[:2])
    seen = {int(place) for i in own[:2] for place in first._indices(i, 10)}
    assert len(seen) == 8  # two batches of four different items


def test_validation_uses_at_most_as_many_class_pairs_as_pairs(prepared):
    items, pairs = class_items(prepared, 15), of_split(prepared.pairs, "val")[:4]
    validation = TaskValidation(pairs, prepared.store, prepared.vocabulary, (CLASS_PAIRS,), {}, items)
    (batch,) = validation._batches(CLASS_PAIRS)
    assert batch.classes[0].tolist() == [pair.before_class for pair in items.pairs[::4]]


def test_inputs_that_do_not_fit_are_named(prepared):
    pairs = of_split(prepared.pairs, "train")
    with pytest.raises(InputError, match=r"'000000.png' has no negatives"):
        TaskSampler(pairs, FIRST, ("fda",), 1, {})
    with pytest.raises(InputError, match=r"999 captions, .*fda_pairs"):
        TaskSampler(pairs, FIRST | {"batch": 999}, ("mlm",), 1, {})
    with pytest.raises(InputError, match=r"idc_pcl .*--start-from"):
        captioning(recipe())
    with pytest.raises(InputError, match=r"length must be longest or max_tokens"):
        captioning(recipe({"switches": {"length": "x"}}), Path("pretrained"))
    with pytest.raises(InputError, match="NABirds has 555 classes, not 556"):
        ClassItems([ClassPair("a", "train", "b", "c", 0, 555)], prepared.store, 555)
    with pytest.raises(InputError, match="4 pairs, but NABirds' train split has 3"):
        TaskSampler(pairs, FIRST, (CLASS_PAIRS,), 1, {}, class_items(prepared, 3))


def test_a_loss_of_minus_infinity_is_named_and_other_tasks_are_not(prepared, tmp_path, monkeypatch):
    chosen = recipe()
    phase = pretraining_phase(chosen, negatives(prepared.pairs))
    step, tasks = Training.step, {}

    def broken(self, batch, iteration):
        values = step(self, batch, iteration)
        tasks[iteration] = batch.task
        if batch.task == "mvcl":
            values[self.terms.index("mvcl")] = -math.inf
        return values

    monkeypatch.setattr(Training, "step", broken)
    with pytest.raises(InputError, match=r"'mvcl' is -inf at iteration (\d+)") as refused:
        run(prepared, tmp_path, phase, chosen)
    named = int(str(refused.value).partition("at iteration ")[2].partition(";")[0])
    assert named - 1 == min(iteration for iteration, task in tasks.items() if task == "mvcl")
