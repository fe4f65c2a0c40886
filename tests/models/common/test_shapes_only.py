"""Models without values: the shapes, types and names of the model itself, without torch's compiler."""

import subprocess
import sys
import typing
from pathlib import Path

import pytest
import torch
from torch import nn

import models
from models import MODELS
from models.common.shapes_only import LARGEST, shapes_only
from tests.models.test_conformance import SIZES, VALUES
from tests.own_settings import settings_of

ROOT = Path(__file__).parents[3]
TOO_NARROW = ("idc_pcl", "idc_pcl_no_pretrain")  # the sizes of the tests are too small for `counterpart`


def every_case(name):
    """Return (variant, switches, phase): both variants, and each value of the initial weights."""
    entry = MODELS[name]
    phases = [None, *(phase.name for phase in entry.pretraining)]
    chosen = [("paper", {}), ("released", {})]
    if "first_weights" in entry.switches:
        kinds = typing.get_args(typing.get_type_hints(type(entry.released))["first_weights"])
        chosen += [("paper", {"first_weights": kind}) for kind in kinds]
    found = [(*each, phase) for each in chosen for phase in phases]
    return [case for case in found if not (name in TOO_NARROW and "counterpart" in case[1].values())]


def described(model):
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    shapes = {key: (tuple(value.shape), value.dtype, value.requires_grad) for key, value in tensors.items()}
    return shapes, list(model.state_dict())


@pytest.mark.parametrize("name", MODELS)
def test_each_model_has_its_shapes_and_draws_nothing(name):
    for variant, switches, phase in every_case(name):
        settings = settings_of(name, **VALUES) | {"variant": variant, "switches": switches}
        state = torch.get_rng_state()
        with shapes_only():
            bare = models.build(name, SIZES[MODELS[name].sizes], settings, phase)
        assert torch.equal(state, torch.get_rng_state())
        assert all(value.is_meta for value in bare.state_dict().values())
        real = models.build(name, SIZES[MODELS[name].sizes], settings, phase)
        assert described(bare) == described(real), (variant, switches, phase)


def test_no_model_needs_the_compiler_of_torch():
    """In a new process, because tests import torch's compiler, which takes as long as torch itself."""
    program = """
import sys
sys.modules["torch._dynamo"] = sys.modules["sympy"] = None  # an import raises ImportError
from tests.models.common.test_shapes_only import *
for name in MODELS:
    for variant, switches, phase in every_case(name):
        with shapes_only():
            models.build(
                name, SIZES[MODELS[name].sizes],
                settings_of(name, **VALUES) | {"variant": variant, "switches": switches}, phase,
            )
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_tensor_is_transposed_in_place():
    """As by nn.init.orthogonal_ of torch 2.11."""
    with shapes_only():
        weight = torch.empty(2, 3)
        assert weight.t_() is weight
        assert weight.shape == (3, 2)


def test_a_huge_tensor_takes_no_memory():
    with shapes_only():
        weight = nn.Linear(2**20, 2**20).weight
        assert (weight * 2).shape == (2**20, 2**20)
        assert weight.numel() > LARGEST
        small = torch.cat([torch.ones(3), torch.arange(2.0) / 3]).div_(2)
    assert small.is_meta
    assert small.shape == (5,)
    assert torch.ones(2).sum() == 2  # outside of the block, tensors have values
