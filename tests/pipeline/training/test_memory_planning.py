"""Planned memory against measured memory, and what follows from it."""

from pathlib import Path

import pytest
import torch

from models import build
from models.captioner import Sizes
from pipeline.compute import devices
from pipeline.datasets.schema import Pair
from pipeline.errors import InputError
from pipeline.training import memory_planning
from pipeline.training.memory_planning import (
    GIB,
    Demand,
    Scene,
    check,
    demand,
    largest_batch,
    peak,
    scene_of,
    through,
    together,
)
from tests.pipeline.training.trained_memory import measured
from tests.spawned import spawn

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")
MODEL = Sizes(16, (4, 4), 20, 8, 32, 2, 1, 1, 8)
SETTINGS = {"dropout": 0.1, "temperature": 0.5}


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="Linux counts a process's peak")
@pytest.mark.parametrize(
    "run",
    [  # model, width, layers, grid, scenes, precision
        ("scorer_cbr", 256, 2, 14, 8, "float32"),
        ("scorer_cbr", 256, 1, 14, 16, "bfloat16"),
        ("subtraction", 256, 1, 14, 16, "float32"),
    ],
)
def test_the_plan_is_within_a_quarter_of_what_training_takes(run, tmp_path):
    if run[-1] == "bfloat16" and devices.precision("auto", CPU) != torch.bfloat16:
        pytest.skip("without instructions for bfloat16 a step in it takes minutes here")
    spawn(measured, 1, tmp_path / "measured", *run)
    told, took = map(int, (tmp_path / "measured").read_text().split())
    assert told == pytest.approx(took, rel=0.25)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_a_larger_batch_keeps_follows_from_three_small_ones(dtype):
    model = build("scorer_cbr", MODEL, SETTINGS)
    kept = [
        memory_planning._kept(model, Scene(2, 3), scenes, CPU, dtype)
        for scenes in (*memory_planning.PROBES, 9)
    ]
    constant, linear, quadratic = through(kept[:3])
    assert quadratic > 0  # the matching's indices
    assert constant + 9 * linear + 81 * quadratic == pytest.approx(kept[3], rel=0.001)


def test_nothing_is_left_behind():
    model = build("scorer_cbr", MODEL, SETTINGS)
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    demand(model, Scene(2, 3), CPU, torch.float32)
    assert torch.equal(torch.rand(3), expected)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_more_of_anything_takes_more():
    least = demand(build("rr", MODEL, {"dropout": 0.1}), Scene(1, 2), CPU, torch.float32)
    with_terms = demand(build("scorer_cbr", MODEL, SETTINGS), Scene(1, 2), CPU, torch.float32)
    more_pairs = demand(build("rr", MODEL, {"dropout": 0.1}), Scene(2, 3), CPU, torch.float32)
    more_captions = demand(build("rr", MODEL, {"dropout": 0.1}), Scene(1, 2, 3), CPU, torch.float32)
    assert peak(least, 8) < peak(with_terms, 8)
    assert peak(least, 8) < peak(more_captions, 8)
    assert peak(least, 8) < peak(more_pairs, 8)


def test_the_largest_batch_is_the_largest():
    needed = Demand(100.0, 10.0, 0.5)
    for available in (0, 99, 110, 111, 1000, 10**9):
        batch = largest_batch(needed, available)
        assert batch == 0 or peak(needed, batch) <= available
        assert peak(needed, batch + 1) > available
    assert largest_batch(needed, 99) == 0


def test_processes_share_the_processors_memory_and_not_their_gpus():
    """Each of 4 processes with b scenes: 100 + 10 b + b^2."""
    each = Demand(100.0, 10.0, 1.0)
    for batch in (4, 8, 32):
        own = peak(each, batch // 4)
        assert peak(together(each, 4, CPU), batch) == 4 * own
        assert peak(together(each, 4, torch.device("cuda", 0)), batch) == own
        assert peak(together(each, 1, CPU), batch) == peak(each, batch)


def test_held_features_count_whatever_the_batch():
    model = build("rr", MODEL, {"dropout": 0.1})
    without, held = (demand(model, Scene(1, 2), CPU, torch.float32, held=x) for x in (0, 1000))
    assert [peak(held, batch) - peak(without, batch) for batch in (1, 9)] == [1000, 1000]


def test_the_scene_that_stands_for_all_has_the_most_images():
    def pair(after):
        return Pair(after, "s", "train", before="b", after=after, captions=("a",), change_type="add")

    scenes = [(pair("x"), pair("x")), (pair("x"), pair("y"))]
    assert scene_of(scenes[:1]) == Scene(pairs=2, images=2)
    assert scene_of(scenes) == Scene(pairs=2, images=3)
    assert scene_of(scenes, references=4) == Scene(pairs=2, images=3, references=4)


def test_a_batch_that_would_fit_is_one_that_processes_can_share():
    needed = Demand(0.0, GIB, 0.0)
    check(needed, 8, 8 * GIB, 4)
    with pytest.raises(InputError, match=r"train\.batch 4 would fit"):
        check(needed, 8, 7 * GIB, 4)
    with pytest.raises(InputError, match=r"not even train\.batch 4 would fit"):
        check(needed, 8, 3 * GIB, 4)


def test_one_line_says_what_would_fit():
    needed = Demand(GIB, GIB, 0.0)
    check(needed, 3, 4 * GIB)
    check(needed, 3, None)
    with pytest.raises(InputError) as caught:
        check(needed, 128, 4 * GIB)
    assert str(caught.value) == (
        "training needs about 129.0 GiB at batch 128, 4.0 GiB are free; train.batch 3 would fit"
    )
    with pytest.raises(InputError, match=r"not even train\.batch 1 would fit"):
        check(needed, 128, GIB)
