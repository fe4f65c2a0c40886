"""NABirds' pairs of classes: their batches, which of them an iteration has, and which validation looks at."""

from collections import Counter

import pytest
import torch

from pipeline.datasets.schema import ClassPair, of_split
from pipeline.io.errors import InputError
from pipeline.training.task_sampling import CLASS_PAIRS, ClassItems, TaskSampler
from pipeline.training.validation import TaskValidation

SETTINGS = {"batch": 4, "fda_pairs": 2, "iterations": 400, "tasks": {"mlm": 1.0, CLASS_PAIRS: 3.0}}


def class_pairs(prepared, count):
    names = list(prepared.store.row)
    return [ClassPair(f"{n}", "train", names[n], names[n + 1], n % 3, n % 2) for n in range(count)]


def test_a_batch_has_each_image_once_and_the_classes_of_both(prepared):
    pairs = class_pairs(prepared, 5)
    batch = ClassItems(pairs, prepared.store, 555).batch(pairs)
    assert len(batch.images) == 6
    assert batch.classes.tolist() == [[0, 1, 2, 0, 1], [0, 1, 0, 1, 0]]
    for row, pair in enumerate(pairs):
        for images, name in ((batch.before, pair.before), (batch.after, pair.after)):
            wanted = torch.from_numpy(prepared.store.read([name]))[0]
            assert torch.equal(batch.images[images[row]], wanted)
    labels = batch.labels(torch.device("cpu"))
    assert labels.task == CLASS_PAIRS
    assert torch.equal(labels.classes, batch.classes)


def test_the_task_goes_through_its_own_items(prepared):
    items = ClassItems(class_pairs(prepared, 10), prepared.store, 555)
    train = of_split(prepared.pairs, "train")
    sampler = TaskSampler(train, SETTINGS, ("mlm", CLASS_PAIRS), 1, {}, items)
    own = [i for i in range(400) if sampler.task(i) == CLASS_PAIRS]
    assert len(own) / 400 == pytest.approx(0.75, abs=0.08)
    assert all((sampler.wordless(i) is None) == (i not in own) for i in range(20))
    first = [tuple(sampler.wordless(i).classes[0].tolist()) for i in own[:2]]
    again = TaskSampler(train, SETTINGS, ("mlm", CLASS_PAIRS), 1, {}, items)
    assert [tuple(again.wordless(i).classes[0].tolist()) for i in own[:2]] == first
    seen = Counter(int(place) for i in own[:2] for place in sampler._places(i, 10))
    assert sum(seen.values()) == len(seen) == 8, "a pass of ten has two batches of four, none twice"


def test_validation_looks_at_no_more_of_them_than_there_are_pairs(prepared):
    pairs = class_pairs(prepared, 15)
    own = of_split(prepared.pairs, "val")[:4]
    items = ClassItems(pairs, prepared.store, 555)
    validation = TaskValidation(own, prepared.store, prepared.vocabulary, (CLASS_PAIRS,), {}, items)
    (batch,) = validation._batches(CLASS_PAIRS)
    assert batch.classes[0].tolist() == [pair.before_class for pair in pairs[::4]]


def test_what_does_not_fit_is_named(prepared):
    with pytest.raises(InputError, match="NABirds has 555 classes, not 556; prepare its own files"):
        ClassItems([ClassPair("a", "train", "b", "c", 0, 555)], prepared.store, 555)
    items = ClassItems(class_pairs(prepared, 3), prepared.store, 555)
    with pytest.raises(InputError, match="4 pairs, but NABirds' train split has 3"):
        TaskSampler(of_split(prepared.pairs, "train"), SETTINGS, (CLASS_PAIRS,), 1, {}, items)
