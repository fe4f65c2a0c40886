"""Packages of weights to share: one file or folder with everything needed to caption new images.

model.safetensors        the weights; in the folder that training wrote, weights.safetensors
model.yaml               description of the weights, as training wrote it
config.json              architecture and sizes, for model hubs; not read here
vocabulary.json          the words
features.yaml            how features are made: hash of the backbone's weights, and precision
statistics.safetensors   mean and deviation of the backbone's channels, if they are standardised
backbone.safetensors     the backbone's weights, on request; never ImageNet weights
scores.json              test scores of each seed; shares of true captions for subsets of the test
                         pairs; some test captions; settings that render the dataset's images
confidence.json          calibration: probability that a caption is correct, and limits beyond which
                         images are refused; only if commands.calibrate has run
a README                 the model card: front matter for hubs, and the text of model_card.j2
"""

import shutil
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pipeline.captioning import feature_backbone, sources
from pipeline.captioning.feature_backbone import FeatureSource
from pipeline.confidence import calibration
from pipeline.config import params
from pipeline.config.recipe_file import REINFORCE, TRAIN
from pipeline.config.store_contents import IMAGENET, PixelSpec, recorded_spec
from pipeline.datasets import cards
from pipeline.datasets.manifest import read as read_manifest
from pipeline.datasets.schema import CHANGE_TYPES
from pipeline.io import front_matter
from pipeline.io.errors import InputError, printable
from pipeline.io.inputs import read_json
from pipeline.io.outputs import Contents, check, replacing, write_json, yaml_of
from pipeline.scoring import conditions, run_files, table_notes
from pipeline.scoring.caption_files import read_results
from pipeline.scoring.metric_names import AGREES, FITS, SHOWN, TRUE, TRUE_CHANGED, TRUE_UNCHANGED, heading
from pipeline.statistics.bootstrap import over_seeds
from pipeline.weights import trained_model
from pipeline.weights.model_description import Trained

TEMPLATE = Path(__file__).with_name("model_card.j2")
LIBRARY, TASK = "change-captioning-lab", "image-to-text"
TAGS = ("change-captioning", "image-difference")
# metric of ours -> its name on hubs; others keep their name
ON_HUBS = {"BLEU-4": "bleu", "METEOR": "meteor", "ROUGE-L": "rouge", "CIDEr-D": "cider", "SPICE": "spice"}
# setting that selects the snapshot -> the validation score in the card
SELECTED = {"truth": "truth of both kinds", "last": "CIDEr-D"}
TRUTH = {TRUE: "true", FITS: "true or ambiguous", AGREES: "agrees with a reference"}
SUBSETS = {  # subset of the test split -> heading
    "change": "all changes",
    **{kind: kind for kind in CHANGE_TYPES},
    "no_change": "no change",
}


def hub_metadata(trained: Trained, scores: Mapping[str, Any], licence: str) -> dict[str, Any]:
    """Return the values of the front matter of the model card, which is metadata for model hubs.

    `scores` is the content of scores.json. `licence` is an identifier such as "mit".
    """
    recipe = trained.recipe
    values: dict[str, Any] = front_matter.licence(licence) | {
        "language": ["en"],
        "library_name": LIBRARY,
        "pipeline_tag": TASK,
        "tags": [*TAGS, recipe.model],
        "datasets": [recipe.dataset],
    }
    if metrics := _metrics(scores):
        dataset = {"type": recipe.dataset, "name": recipe.dataset, "split": scores["split"]}
        result = {"task": {"type": TASK, "name": "change captioning"}, "dataset": dataset, "metrics": metrics}
        name = f"{recipe.model} on {recipe.dataset}, seed {trained.seed}"
        values["model-index"] = [{"name": name, "results": [result]}]
    return values


