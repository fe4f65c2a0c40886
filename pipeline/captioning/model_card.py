"""The model card of shared weights: front matter for model hubs, and the text of model_card.j2."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.captioning.feature_backbone import FeatureSource
from pipeline.config.store_contents import recorded_spec
from pipeline.datasets import cards
from pipeline.datasets.manifest import read as read_manifest
from pipeline.datasets.schema import CHANGE_TYPES
from pipeline.io import front_matter
from pipeline.scoring.metric_names import AGREES, FITS, HEADINGS, SHOWN, TRUE, TRUE_CHANGES, TRUE_NO_CHANGE
from pipeline.statistics.seeds import over_seeds
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


def front(trained: Trained, scores: Mapping[str, Any], licence: str) -> dict[str, Any]:
    """Return the values of the card's front matter. `licence` is an identifier such as "mit"."""
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
    """Return the scores of the weights' own run, in percent, in the format of model hubs."""
    own_scores = dict(scores["own"] or {})
    own_scores[TRUE_NO_CHANGE] = scores["truth"].get("no_change", {}).get(TRUE)
    names = [name for name in (TRUE_CHANGES, TRUE_NO_CHANGE, *SHOWN[1:]) if own_scores.get(name) is not None]
    return [
        {
            "type": ON_HUBS.get(name, name),
            "name": HEADINGS.get(name, name),
            "value": round(100 * own_scores[name], 2),
        }
        for name in names
    ]


def text(
    trained: Trained, source: FeatureSource, scores: dict[str, Any], lab: Path, licence: str, licence_id: str
) -> str:
    """Return the card as Markdown. `licence` is a sentence, and `licence_id` an identifier such as "mit"."""
    recipe, select = trained.recipe, trained.recipe.train.get("select", "CIDEr-D")
    card = lab / cards.path_of(recipe.dataset)
    own_scores, seeds = scores["own"] or {}, scores["seeds"].values()
    groups = {
        "settings": recipe.settings,
        "sizes": recipe.sizes,
        "loss weights": recipe.loss,
        "run": {key: value for key, value in recipe.train.items() if key != "reinforce"},
        "then, reward phase": recipe.train.get("reinforce"),
    }
    names = [name for name in SHOWN if own_scores.get(name) is not None]
    spread = {name: over_seeds([run[name] for run in seeds if run.get(name) is not None]) for name in names}
    return front_matter.card(
        front(trained, scores, licence_id),
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
        scores=[(HEADINGS.get(name, name), own_scores[name], spread[name]) for name in names],
        truth=_truth(scores["truth"]),
        squashed=recorded_spec(recipe.features).squashed,
        licence=licence,
    )


def _counts(manifest: Path) -> str | None:
    if not manifest.exists():
        return None
    counts = read_manifest(manifest).counts
    return " / ".join(f"{counts[split]['pairs']:,}" for split in ("train", "val", "test"))


def _truth(truth: Mapping[str, Mapping[str, float]]) -> dict[str, Any] | None:
    """Return the table of truth metrics, such as the share of true captions. Return None without metrics.

    `truth` is a dictionary from a subset of the test pairs to the metrics' values on it. The table has
    a row for each metric, and a column for each subset.
    """
    columns = [subset for subset in SUBSETS if subset in truth]
    names = [name for name in TRUTH if any(name in shares for shares in truth.values())]
    rows = {TRUTH[name]: [truth[subset].get(name) for subset in columns] for name in names}
    return {"columns": [SUBSETS[subset] for subset in columns], "rows": rows} if names else None
