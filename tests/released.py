"""Small synthetic checkpoints of every system, in the format of the authors' programs."""

import json
import sys
import types
from collections import OrderedDict, defaultdict
from dataclasses import dataclass, field
from typing import Any

import torch

from pipeline.authors_checkpoints import clip_models, tensor_table
from pipeline.authors_checkpoints.checkpoint_file import PARTS
from pipeline.authors_checkpoints.grid_models import CARD, DIRL, DUDA, MEDIC, SCORER, VARD
from pipeline.authors_checkpoints.tensor_table import System
from pipeline.text import vocabularies
from pipeline.text.vocabularies import SPECIAL, ClipVocabulary
from tests import project_params

IDS = {word: number for number, word in enumerate((*SPECIAL, *"abcdefg"))}
PCL_IDS = {"<PAD>": 0, "<BOS>": 1, "b": 2, "<EOS>": 3, "a": 4, "<MASK>": 5, "<CLS>": 6, "c": 7, "<UNK>": 8}
PCL_IDS |= {"d": 9, "e": 10}
CLIP = {"D": 128, "T": 64, "E": 64, "p": 8, "N": 5, "C": 12, "n": 3, "k": 1, "m": 1}
TORCH = {"D": 8, "e": 6, "L": 7, "n": 2, "m": 2}
OPENCV = {"features__resize": "opencv_bicubic"}


@dataclass(frozen=True)
class Case:
    """A checkpoint, its vocabulary, and how it is imported."""

    system: System
    sizes: dict[str, int]  # the letters of its table
    ids: dict[str, int] = field(default_factory=lambda: IDS)
    options: str = ""
    params: dict[str, Any] = field(default_factory=dict)
    words: int = len(IDS)
    longest: int = 7
    shape: tuple[int, int, int] = (1024, 14, 14)
    terms: str = "cap"
    dataset: str = "clevr_change"


def _clip4idc(system, **more):
    pixels = {"dataset__clevr_change__features__pixels": [16, 16]}
    return Case(system, CLIP, {}, "--intra 1", pixels, 49_408, 9, (3, 16, 16), **more)


def _pcl(system, **more):
    sizes = {"D": 8, "single": 1, "pair": 1, "cross": 2}
    options, params = "--heads 2 --longest 12", {"features__stride": 32}
    return Case(system, sizes, PCL_IDS, options, params, 9, 12, (2048, 7, 7), **more)


CASES = {
    "scorer": Case(SCORER, TORCH, options="--heads 2", params=OPENCV, terms="cap,cv"),
    "dirl_ccr": Case(DIRL, TORCH | {"C": 1024}, options="--heads 2", params=OPENCV, terms="cap,dirl,ccr"),
    "dirl_ccr coordinates": Case(
        DIRL, TORCH | {"C": 1026}, options="--heads 2", params=OPENCV, terms="cap,dirl,ccr"
    ),
    "dirl_medic": Case(
        MEDIC,
        TORCH | {"C": 1024, "R": 4, "S": 3},
        options="--heads 2",
        params=OPENCV,
        terms="cap,dirl,ccr,cls,type,con,dis",
        dataset="clevr_dc",
    ),
    "dirl_medic coordinates": Case(
        MEDIC,
        TORCH | {"C": 1026, "R": 4, "S": 3},
        options="--heads 2",
        params=OPENCV,
        terms="cap,dirl,ccr,cls,type,con,dis",
    ),
    "duda": Case(DUDA, {"M": 8, "H": 4, "e": 3}, longest=24, terms="cap,maps,entropy"),
    "vard": Case(VARD, {"M": 8, "H": 4, "e": 3, "D": 8}, longest=24, terms="cap,maps,entropy"),
    "card": Case(CARD, TORCH, options="--heads 2", terms="cap,con,ind", dataset="spot_the_diff"),
    "idc_pcl pretrain": _pcl(clip_models.IDC_PCL_PRETRAINED),
    "idc_pcl None": _pcl(clip_models.IDC_PCL_JUDGING),
    "idc_pcl without judging": _pcl(clip_models.IDC_PCL),
    "clip4idc adapt": _clip4idc(clip_models.CLIP4IDC_ADAPTATION, terms="retrieval"),
    "clip4idc None": _clip4idc(clip_models.CLIP4IDC),
}


def tensors(case):
    """Random tensors, by their names."""
    generator, found = torch.Generator().manual_seed(0), {}
    for row in tensor_table.expected_rows(case.system.table, {"V": case.words} | case.sizes):
        if row.how == "sinusoids":
            found[row.stored] = case.system.waves(max(row.shape[:-1]), row.shape[-1]).reshape(row.shape)
        elif row.how.startswith("="):
            found[row.stored] = found[row.how[1:]]
        else:
            found[row.stored] = torch.randn(row.shape or (), generator=generator) * 0.2
    return found


def tree(flat):
    """Return the tree of dictionaries that the released program saves."""
    found = defaultdict(OrderedDict)
    for name, tensor in flat.items():
        part, _, rest = name.partition(".")
        inner = part in PARTS
        (found[part] if inner else found)[rest if inner else name] = tensor
    if "feat_regress.bias" in flat:
        return {"global_step": 7, "model_state_dict": dict(found), "task_batch_num": defaultdict(int, mlm=3)}
    return dict(found)


def prepare(folder, case, flat=None):
    """Write params.yaml, their.pt and vocab.json; return the command that imports the file."""
    project_params.write(folder, **case.params)
    write(folder / "their.pt", tree(tensors(case) if flat is None else flat))
    if case.ids:
        (folder / "vocab.json").write_text(json.dumps(case.ids))
    else:
        vocabularies.save(folder / "vocab.json", ClipVocabulary(case.longest), {})
    return f"import_checkpoint their.pt --vocab vocab.json --dataset {case.dataset} {case.options}"


def foreign_class(name="Configuration", bases=(dict,)):
    """Return a module that is not installed, and its class."""
    module = types.ModuleType("their_configs")
    setattr(module, name, type(name, bases, {"__module__": "their_configs"}))
    return module, getattr(module, name)


def write(path, tree, **how):
    """Save `tree` with an object `model_cfg` of a class that cannot be imported afterwards."""
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
