"""Small models with random parameters, and their outputs."""

import torch

from models import build
from tests.own_settings import settings_of
from tests.reference.transcription import SIZES, TAU


def make(switches=None, name="scorer_cbr", dropout=0.0, variant="paper", sizes=SIZES):
    torch.manual_seed(0)
    own = settings_of(name, dropout=dropout, temperature=TAU)
    return build(name, sizes, own | {"variant": variant, "switches": switches or {}})


@torch.no_grad()
def randomise(model, scale=0.5):
    """Set all parameters to random values that depend on the parameter's name."""
    for name, parameter in model.named_parameters():
        random = torch.Generator().manual_seed(sum(map(ord, name)))
        parameter.copy_(scale * torch.randn(parameter.shape, generator=random, dtype=parameter.dtype))
    return model.eval()


def batch(dtype=torch.float64):
    random = torch.Generator().manual_seed(1)
    before, after = torch.randn(2, 3, 5, 2, 3, generator=random, dtype=torch.float64).to(dtype)
    return before, after, torch.tensor([[2, 4, 5, 3, 0], [2, 6, 3, 0, 0], [2, 4, 7, 8, 3]])


@torch.no_grad()
def found(model, inputs):
    before, after, tokens = inputs
    pair = model.encode(before, after)
    words = model.decoder(tokens, pair)
    logits = words.logits * words.real[..., None]
    values = {"memory": pair.memory, "logits": logits} | model.losses(*inputs)
    return {name: value.double().numpy() for name, value in values.items()}
