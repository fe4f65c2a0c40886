"""Files of a package that model hubs read: config.json, and the front matter of the model card.

Both repeat values of model.yaml and scores.json. A package is refused if its config.json contradicts its
model.yaml, so that an edit of config.json is not ignored silently.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.config.store_contents import recorded_spec
from pipeline.io import front_matter
from pipeline.io.errors import InputError
from pipeline.io.inputs import read_json
from pipeline.io.records import plain
from pipeline.scoring.metric_names import HEADINGS, SHOWN, TRUE, TRUE_CHANGES, TRUE_NO_CHANGE
from pipeline.weights.model_description import Trained

CONFIG = "config.json"
LARGEST = 1 << 16  # bytes
LIBRARY = "change-captioning-lab"
TASK = "image-to-text"
TAGS = ("change-captioning", "image-difference")
# metric of ours -> its name on hubs; others keep their name in lower case
ON_HUBS = {"BLEU-4": "bleu", "METEOR": "meteor", "ROUGE-L": "rouge", "CIDEr-D": "cider", "SPICE": "spice"}


def config(trained: Trained) -> dict[str, Any]:
    """Return the content of config.json: architecture, sizes, input, and the hash of the weights."""
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


def check_config(folder: Path, weights: Path, trained: Trained, remedy: str) -> None:
    """Raise InputError if a key of config.json contradicts model.yaml. config.json may be absent."""
    if not (folder / CONFIG).exists():
        return
    found = plain(weights / CONFIG, dict[str, Any], read_json(folder / CONFIG, remedy, LARGEST), remedy)
    for key, value in config(trained).items():
        if value is not None and found.get(key, value) != value:  # None: weights without hashes
            raise InputError(f"{weights / CONFIG}: {key} is not as in model.yaml; {remedy}")


def card_head(trained: Trained, scores: Mapping[str, Any], licence: str) -> str:
    """Return the front matter of the model card. `licence` is an identifier such as "mit"."""
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
    return front_matter.text(values)


def _metrics(scores: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the scores of the weights' seed in percent, as hubs read them. Truth metrics come first."""
    own = dict(scores["own"] or {})
    if (share := scores["truth"].get("no_change", {}).get(TRUE)) is not None:
        own[TRUE_NO_CHANGE] = share
    names = (TRUE_CHANGES, TRUE_NO_CHANGE, *SHOWN[1:])
    return [
        {
            "type": ON_HUBS.get(name, name),
            "name": HEADINGS.get(name, name),
            "value": round(100 * own[name], 2),
        }
        for name in names
        if own.get(name) is not None
    ]