def _metrics(scores: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the scores of the run that trained the weights, in percent, in the format of model hubs."""
    own_scores = dict(scores["own"] or {})
    own_scores[TRUE_UNCHANGED] = scores["truth"].get("no_change", {}).get(TRUE)
    names = [name for name in (TRUE_CHANGED, TRUE_UNCHANGED, *SHOWN[1:]) if own_scores.get(name) is not None]
    return [
        {
            "type": ON_HUBS.get(name, name),
            "name": heading(name),
            "value": round(100 * own_scores[name], 2),
        }
        for name in names
    ]


def model_card(
    trained: Trained, source: FeatureSource, scores: dict[str, Any], lab: Path, licence: str, licence_id: str
) -> str:
    """Return the model card as Markdown. `licence` is a sentence, `licence_id` an identifier ("mit").

    `scores` is the content of scores.json. `lab` is the repository whose data/ has the dataset's card.
    """
    recipe = trained.recipe
    select = recipe.phases[TRAIN].get("select", "CIDEr-D")
    card = lab / cards.path_of(recipe.dataset)
    own_scores, seeds = scores["own"] or {}, scores["seeds"].values()
    groups = {
        "settings": recipe.settings,
        "sizes": recipe.sizes,
        "loss weights": recipe.loss,
        "run": recipe.phases[TRAIN],
        "then, reward phase": recipe.phases.get(REINFORCE),
    }
    names = [name for name in SHOWN if own_scores.get(name) is not None]
    spread = {name: over_seeds([run[name] for run in seeds if run.get(name) is not None]) for name in names}
    return front_matter.card(
        hub_metadata(trained, scores, licence_id),
        TEMPLATE,
        trained=trained,
        made=source,
        recipe=recipe,
        shown=groups,
        selected=SELECTED.get(select, select),
        card=cards.load(card) if card.exists() else None,
        counts=_counts(lab / f"data/pairs/{recipe.dataset}.manifest.json"),
        own=scores["own"],
        seeds=scores["seeds"],
        notes=scores["notes"],
        scores=[(heading(name), own_scores[name], spread[name]) for name in names],
        truth=_truth_table(scores["truth"]),
        squashed=recorded_spec(recipe.features).squashed,
        licence=licence,
    )


def _counts(manifest: Path) -> str | None:
    if not manifest.exists():
        return None
    counts = read_manifest(manifest).counts
    return " / ".join(f"{counts[split]['pairs']:,}" for split in ("train", "val", "test"))


def _truth_table(truth: Mapping[str, Mapping[str, float]]) -> dict[str, Any] | None:
    """Return a table of truth metrics (subset -> metric -> value), a row for each; None without any."""
    columns = [subset for subset in SUBSETS if subset in truth]
    names = [name for name in TRUTH if any(name in shares for shares in truth.values())]
    rows = {TRUTH[name]: [truth[subset].get(name) for subset in columns] for name in names}
    return {"columns": [SUBSETS[subset] for subset in columns], "rows": rows} if names else None


CONTENTS = Contents("package")  # contents of a package that is a folder
CONFIG, CARD = "config.json", "README.md"
SAMPLE = 24  # test pairs whose captions are in scores.json
MARK = (1980, 1, 1, 0, 0, 0)  # time of each file in a .zip, so that equal contents give equal bytes


def to_write(text: str) -> Path:
    """Convert `text` to the path of a package to write: a file if it ends with ".zip", else a folder."""
    check(path := Path(text), _contents(path))
    return path


def _contents(out: Path) -> Contents | None:
    return None if out.suffix == ".zip" else CONTENTS


def write(
    weights: Path, lab: Path, out: Path, licence: str, with_backbone: bool = False, licence_id: str = "other"
) -> None:
    """Pack `weights`, a folder in data/weights of the repository `lab`, into `out`, a .zip or a folder.

    licence: a sentence for the model card
    licence_id: an identifier for hubs, such as "mit"
    with_backbone: also pack the backbone's weights if they come from a file (110 MB for ResNet-101)
    """
    if sources.is_package(weights):
        raise InputError(f"{weights} is a package already; copy or zip it")
    _, trained = trained_model.load(weights)
    contents = _contents(out)
    with replacing(out, contents) as temporary_path, tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "package"
        folder.mkdir()
        shutil.copyfile(trained_model.weights_file(weights), folder / trained_model.PACKED)
        shutil.copyfile(weights / sources.MODEL, folder / sources.MODEL)
        vocabulary = sources.vocabulary_file(weights, trained, lab)
        read_json(vocabulary, "run `dvc repro vocab` to make it")
        shutil.copyfile(vocabulary, folder / sources.VOCABULARY)
        source = _backbone(folder, trained, lab, with_backbone)
        (folder / sources.FEATURES).write_text(yaml_of(asdict(source)), encoding="utf-8")
        if (confidence := sources.confidence_file(weights, trained, lab)).exists():
            shutil.copyfile(confidence, folder / calibration.FILE)
        scores = _scores(trained, weights, lab)
        write_json(folder / sources.SCORES, scores)
        write_json(folder / CONFIG, config(trained))
        card = model_card(trained, source, scores, lab, licence, licence_id)
        (folder / CARD).write_text(card, encoding="utf-8")
        if contents:
            shutil.copytree(folder, temporary_path)
            return
        with zipfile.ZipFile(temporary_path, "w", zipfile.ZIP_STORED) as package:
            for path in sorted(folder.iterdir()):
                package.writestr(zipfile.ZipInfo(path.name, MARK), path.read_bytes())


def config(trained: Trained) -> dict[str, Any]:
    """Return the content of config.json for model hubs: architecture, sizes, input, hash of the weights."""
    recipe = trained.recipe
    return {
        "model_type": LIBRARY,
        "architectures": [recipe.model],
        "dataset": recipe.dataset,
        "seed": trained.seed,
        "settings": recipe.settings,
        "sizes": recipe.sizes,
        "image_size": list(recorded_spec(recipe.features).squashed),
        "features": recipe.features,
        "feature_shape": list(trained.shape),
        "vocab_size": trained.vocabulary,
        "max_length": trained.longest,
        "weights_sha256": trained.hashes.get("weights"),
    }


def _backbone(folder: Path, trained: Trained, lab: Path, with_backbone: bool) -> FeatureSource:
    spec = recorded_spec(trained.recipe.features)
    if isinstance(spec, PixelSpec):
        return sources.PIXEL_SOURCE
    network, source = feature_backbone.of_lab(trained, spec, lab)
    return feature_backbone.pack(folder, network, source, carried=with_backbone and spec.weights != IMAGENET)


def _scores(trained: Trained, weights: Path, lab: Path) -> dict[str, Any]:
    recipe, seeds = trained.recipe, _summaries(trained, weights, lab)
    run = lab / "results/runs" / trained.run
    own_scores, tabletop = seeds.get(trained.seed), params.load(lab / "params.yaml").tabletop
    captions = read_results(run / run_files.CAPTIONS, run_files.DECODE) if own_scores else {}
    rendered = recipe.dataset in tabletop.viewpoint
    return {
        "split": "test",
        "own": own_scores,
        "truth": _truth(run / run_files.METRICS) if own_scores else {},
        "notes": table_notes.of_metrics(read_json(run / run_files.METRICS, run_files.SCORE))
        if own_scores
        else [],
        "seeds": {str(seed): scores for seed, scores in sorted(seeds.items())},
        "sample": dict(list(captions.items())[:SAMPLE]),
        "rendered": tabletop.of(recipe.dataset).model_dump() if rendered else None,
    }


def _summaries(trained: Trained, weights: Path, lab: Path) -> dict[int, Mapping[str, Any]]:
    """Return the scores of all runs with the dataset and model of `trained`: seed -> summary of scores.

    There is one run per seed. `weights` are the weights of `trained`. The weights of the other seeds are
    in data/weights of the repository `lab`. A run whose scores were not computed with the weights of its
    seed is left out. Raises InputError if this is the run with the seed of `trained`.
    """
    runs = Path(trained.run).parent
    summaries: dict[int, Mapping[str, Any]] = {}
    stated: dict[int, dict[str, Any]] = {}
    for file in sorted((lab / "results/runs" / runs).glob(f"[0-9]*/{run_files.SUMMARY}")):
        run, seed = file.parent, int(file.parent.name)
        is_own = seed == trained.seed
        try:
            seed_weights = weights if is_own else lab / "data/weights" / runs / run.name
            run_files.check_scores(run, weights=seed_weights)
            summaries[seed] = read_json(file, run_files.SCORE)
            stated[seed] = conditions.stated(read_json(run / run_files.METRICS, run_files.SCORE))
        except InputError as error:
            if is_own:
                raise
            print(printable(f"note: the scores of seed {seed} are left out: {error}"), file=sys.stderr)
    for seed in [seed for seed in stated if stated[seed] != stated.get(trained.seed, stated[seed])]:
        del summaries[seed]
        reason = "they have another tokeniser, other references or other pairs"
        print(f"note: the scores of seed {seed} are left out: {reason}", file=sys.stderr)
    return summaries


def _truth(metrics: Path) -> dict[str, dict[str, float]]:
    """Read the shares of true captions from the file `metrics`, as nested dictionaries.

    The result is {subset of the test pairs: {truth metric: share of captions}}. Unknown shares are left
    out, and so are subsets without a known share.
    """
    subsets = read_json(metrics, run_files.SCORE)
    shares = {
        subset: {name: values[name] for name in TRUTH if values.get(name) is not None}
        for subset in SUBSETS
        if (values := subsets.get(subset))
    }
    return {subset: values for subset, values in shares.items() if values}
