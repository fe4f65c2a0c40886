"""Judge free English by the scene of a pair or by its references, with the judges of pipeline/judging."""

from pipeline.datasets.schema import Pair
from pipeline.free_english.reader import read
from pipeline.judging.references import judged_by_references
from pipeline.judging.scene import judged_by_scene
from pipeline.judging.strict import references_of
from pipeline.judging.verdicts import JudgedClaim, Verdict, verdict


def judge_free(text: str, pair: Pair) -> Verdict | None:
    """Return the verdict on a text by the pair's scene, or None if the scene is unknown."""
    judged = judged_claims(text, pair)
    return None if judged is None else verdict(text, judged)


def judged_claims(text: str, pair: Pair) -> list[JudgedClaim] | None:
    """Return the claims of a text, each with its judgement by the pair's scene; None if it is unknown."""
    return judged_by_scene(read(text), pair)


def agreement(text: str, pair: Pair) -> Verdict | None:
    """Return the verdict on a text by the pair's references; None if these name no kind of change."""
    truth = references_of(pair)
    return verdict(text, judged_by_references(read(text), truth)) if truth.kinds else None


FREE = (judge_free, agreement)
"""Functions that judge free English: by the scene (first), by the references (second). See also STRICT."""
