"""The model card of shared weights: data, training, scores and limits. model_card.j2 is its template."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2

from pipeline.captioning.feature_backbone import Made
from pipeline.config.store_contents import recorded_spec
from pipeline.datasets import cards
from pipeline.datasets.manifest import read as read_manifest
from pipeline.datasets.schema import CHANGE_TYPES
from pipeline.scoring.metric_names import ACCURACY, AGREES, FITS, HEADINGS, SHOWN, TRUE, TRUE_CHANGES
from pipeline.statistics.seeds import over_seeds
from pipeline.weights.model_description import Trained

TEMPLATE = Path(__file__).with_name("model_card.j2")
# setting that selects the snapshot -> the validation score in the card
SELECTED = {"truth": "truth of both kinds", "last": "CIDEr-D"}
TRUTH = {TRUE: "true", FITS: "true or ambiguous", AGREES: "agrees with a reference"}
SUBSETS = {  # subset of the test split -> heading
    "change": "all changes",
    **{kind: kind for kind in CHANGE_TYPES},
    "no_change": "no change",
}


def text(trained: Trained, made: Made, scores: dict[str, Any], lab: Path, licence: str) -> str:
    """Render the card as Markdown."""
    recipe, select = trained.recipe, trained.recipe.train.get("select", "CIDEr-D")
    card = lab / cards.path_of(recipe.dataset)
    own, seeds = scores["own"], scores["seeds"]
    environment = jinja2.Environment(
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined
    )
    environment.filters |= {
        "listed": lambda values: ", ".join(f"{key} {value}" for key, value in values.items()),
        "percent": lambda share: f"{100 * share:.1f}",
        "thousands": lambda number: f"{number:,}",
    }
    shown = {
        "settings": recipe.settings,
        "sizes": recipe.sizes,
        "loss weights": recipe.loss,
        "run": {key: value for key, value in recipe.train.items() if key != "reinforce"},
    }
    if "reinforce" in recipe.train:
        shown["then, reward phase"] = recipe.train["reinforce"]
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        trained=trained,
        made=made,
        recipe=recipe,
        shown=shown,
        selected=SELECTED.get(select, select),
        card=cards.load(card) if card.exists() else None,
        counts=_counts(lab / f"data/pairs/{recipe.dataset}.manifest.json"),
        own=own,
        seeds=seeds,
        scores=[
            (HEADINGS.get(name, name), own[name], _spread(seeds, name)) for name in SHOWN if _has(own, name)
        ],
        truth=_truth(scores["truth"]),
        squashed=recorded_spec(recipe.features).squashed,
        untrue=_percent_wrong(own, TRUE_CHANGES),
        mistaken=_percent_wrong(own, ACCURACY),
        licence=licence,
    )


def _counts(manifest: Path) -> str | None:
    if not manifest.exists():
        return None
    counts = read_manifest(manifest).counts
    return " / ".join(f"{counts[split]['pairs']:,}" for split in ("train", "val", "test"))


def _has(scores: Mapping[str, Any] | None, name: str) -> bool:
    return scores is not None and scores.get(name) is not None


def _spread(seeds: Mapping[str, Any], name: str) -> Any:
    return over_seeds([each[name] for each in seeds.values() if _has(each, name)])


def _percent_wrong(own: Mapping[str, Any] | None, name: str) -> str | None:
    return f"{100 * (1 - own[name]):.0f}" if own is not None and _has(own, name) else None


def _truth(truth: Mapping[str, Mapping[str, float]]) -> dict[str, Any] | None:
    """Return a table: a row per truth metric, a column per subset of the test pairs. None without metrics."""
    columns = [subset for subset in SUBSETS if subset in truth]
    known = [name for name in TRUTH if any(name in own for own in truth.values())]
    rows = {TRUTH[name]: [truth[subset].get(name) for subset in columns] for name in known}
    return {"columns": [SUBSETS[subset] for subset in columns], "rows": rows} if known else None
