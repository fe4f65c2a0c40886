"""Packages of weights to share: one file or folder with everything needed to caption new images.

weights.safetensors, model.yaml    as written by training
vocabulary.json                    the words
features.yaml                      how features are made: hash of the backbone's weights, and precision
statistics.safetensors             mean and deviation of the backbone's channels, if they are standardised
backbone.safetensors               the backbone's weights, on request; never ImageNet weights
scores.json                        truth by kind of change, test scores by seed, some test captions, and the
                                   settings that render more such images
a README                           the model card
"""

import shutil
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pipeline.captioning import feature_backbone, model_card, sources
from pipeline.captioning.feature_backbone import Made
from pipeline.config import params
from pipeline.config.store_contents import IMAGENET, PixelSpec, recorded_spec
from pipeline.io.errors import InputError, printable
from pipeline.io.inputs import read_json
from pipeline.io.outputs import Contents, check, free_name, replacing, write_json, yaml_of
from pipeline.scoring import run_files
from pipeline.scoring.coco_files import read_results
from pipeline.weights import trained_model
from pipeline.weights.model_description import Trained

CONTENTS = Contents("package")  # contents of a package that is a folder
SAMPLE = 24  # test pairs whose captions are in scores.json
MARK = (1980, 1, 1, 0, 0, 0)  # time of each file in a .zip, so that equal contents give equal bytes


def to_write(text: str) -> Path:
    """Parse an argument that names a package to write. Raises InputError if it must not be replaced."""
    check(path := Path(text), _contents(path))
    return path


def _contents(out: Path) -> Contents | None:
    return None if out.suffix == ".zip" else CONTENTS


def write(weights: Path, lab: Path, out: Path, licence: str, with_backbone: bool = False) -> None:
    """Pack a folder of data/weights of the laboratory `lab` into `out`, a .zip or a folder.

    `with_backbone`: also pack backbone weights that come from a file (110 MB for ResNet-101). Raises
    InputError naming a missing file.
    """
    if (weights / sources.FEATURES).exists():
        raise InputError(f"{weights} is a package already; copy or zip it")
    contents = _contents(out)
    _, trained = trained_model.load(weights)
    with replacing(out, contents) as beside:
        folder = beside if contents else free_name(beside)
        folder.mkdir()
        try:
            _fill(folder, weights, trained, lab, licence, with_backbone)
            if contents is None:
                with zipfile.ZipFile(beside, "w", zipfile.ZIP_STORED) as package:
                    for path in sorted(folder.iterdir()):
                        package.writestr(zipfile.ZipInfo(path.name, MARK), path.read_bytes())
        finally:
            if folder != beside:
                shutil.rmtree(folder)


def _fill(
    folder: Path, weights: Path, trained: Trained, lab: Path, licence: str, with_backbone: bool
) -> None:
    for name in ("weights.safetensors", "model.yaml"):
        shutil.copyfile(weights / name, folder / name)
    vocabulary = sources.vocabulary_file(weights, trained, lab)
    read_json(vocabulary, "run `dvc repro vocab` to make it")
    shutil.copyfile(vocabulary, folder / sources.VOCABULARY)
    made = _backbone(folder, trained, lab, with_backbone)
    (folder / sources.FEATURES).write_text(yaml_of(asdict(made)), encoding="utf-8")
    scores = _scores(trained, weights, lab)
    write_json(folder / sources.SCORES, scores)
    (folder / sources.CARD).write_text(model_card.text(trained, made, scores, lab, licence), encoding="utf-8")


def _backbone(folder: Path, trained: Trained, lab: Path, whole: bool) -> Made:
    spec = recorded_spec(trained.recipe.features)
    if isinstance(spec, PixelSpec):
        return sources.READ
    network, made = feature_backbone.of_lab(trained, spec, lab)
    return feature_backbone.pack(folder, network, made, carried=whole and spec.weights != IMAGENET)


def _scores(trained: Trained, weights: Path, lab: Path) -> dict[str, Any]:
    """Return the scores of all scored seeds, from the stage score."""
    recipe, seeds = trained.recipe, _summaries(trained, weights, lab)
    run = lab / "results/cells" / recipe.dataset / recipe.model / str(trained.seed)
    own, tabletop = seeds.get(trained.seed), params.load(lab / "params.yaml").tabletop
    captions = read_results(run / run_files.CAPTIONS, run_files.DECODE) if own else {}
    return {
        "split": "test",
        "own": own,
        "truth": _truth(run / run_files.METRICS) if own else {},
        "seeds": {str(seed): scores for seed, scores in sorted(seeds.items())},
        "sample": dict(list(captions.items())[:SAMPLE]),
        # settings that render more such images
        "rendered": tabletop.of(recipe.dataset).model_dump()
        if recipe.dataset in tabletop.viewpoint
        else None,
    }


def _summaries(trained: Trained, weights: Path, lab: Path) -> dict[int, Mapping[str, Any]]:
    """Return seed -> summary of the scored runs of the weights' dataset and model.

    Raises InputError if the scores of the weights' own seed belong to other weights or captions. For another
    seed, such scores are left out with a note.
    """
    run = Path(trained.recipe.dataset, trained.recipe.model)
    found: dict[int, Mapping[str, Any]] = {}
    for file in sorted((lab / "results/cells" / run).glob(f"*/{run_files.SUMMARY}")):
        if not file.parent.name.isdecimal():
            continue
        seed = int(file.parent.name)
        own = seed == trained.seed
        try:
            place = weights if own else lab / "data/weights" / run / str(seed)
            found[seed] = run_files.check_captions(file.parent, place)
        except InputError as error:
            if own:
                raise
            print(printable(f"note: the scores of seed {seed} are left out: {error}"), file=sys.stderr)
    return found


def _truth(metrics: Path) -> dict[str, dict[str, float]]:
    """Return subset of the test pairs -> known shares of true captions."""
    found = read_json(metrics, run_files.SCORE)
    own = {subset: found[subset] for subset in model_card.SUBSETS if subset in found}
    known = {
        subset: {name: each[name] for name in model_card.TRUTH if each.get(name) is not None}
        for subset, each in own.items()
    }
    return {subset: shares for subset, shares in known.items() if shares}
