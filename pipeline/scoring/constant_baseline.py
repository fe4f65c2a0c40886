"""The constant baseline: the same caption for every pair, whatever the images show.

The caption is chosen among the most frequent training captions, by its CIDEr-D on the validation split.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import chain

from pipeline.datasets.schema import Pair, of_split
from pipeline.io.errors import InputError
from pipeline.scoring.metrics import CiderD, counted
from pipeline.scoring.tokenizer import OF_SCORES, one_line


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


def most_frequent(pairs: Sequence[Pair], count: int) -> list[str]:
    """Return the `count` most frequent captions, with single spaces between words.

    Captions that are equally frequent are in alphabetical order.
    """
    counts = Counter(one_line(text) for pair in pairs for text in pair.captions if text.strip())
    return sorted(counts, key=lambda text: (-counts[text], text))[:count]
