"""BLEU, ROUGE-L and CIDEr-D of tokenised captions, computed by pycocoevalcap's own classes.

Captions are id -> sentence, references id -> sentences (at least one); both have the same ids.
"""

from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.rouge.rouge import Rouge


def bleu(captions: dict[str, str], references: dict[str, list[str]]) -> tuple[list[float], list[float]]:
    """BLEU-1 to BLEU-4 of the corpus, and BLEU-4 of each caption; 0 to 1."""
    corpus, each = Bleu(4).compute_score(references, _listed(captions, references), verbose=0)
    return [float(value) for value in corpus], [float(value) for value in each[3]]


def rouge_l(captions: dict[str, str], references: dict[str, list[str]]) -> list[float]:
    """ROUGE-L of each caption, 0 to 1; a corpus's is their mean."""
    return [float(value) for value in Rouge().compute_score(references, _listed(captions, references))[1]]


def cider_d(captions: dict[str, str], references: dict[str, list[str]]) -> float:
    """CIDEr-D of the corpus, 0 to 10 (the papers' 126.8 is 1.268), with its own document frequencies.

    Over fewer than two distinct sets of references it is 0 by definition.
    """
    each = cider_d_each(captions, references)
    return sum(each) / len(each)


def cider_d_each(captions: dict[str, str], references: dict[str, list[str]]) -> list[float]:
    """CIDEr-D of each caption, 0 to 10, with the document frequencies of these references.

    What pycocoevalcap calls CIDEr is CIDEr-D: clipped, with the Gaussian length penalty.
    """
    return [float(value) for value in Cider().compute_score(references, _listed(captions, references))[1]]


def _listed(captions: dict[str, str], references: dict[str, list[str]]) -> dict[str, list[str]]:
    return {key: [captions[key]] for key in references}
