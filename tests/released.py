"""Small released checkpoints, as the authors' programs would have written them."""

import sys
import types
from collections import OrderedDict

import torch

import models
from models.common.captioner import Sizes
from pipeline.authors_checkpoints import scorer_dirl
from pipeline.authors_checkpoints.scorer_dirl import SCORER
from pipeline.text.vocabularies import SPECIAL, WordVocabulary

SIZES = Sizes(1024, (14, 14), 11, 7, 8, 2, 2, 2, 6)
VOCABULARY = WordVocabulary((*SPECIAL, *"abcdefg"), 7, lower_case=False)


def model(system=SCORER, sizes=SIZES, beside=None):
    """A model with random weights, biases and norms included; `beside`: how many coordinates it reads."""
    torch.manual_seed(0)
    beside = system.coordinates[0] if beside is None else beside
    made = models.build(system.model, sizes, scorer_dirl.settings(system, beside)).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(torch.randn(parameter.shape) * 0.2)
    return made


def states(made, system=SCORER):
    """Its tensors as the released program names them; what is one tensor there, put together."""
    beside = dict.fromkeys(system.unused(SIZES.layers), torch.tensor(0.5))
    return named(
        made, system.names_of(SIZES.layers), {scorer_dirl.POSITIONS: made.decoder.positions} | beside
    )


def named(made, names, beside):
    """A model's tensors by their names and states, with those `beside`."""
    flat = dict(beside)
    for name, value in made.state_dict().items():
        place = names.place(name).name
        # of joined ones query, key and value follow each other
        flat[place] = torch.cat([flat[place], value]) if place in flat else value
    found = {"change_detector_state": OrderedDict(), "speaker_state": OrderedDict()}
    for name, value in flat.items():
        state, rest = name.split(".", 1)
        found[state][rest] = value
    return found


def foreign_class(name="Configuration", bases=(dict,)):
    """A class of a module that exists while the file is written, as theirs does where they train."""
    module = types.ModuleType("their_configs")
    setattr(module, name, type(name, bases, {"__module__": "their_configs"}))
    return module, getattr(module, name)


def write(path, tree, **how):
    """torch.save with a model_cfg of a class that is gone afterwards."""
    module, kind = foreign_class()
    sys.modules["their_configs"] = module
    try:
        configuration = kind(width=8)
        configuration.frozen = True
        configuration["nested"] = kind(names=["a", "b"], shape=(1, 2), rate=0.1, none=None)
        torch.save({"model_cfg": configuration} | tree, path, **how)
    finally:
        del sys.modules["their_configs"]
    return path


def drop(*path):
    """Takes an entry of a checkpoint's tree away."""
    return lambda tree: within(tree, path).pop(path[-1])


def put(*given):
    """Puts one in, or in another's place: its path, then its value."""
    *path, value = given
    return lambda tree: within(tree, path).update({path[-1]: value})


def within(tree, path):
    for key in path[:-1]:
        tree = tree[key]
    return tree
