"""Judge whether captions are true, for pairs whose scene is known.

`pair_of` makes a pair from a row of a published dataset. `judge` accepts captions in the datasets' grammar;
`judge_free` accepts free English.
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
