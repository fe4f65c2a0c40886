"""The constant baseline: the same caption for every pair, whatever the images show.

The baseline's caption is chosen among the most frequent training captions, by its CIDEr-D on the validation
split (`choose`). Every metrics.json also has the best constant caption of the scored references themselves
(`best_of_references`).
"""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from pipeline.datasets.schema import Pair, of_split
from pipeline.io.errors import InputError
from pipeline.scoring.metrics import CiderD, counted
from pipeline.scoring.tokenizer import OF_SCORES
from pipeline.text.caption_text import one_line

CANDIDATES, SEARCHED = 100, 300  # sentences and pairs in the search of best_of_references
BEST, BEST_CHANGED = "best_constant", "best_constant_changed"  # keys of metrics.json
HUMAN, CONSTANT = "human", "constant"  # key of the constant's metrics.json, and of that entry
LEAD, MARGIN = "lead", "lead_margin"  # of the scored captions over the best constant, in CIDEr-D; its 95 %
LEAST_PAIRS = 10  # with fewer, no lead is within noise or beyond it


def choose(pairs: Sequence[Pair], candidates: int, timeout: float, tokeniser: str) -> tuple[str, float]:
    """Choose one of the `candidates` most frequent training captions, by its validation CIDEr-D.

    Return the caption, and its CIDEr-D (0 to 10) as the caption of every validation pair. Of equally
    good captions, the most frequent is chosen, then the first in the alphabet. `tokeniser` is "ptb" or
    "none", as `score.tokeniser` in params.yaml. Raises InputError if the training or validation split
    has no captions, or if the tokenizer exceeds `timeout` seconds.
    """
    captions = most_frequent(of_split(pairs, "train"), candidates)
    if not captions:
        raise InputError("the split train has no captions to choose a constant caption from; add some")
    validation = {pair.pair_id: pair.captions for pair in of_split(pairs, "val")}
    _, tokenize = OF_SCORES[tokeniser]
    # one call, so that Java starts only once
    sentences = [*captions, *chain.from_iterable(validation.values())]
    tokens = dict(zip(sentences, tokenize(sentences, timeout), strict=True))
    references = {key: [tokens[text] for text in texts if tokens[text]] for key, texts in validation.items()}
    references = {key: texts for key, texts in references.items() if texts}
    if not references:
        raise InputError("the split val has no captions to choose a constant caption by; add some")
    candidate_tokens = {text: tokens[text] for text in captions}
    grams = counted(candidate_tokens, references)
    cider, scores = CiderD(dict.fromkeys(references, tokens[captions[0]]), references, grams), {}
    for text in dict.fromkeys(candidate_tokens.values()):
        cider.set_captions(dict.fromkeys(references, text))
        scores[text] = float(cider.scores(range(len(references))).mean())
    best = max(captions, key=lambda text: scores[tokens[text]])  # the first of ties
    return best, scores[tokens[best]]


def best_of_references(references: Mapping[str, list[str]]) -> str:
    """Return the reference sentence that is the best caption of all pairs, by CIDEr-D. Texts are tokenised.

    The search is short: it tries the CANDIDATES commonest sentences of SEARCHED pairs, which are drawn with a
    fixed seed.
    Of equally common sentences, those come first whose words are in most references.
    """
    counts = Counter(chain.from_iterable(references.values()))
    words = Counter(chain.from_iterable(set(text.split()) for text in counts))

    def rank(text: str) -> tuple[float, float, str]:
        own = text.split()
        return -counts[text], -sum(words[word] for word in own) / len(own), text

    keys = [*references]
    # not every n-th pair: changed and unchanged pairs may alternate
    searched = random.Random(0).sample(keys, min(SEARCHED, len(keys)))
    own_references = {key: references[key] for key in searched}
    candidates = sorted(set(chain.from_iterable(own_references.values())), key=rank)[:CANDIDATES]
    cider = CiderD(dict.fromkeys(searched, candidates[0]), own_references, counted({}, own_references))
    scores = dict(zip(candidates, cider.of_constants(candidates), strict=True))
    return max(candidates, key=scores.__getitem__)


def lead(scores: np.ndarray, constant: np.ndarray) -> dict[str, float]:
    """Return the mean lead in CIDEr-D over the constant caption, and half its 95 % interval, or {}."""
    if len(scores) < LEAST_PAIRS:
        return {}
    leads = scores - constant
    return {LEAD: float(leads.mean()), MARGIN: float(1.96 * leads.std(ddof=1) / np.sqrt(len(leads)))}


def warnings(metrics: Mapping[str, Any]) -> list[str]:
    """Return a list with a warning if the captions are not better than the best constant caption; else [].

    `metrics` is the content of a metrics.json. The changed pairs decide, if they are known: one sentence is
    right for all unchanged pairs.
    """
    key = BEST_CHANGED if BEST_CHANGED in metrics else BEST
    constant = metrics.get(key, {})
    if LEAD not in constant or constant[LEAD] > constant[MARGIN]:
        return []
    among = "among the changed pairs, " if key == BEST_CHANGED else ""
    lead, margin = 100 * constant[LEAD], 100 * constant[MARGIN]
    where = f"{'below' if lead < -margin else 'within noise of'} the best constant caption"
    return [f"{among}the captions are {where}: CIDEr-D {lead:+.1f} ± {margin:.1f}"]


def most_frequent(pairs: Sequence[Pair], count: int) -> list[str]:
    """Return the most frequent captions in single spaces; ties are in alphabetical order."""
    counts = Counter(one_line(text) for pair in pairs for text in pair.captions if text.strip())
    return sorted(counts, key=lambda text: (-counts[text], text))[:count]
