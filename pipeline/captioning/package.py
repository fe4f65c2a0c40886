"""Packages of weights to share: one file or folder with everything needed to caption new images.

model.safetensors, model.yaml      as training wrote them (there, the first file is weights.safetensors)
config.json                        architecture and sizes, for hubs of models
vocabulary.json                    the words
features.yaml                      how features are made: hash of the backbone's weights, and precision
statistics.safetensors             mean and deviation of the backbone's channels, if they are standardised
backbone.safetensors               the backbone's weights, on request; never ImageNet weights
scores.json                        truth by kind of change, test scores by seed, some test captions, and the
                                   settings that render more such images
confidence.json                    calibration: probability that a caption is correct, and limits beyond which
                                   images are refused; only if commands.calibrate has run
a README                           the model card, with front matter for hubs
"""

import shutil
import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pipeline.captioning import feature_backbone, hub_files, model_card, sources
from pipeline.captioning.feature_backbone import Made
from pipeline.confidence import calibration
from pipeline.config import params
from pipeline.config.store_contents import IMAGENET, PixelSpec, recorded_spec
from pipeline.io import front_matter
from pipeline.io.errors import InputError, printable
from pipeline.io.inputs import read_json, read_text
from pipeline.io.outputs import Contents, check, free_name, replacing, write_json, yaml_of
from pipeline.scoring import run_files
from pipeline.scoring.caption_files import read_results
from pipeline.weights import trained_model
from pipeline.weights.model_description import Trained

CONTENTS = Contents("package")  # contents of a package that is a folder
SAMPLE = 24  # test pairs whose captions are in scores.json
MARK = (1980, 1, 1, 0, 0, 0)  # time of each file in a .zip, so that equal contents give equal bytes


def to_write(text: str) -> Path:
    """Convert a command-line argument to the path of a package to write.

    Raises InputError if the path exists and must not be replaced.
    """
    check(path := Path(text), _contents(path))
    return path


def _contents(out: Path) -> Contents | None:
    return None if out.suffix == ".zip" else CONTENTS


def write(
    weights: Path, lab: Path, out: Path, licence: str, with_backbone: bool = False, licence_id: str = "other"
) -> None:
    """Pack `weights`, a folder of data/weights of the repository `lab`, into `out`, a .zip or a folder.

    licence: a sentence for the model card
    licence_id: an identifier for hubs, such as "mit"
    with_backbone: also pack the backbone's weights if they come from a file (110 MB for ResNet-101)

    Raises InputError naming a missing file.
    """
    if is_package(weights):
        raise InputError(f"{weights} is a package already; copy or zip it")
    _, trained = trained_model.load(weights)
    with _packing(out) as folder:
        shutil.copyfile(trained_model.weights_file(weights), folder / trained_model.PACKED)
        shutil.copyfile(weights / sources.MODEL, folder / sources.MODEL)
        vocabulary = sources.vocabulary_file(weights, trained, lab)
        read_json(vocabulary, "run `dvc repro vocab` to make it")
        shutil.copyfile(vocabulary, folder / sources.VOCABULARY)
        made = _backbone(folder, trained, lab, with_backbone)
        (folder / sources.FEATURES).write_text(yaml_of(asdict(made)), encoding="utf-8")
        if (confidence := sources.confidence_file(weights, trained, lab)).exists():
            shutil.copyfile(confidence, folder / calibration.FILE)
        scores = _scores(trained, weights, lab)
        write_json(folder / sources.SCORES, scores)
        _describe(folder, trained, scores, model_card.text(trained, made, scores, lab, licence), licence_id)


def is_package(weights: Path) -> bool:
    """Return True if `weights` is a package, False if it is a folder that training wrote."""
    return weights.suffix == ".zip" or (weights / sources.FEATURES).exists()


def renew(old: Path, out: Path, licence_id: str) -> None:
    """Convert a package of an earlier version: write `old` as `out`, with the files of this version.

    The captions that the package gives stay the same.
    """
    with sources.opened(old) as folder:
        _, trained, _ = sources.load(folder, old, Path())
        scores = sources.scores(folder, old)
        if scores is None or not (folder / sources.CARD).exists():
            raise InputError(f"{old} lacks {sources.SCORES} or {sources.CARD}; export the weights again")
        text = read_text(folder / sources.CARD, feature_backbone.REMEDY, sources.LARGEST[sources.CARD])
        with _packing(out) as new:
            for name in sources.LARGEST:
                if (folder / name).exists():
                    kept = trained_model.PACKED if name == trained_model.FILE else name
                    shutil.copyfile(folder / name, new / kept)
            _describe(new, trained, scores, front_matter.without(text), licence_id)


@contextmanager
def _packing(out: Path) -> Iterator[Path]:
    """Yield an empty folder to fill. If the block succeeds, it becomes `out`, or is zipped to `out`."""
    contents = _contents(out)
    with replacing(out, contents) as beside:
        folder = beside if contents else free_name(beside)
        folder.mkdir()
        try:
            yield folder
            if contents is None:
                with zipfile.ZipFile(beside, "w", zipfile.ZIP_STORED) as package:
                    for path in sorted(folder.iterdir()):
                        package.writestr(zipfile.ZipInfo(path.name, MARK), path.read_bytes())
        finally:
            if folder != beside:
                shutil.rmtree(folder)


def _describe(folder: Path, trained: Trained, scores: dict[str, Any], card: str, licence_id: str) -> None:
    """Write the files that model hubs read."""
    write_json(folder / hub_files.CONFIG, hub_files.config(trained))
    text = f"{hub_files.card_head(trained, scores, licence_id)}\n{card}"
    (folder / sources.CARD).write_text(text, encoding="utf-8")


def _backbone(folder: Path, trained: Trained, lab: Path, whole: bool) -> Made:
    spec = recorded_spec(trained.recipe.features)
    if isinstance(spec, PixelSpec):
        return sources.READ
    network, made = feature_backbone.of_lab(trained, spec, lab)
    return feature_backbone.pack(folder, network, made, carried=whole and spec.weights != IMAGENET)


def _scores(trained: Trained, weights: Path, lab: Path) -> dict[str, Any]:
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
    """Return a dictionary: seed -> summary of the run. The runs have the dataset and model of the weights.

    Runs without scores are left out. Raises InputError if the scores for the weights' seed belong to other
    weights or captions. For another seed, such scores are left out, and a note is printed.
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
            run_files.check_scores(file.parent, weights=place)
            found[seed] = read_json(file, run_files.SCORE)
        except InputError as error:
            if own:
                raise
            print(printable(f"note: the scores of seed {seed} are left out: {error}"), file=sys.stderr)
    return found


def _truth(metrics: Path) -> dict[str, dict[str, float]]:
    """Return a nested dictionary: subset of the test pairs -> truth metric -> share. Omit unknown shares."""
    found = read_json(metrics, run_files.SCORE)
    own = {subset: found[subset] for subset in model_card.SUBSETS if subset in found}
    known = {
        subset: {name: each[name] for name in model_card.TRUTH if each.get(name) is not None}
        for subset, each in own.items()
    }
    return {subset: shares for subset, shares in known.items() if shares}
