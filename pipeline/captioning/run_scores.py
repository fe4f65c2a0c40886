"""Scores of a model's runs, by seed; only scores of captions that the weights at hand wrote."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.io.errors import InputError, printable
from pipeline.scoring.run_files import SUMMARY, check_captions
from pipeline.weights.model_description import Trained


def read(trained: Trained, weights: Path, lab: Path) -> dict[int, Mapping[str, Any]]:
    """Return seed -> summary of the scored runs of the weights' dataset and model.

    Raises InputError if the scores of the weights' own seed belong to other weights or captions. For another
    seed, such scores are left out with a note.
    """
    run = Path(trained.recipe.dataset, trained.recipe.model)
    found: dict[int, Mapping[str, Any]] = {}
    for file in sorted((lab / "results/cells" / run).glob(f"*/{SUMMARY}")):
        if not file.parent.name.isdecimal():
            continue
        seed = int(file.parent.name)
        own = seed == trained.seed
        try:
            place = weights if own else lab / "data/weights" / run / str(seed)
            found[seed] = check_captions(file.parent, place)
        except InputError as error:
            if own:
                raise
            print(printable(f"note: the scores of seed {seed} are left out: {error}"), file=sys.stderr)
    return found
