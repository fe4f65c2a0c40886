"""Truth of captions of pairs whose scene is known. `pair_of` takes a row of a published dataset.

`judge` reads the datasets' grammar, `judge_free` free English.
"""

from pipeline.datasets.schema import Pair, Placed, SceneFacts, read_pairs
from pipeline.free_english.truth import judge_free
from pipeline.publishing.rows import pair_of
from pipeline.scoring.truth import FAULTS, Verdict, judge

__all__ = [
    "FAULTS",
    "Pair",
    "Placed",
    "SceneFacts",
    "Verdict",
    "judge",
    "judge_free",
    "pair_of",
    "read_pairs",
]
