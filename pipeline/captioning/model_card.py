"""The card of shared weights: what they are, of what data and seeds, how good, and what not to expect."""

from pathlib import Path
from typing import Any

from pipeline.captioning.feature_backbone import Made
from pipeline.datasets import cards
from pipeline.datasets.manifest import read as read_manifest
from pipeline.datasets.schema import CHANGE_TYPES
from pipeline.features.store_contents import recorded_spec
from pipeline.recipes.trained_model import Trained
from pipeline.scoring.metric_names import ACCURACY, AGREES, FITS, HEADINGS, SHOWN, TRUE, TRUE_CHANGES
from pipeline.statistics.seeds import over_seeds

SELECTED = {"truth": "true captions", "last": "CIDEr-D"}  # what chose the snapshot -> the score that is kept
TRUTH = {TRUE: "true", FITS: "fits, be it other things, too", AGREES: "agrees with a reference"}
SUBSETS = {  # of the test split -> its name
    "change": "all changes",
    **{kind: kind for kind in CHANGE_TYPES},
    "no_change": "no change",
}


def text(trained: Trained, made: Made, scores: dict[str, Any], lab: Path, licence: str) -> str:
    """The card, as Markdown."""
    recipe = trained.recipe
    parts = [
        f"# {recipe.model} on {recipe.dataset}, seed {trained.seed}",
        "A change captioner: a before and an after picture in, one sentence out that says what changed.",
        _use(recipe.dataset),
        "## Data",
        _data(recipe.dataset, lab),
        "## Training",
        _training(trained, made),
        "## Scores",
        _scored(scores),
        "## Limits",
        _limits(trained, scores),
        "## Licence",
        licence,
    ]
    return "\n\n".join(parts) + "\n"


def _use(dataset: str) -> str:
    return (
        "```\npython -m stages.caption before.png after.png --weights THIS\n```\n\n"
        "In a notebook: `from pipeline.captioning import PictureCaptioner`, "
        '`PictureCaptioner.load("THIS")(before, after)`. '
        f"Nothing of the dataset {dataset} is needed."
    )


def _data(dataset: str, lab: Path) -> str:
    lines = [f"- dataset: {dataset}"]
    if (path := lab / cards.path_of(dataset)).exists():
        card = cards.load(path)
        lines += [f"- citation: {card.citation}", f"- source: {card.source}"]
        lines += [f"- {note}" for note in card.notes]
    if (path := lab / f"data/pairs/{dataset}.manifest.json").exists():
        counts = read_manifest(path).counts
        pairs = " / ".join(f"{counts[split]['pairs']:,}" for split in ("train", "val", "test"))
        lines.append(f"- pairs: {pairs} (train / val / test)")
    return "\n".join(lines)


def _training(trained: Trained, made: Made) -> str:
    recipe = trained.recipe
    spec = ", ".join(f"{key} {value}" for key, value in recipe.features.items())
    select = recipe.train.get("select", "CIDEr-D")
    shown = {
        "settings": recipe.settings,
        "sizes": recipe.sizes,
        "loss weights": recipe.loss,
        "run": recipe.train,
    }
    told = [
        f"- {name}: {', '.join(f'{k} {v}' for k, v in each.items())}" for name, each in shown.items() if each
    ]
    return "\n".join(
        [
            *told,
            f"- seed {trained.seed}; the snapshot of iteration {trained.iteration:,}, "
            f"validation {SELECTED.get(select, select)} {100 * trained.validation:.1f}",
            f"- reads: {spec}; {made.weights_id}, {made.precision}",
            f"- vocabulary: {trained.vocabulary:,} tokens; captions of at most {trained.longest - 2} words",
        ]
    )


def _scored(scores: dict[str, Any]) -> str:
    if scores["own"] is None:
        return "This run was not scored."
    seeds = scores["seeds"]
    truth = _truth(scores["truth"])
    rows = ["| × 100, test split | this file | mean ± sd over seeds |", "|---|---|---|"]
    for name in (name for name in SHOWN if scores["own"].get(name) is not None):
        values = [each[name] for each in seeds.values() if each.get(name) is not None]
        found = over_seeds(values)
        spread = "no sd: one seed" if found.sd is None else f"{100 * found.mean:.1f} ± {100 * found.sd:.1f}"
        rows.append(f"| {HEADINGS.get(name, name)} | {100 * scores['own'][name]:.1f} | {spread} |")
    told = f"Seeds: {', '.join(seeds)}." + (" One seed is no evidence." if len(seeds) == 1 else "")
    return "\n\n".join([*truth, "\n".join(rows), told])


def _truth(truth: dict[str, dict[str, float]]) -> list[str]:
    """What is true of each kind of change, as a table; none where that is not known."""
    known = [name for name in TRUTH if any(name in own for own in truth.values())]
    if not known:
        return []
    columns = [subset for subset in SUBSETS if subset in truth]
    head = ["captions of this file, percent", *(SUBSETS[subset] for subset in columns)]
    rows = [head, ["---"] * len(head)]
    rows += [[TRUTH[name], *(_percent(truth[subset].get(name)) for subset in columns)] for name in known]
    return ["\n".join(f"| {' | '.join(row)} |" for row in rows)]


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f}"


def _limits(trained: Trained, scores: dict[str, Any]) -> str:
    width, height = recorded_spec(trained.recipe.features).squashed
    lines = [
        f"- It knows pictures like those of {trained.recipe.dataset}, and {trained.vocabulary - 4:,} words. "
        "Of any other picture it says something just as surely, and it means nothing.",
        f"- Pictures are squashed to {width} × {height} pixels: what is small is lost.",
        "- One sentence for one change. Where the model looked at a word is no reason for the word.",
    ]
    true = (scores["own"] or {}).get(TRUE_CHANGES)
    if true is not None:
        lines.append(f"- Of 100 changes of test pairs, it says something untrue of {100 * (1 - true):.0f}.")
    accuracy = (scores["own"] or {}).get(ACCURACY)
    if accuracy is not None:
        lines.append(
            f"- Of 100 test pairs, {100 * (1 - accuracy):.0f} are told wrongly to be changed or not."
        )
    return "\n".join(lines)
