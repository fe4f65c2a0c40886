"""Each model with each value of each switch has the outputs stored in tests/golden/model_outputs.json.

After an intended change, or for a new model, store them with `python -m tests.models.test_stored_outputs`.
"""

import json
import typing
from functools import partial
from pathlib import Path

import pytest
import torch

import models
from models import MODELS
from models.common.trainable import Labels
from pipeline.decoding.beam_search import beam_search
from pipeline.decoding.greedy import greedy_attending
from tests.models.test_conformance import SIZES, VALUES, captions, images
from tests.own_settings import settings_of
from tests.random_models import randomise

BEAM = partial(beam_search, beam=3, length_penalty=0.7)
STORED = Path(__file__).parents[1] / "golden/model_outputs.json"


def cases(name):
    """Return (variant, switches, phase): both variants, then the paper's with each value of each switch."""
    entry = MODELS[name]
    # matrix decompositions have other signs on other processors: see tests/models/initialisation
    switches = sorted(entry.switches - {"first_weights"})
    kinds = typing.get_type_hints(type(entry.released))
    chosen = [("paper", {}), ("released", {})]
    for switch in switches:
        kind = kinds[switch]
        values = (True, False) if kind is bool else (0.01,) if kind is float else typing.get_args(kind)
        papers = getattr(type(entry.released)(), switch)
        chosen += [("paper", {switch: value}) for value in values if value != papers]
    phases = (None, *(phase.name for phase in entry.pretraining))
    return [(*each, phase) for each in chosen for phase in phases]


def taught(model, task):
    """Return losses, and the size of their gradients, of a batch in two parts, or of a phase's task."""
    tokens, classes = captions(12 if task == "fda" else 4), None
    if task == "class_pairs":
        classes = torch.tensor([[1, 2, 3, 1], [1, 1, 3, 0]])
    labels = Labels(torch.tensor([1, 0, 1, 1]), task, classes, torch.tensor([2, 5, 2, 4]))
    model.zero_grad()
    torch.manual_seed(7)  # masks are drawn
    before, after = (model.encoding(side) for side in images(model, 4))
    losses = model.losses_of(before, after, tokens, 1 if task else 2, labels=labels)
    sum(losses[term] for term in model.terms if term in losses).backward()
    grown = [p.grad for p in model.parameters() if p.grad is not None]
    values = {f"{task} {name}".strip(): loss.item() for name, loss in losses.items()}
    return values | {f"{task} gradients".strip(): sum(grad.abs().sum().item() for grad in grown)}


def outputs(name, variant, switches, phase):
    torch.manual_seed(5)
    settings = settings_of(name, **VALUES) | {"variant": variant, "switches": switches}
    model = models.build(name, SIZES[MODELS[name].sizes], settings, phase)
    found = {"weights": sum(value.double().abs().sum().item() for value in model.state_dict().values())}
    randomise(model.double())
    tasks = model.terms if phase not in (None, "adapt") else [""]
    for task in tasks:
        found |= taught(model, task)
    if phase is None:
        with torch.no_grad():
            pairs = model.encode(*images(model, 6))
            if (alignment := pairs.alignment([1, 2])) is not None:
                found["alignment"] = alignment.square().sum().item()
            for block, maps in model.class_token_maps(*images(model, 2)).items():
                found[block] = maps.square().sum().item()
            # a switch acts on both searches alike, so only the variants need both
            searches = {"greedy": greedy_attending} | ({} if switches else {"beam": BEAM})
            for kind, search in searches.items():
                said = search(model, pairs)
                found[kind] = ", ".join(" ".join(map(str, row)) for row in said.words.tolist())
                found[f"{kind} maps"] = said.maps[:, 0].double().square().sum().item()
    return {key: value if isinstance(value, str) else float(f"{value:.8g}") for key, value in found.items()}


def all_of(name):
    return {" ".join(map(str, case)): outputs(name, *case) for case in cases(name)}


@pytest.mark.parametrize("name", MODELS)
def test_outputs_are_the_stored_ones(name):
    every = json.loads(STORED.read_text())
    assert name in every, "store its outputs: python -m tests.models.test_stored_outputs"
    stored, found = every[name], all_of(name)
    assert found.keys() == stored.keys()
    for case, values in found.items():
        assert values.keys() == stored[case].keys(), case
        for key, value in values.items():
            wanted = stored[case][key]
            wanted = wanted if isinstance(value, str) else pytest.approx(wanted, rel=1e-5, nan_ok=True)
            assert value == wanted, (case, key)


if __name__ == "__main__":
    lines = (f'"{name}": {json.dumps(all_of(name))}' for name in MODELS)
    STORED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
