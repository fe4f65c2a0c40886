"""Judge whether captions are true, for pairs whose scene is known.

`pair_of` makes a pair from a row of a published dataset. `judge` accepts captions in the datasets' grammar;
`judge_free` accepts free English. `answer_of` finds the answer in the output of a language model.
"""

from pipeline.datasets.schema import Pair, Placed, SceneFacts, read_pairs
from pipeline.free_english.judging import judge_free
from pipeline.judging.strict import judge
from pipeline.judging.verdicts import FAULTS, Verdict
from pipeline.publishing.rows import pair_of
from pipeline.scoring.answer_text import answer_of

__all__ = [
    "FAULTS",
    "Pair",
    "Placed",
    "SceneFacts",
    "Verdict",
    "answer_of",
    "judge",
    "judge_free",
    "pair_of",
    "read_pairs",
]
