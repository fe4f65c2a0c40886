"""Calibrate a captioner on validation pairs in the training repository, or on pairs that a user labelled."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import Tensor

from pipeline.captioning import package, sources
from pipeline.captioning.dataset_images import DatasetImages
from pipeline.captioning.pair_captioner import PairCaptioner, Search
from pipeline.confidence import calibration, collecting, familiarity, measures, probability
from pipeline.confidence.appearance import statistics_of
from pipeline.confidence.calibration import CRITERIA, Calibration
from pipeline.confidence.collecting import BATCH, Collected
from pipeline.confidence.familiarity import DISTANCES
from pipeline.confidence.signals import NAMES
from pipeline.config import params
from pipeline.config.store_contents import GRID
from pipeline.datasets import labelled_scenes, manifest
from pipeline.datasets.manifest import read_pairs
from pipeline.datasets.schema import Pair, images_of, of_split
from pipeline.features.object_storage import store_of
from pipeline.features.store import FeatureStore, feature_batches
from pipeline.io import folder_records
from pipeline.io.errors import InputError
from pipeline.io.outputs import write_text
from pipeline.judging.no_change import says_no_change, sentences_of
from pipeline.scoring.results import GEOMETRIC

LEAST = 100  # minimum number of validation pairs for a full calibration
FEW = 20  # minimum number of labelled pairs for a refit; their scenes must number at least probability.FOLDS


@dataclass(frozen=True)
class Calibrated:
    """A calibration, the lines to print about it, and the captions on which it was measured.

    `measured` has one key: "test" (test pairs of the repository) or "labelled" (pairs that a user
    labelled). Its value is the P captions, and their probabilities of being correct, (P,). The
    probabilities of labelled pairs are those of the earlier calibration.
    """

    calibration: Calibration
    lines: list[str]
    measured: dict[str, tuple[Collected, np.ndarray]]  # name -> captions, and their probabilities


def on_validation(captioner: PairCaptioner, lab: Path, search: Search) -> Calibrated:
    """Fit a calibration to the validation pairs of the repository `lab`, and measure it on the test pairs.

    Raises InputError if the captions cannot be judged, or if the weights were trained with other pairs or
    features.
    """
    trained, settings = captioner.trained, params.load(lab / "params.yaml")
    dataset, kind = trained.recipe.dataset, trained.recipe.input
    path = lab / f"data/pairs/{dataset}.jsonl"
    pairs = read_pairs(path)
    store = FeatureStore(store_of(lab / f"data/features/{dataset}", kind), expected=trained.recipe.features)
    trained.check_store(store)
    manifest.check_images(path, store.location.name, store.images)
    grammar = settings.negatives.grammar.get(dataset) == GEOMETRIC
    own = [sentence for sentence in sorted(sentences_of(pairs)) if not says_no_change(sentence)]
    meaning, validation = calibration.meaning_of(pairs, grammar), of_split(pairs, "val")
    if meaning is None or len(validation) < LEAST:
        fault = "pairs of unknown truth" if meaning is None else f"{len(validation)} validation pairs"
        raise InputError(f"{path} has {fault}; a calibration needs {LEAST} validation pairs of known truth")
    training, testing = of_split(pairs, "train"), of_split(pairs, "test")
    reader = captioner.reader(search, grammar, own)
    images = DatasetImages.of(lab, settings, trained.recipe) if kind == GRID else None
    familiar = collecting.familiar_with(training, store, images.of_training(training)) if images else None
    statistics = images.statistics([*validation, *testing]) if images else {}

    def collected(subset: list[Pair]) -> Collected:
        batches = feature_batches(subset, store, BATCH)
        return collecting.collect(reader, subset, batches, meaning, familiar, statistics)

    fitting, test = collected(validation), collected(testing)
    altered: list[str] = []
    if familiar and images:
        familiar = familiarity.with_thresholds(familiar, fitting.distances)
        foreign = familiar.statistics.distance(images.of_foreign_copies(validation))
        familiar = familiar.with_fall(fitting.distances[:, DISTANCES.index("appearance")], foreign)
        refused = int((foreign > familiar.appearance).sum())
        altered = [f"altered validation images: refused: {refused} of {len(foreign)}: {familiarity.UNLIKE}"]
    choice = probability.fit(fitting.signals, fitting.reports_change, fitting.correct, fitting.scenes)
    result = Calibration(
        weights=captioner.sha256,
        signals=list(NAMES),
        meaning=meaning,
        grammar=grammar,
        phrases=own,
        beam=search.beam,
        length_penalty=search.length_penalty,
        pairs=len(fitting.pairs),
        method=choice.method,
        probability=choice.probability,
        familiarity=familiar,
    )
    probabilities = result.chances(test.signals, test.reports_change, test.distances)
    numbers = measures.measured(test, probabilities)
    result = result.model_copy(update={"measured": {"test": numbers}})
    losses = ", ".join(f"{name} {loss:.4f}" for name, loss in choice.losses.items())
    lines = [
        f"probability that {CRITERIA[meaning]}, fitted on {len(fitting.pairs)} validation pairs",
        f"cross-validated log-loss: {losses}; chosen: {choice.method}",
        *measures.lines("test", numbers),
        *_refused("test", result, test),
        *altered,
    ]
    return Calibrated(result, lines, {"test": (test, probabilities)})


def on_labelled(captioner: PairCaptioner, folder: Path) -> Calibrated:
    """Adapt the captioner's calibration to the labelled pairs in a folder.

    A calibration gives the probability that a caption is correct. The logit of this probability is
    corrected by a factor and a constant, which are fitted to the labels. A calibration also refuses pairs
    that are unlike the training images or show two different scenes. Both are measured by distances, each
    with a largest accepted value (familiarity.py). These values are raised until no labelled pair is
    refused.

    Raises InputError if the captioner has no calibration, if there are too few pairs or scenes, or if a
    label or an image is wrong.
    """
    fitted = captioner.calibrated()
    pairs = labelled_scenes.read(folder)
    scenes = len({pair.scene_id for pair in pairs})
    if len(pairs) < FEW or scenes < probability.FOLDS:
        raise InputError(
            f"{folder / labelled_scenes.FILE} gives {len(pairs)} pairs of {scenes} scenes; label at least "
            f"{FEW} pairs of {probability.FOLDS} scenes"
        )
    reader = captioner.reader(Search(fitted.beam, fitted.length_penalty), fitted.grammar, fitted.phrases)
    squashed = captioner.features.squashed
    statistics = {name: statistics_of(squashed(folder / name, name)[None])[0] for name in images_of(pairs)}
    grids = _grids(captioner, folder, pairs)
    judged = collecting.collect(reader, pairs, grids, "true", fitted.familiarity, statistics)
    before = fitted.chances(judged.signals, judged.reports_change, judged.distances)
    refitted = probability.refit(fitted.probability, judged.signals, judged.reports_change, judged.correct)
    held_out = probability.held_out_refits(
        fitted.probability, judged.signals, judged.reports_change, judged.correct, judged.scenes
    )
    familiar = fitted.familiarity
    if familiar:
        furthest = dict(zip(DISTANCES, judged.distances.max(0).tolist(), strict=True))
        wider = {name: max(getattr(familiar, name), value) for name, value in furthest.items()}
        familiar = familiar.model_copy(update=wider)
        held_out = held_out * familiar.probability(judged.distances)
    losses = [probability.log_loss(chances, judged.correct) for chances in (before, held_out)]
    result = fitted.model_copy(
        update={"probability": refitted, "familiarity": familiar, "refitted": len(judged.pairs)}
    )
    numbers = measures.measured(judged, before)
    lines = [
        *_refused("before, labelled", fitted, judged),
        *measures.lines("before, labelled", numbers),
        *measures.lines("refitted, cross-validated", measures.measured(judged, held_out)),
        f"log-loss: before {losses[0]:.4f}, refitted {losses[1]:.4f}, cross-validated; lower is better",
    ]
    return Calibrated(result, lines, {"labelled": (judged, before)})


def save(result: Calibrated, captioner: PairCaptioner, weights: Path, lab: Path, out: Path | None) -> Path:
    """Write the calibration to the file `out`, and return its path.

    If `out` is None and `weights` is a package, the file is confidence.json in this package. If `out`
    is None and `weights` is another folder, the file is data/confidence/<run>.json in the repository
    `lab`. Raises InputError if `out` is None and `weights` is a .zip.
    """
    if out is None and weights.is_file():
        raise InputError(f"{weights} is a .zip; unzip it, or name a file by --out")
    path = out or sources.confidence_file(weights, captioner.trained, lab)
    write_text(path, result.calibration.model_dump_json(indent=1) + "\n")
    if folder_records.recorded(path.parent, package.CONTENTS.by) is not None:
        package.CONTENTS.seal(path.parent)  # the package's record of files
    return path


def _grids(captioner: PairCaptioner, folder: Path, pairs: list[Pair]) -> Iterator[tuple[Tensor, Tensor]]:
    for start in range(0, len(pairs), BATCH):
        names = [name for pair in pairs[start : start + BATCH] for name in (pair.before, pair.after)]
        images = [captioner.features.squashed(folder / name, name) for name in names]
        grids = captioner.features.grids(images, names)
        yield grids[0::2], grids[1::2]


def _refused(name: str, fitted: Calibration, judged: Collected) -> list[str]:
    if fitted.familiarity is None:
        return []
    reasons = [fitted.familiarity.reason(distances) for distances in judged.distances]
    counts = {reason: reasons.count(reason) for reason in (familiarity.UNLIKE, familiarity.OTHER_SCENE)}
    return [f"{name}: refused: {count} of {len(reasons)}: {reason}" for reason, count in counts.items()]
