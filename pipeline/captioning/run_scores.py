"""The scores of a run, by seed: only those of captions that the weights at hand said."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.io.errors import InputError, printable
from pipeline.scoring.run_files import SUMMARY, check_captions
from pipeline.weights.model_description import Trained


def read(trained: Trained, weights: Path, lab: Path) -> dict[int, Mapping[str, Any]]:
    """Return the summaries of the run's seeds; empty where it was not scored.

    Raises InputError where the scores of these weights' own seed are of other weights or captions. Those of
    another seed are left out then, with a note.
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
