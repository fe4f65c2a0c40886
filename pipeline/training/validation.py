"""The score that chooses a snapshot: CIDEr-D of greedy captions on the validation split."""

from collections.abc import Callable, Sequence

from models.captioner import Captioner
from pipeline.datasets.schema import Pair
from pipeline.decoding.greedy import captions
from pipeline.features.store import FeatureStore
from pipeline.scoring.metrics import cider_d
from pipeline.vocabularies import Vocabulary

BATCH = 256  # pairs decoded at once


class Validation:
    """Call it with a model: CIDEr-D (a fraction) over all pairs, references tokenised once.

    `tokenize`: sentences -> their tokens, joined by one space (pipeline/scoring/tokenizer.py).
    """

    def __init__(
        self,
        pairs: Sequence[Pair],
        store: FeatureStore,
        vocabulary: Vocabulary,
        tokenize: Callable[[list[str]], list[str]],
    ):
        self.pairs, self.store, self.vocabulary, self.tokenize = pairs, store, vocabulary, tokenize
        sentences = iter(self.tokenize([caption for pair in pairs for caption in pair.captions]))
        self.references = {pair.pair_id: [next(sentences) for _ in pair.captions] for pair in pairs}

    def __call__(self, model: Captioner) -> float:
        found = captions(model, self.pairs, self.store, self.vocabulary, BATCH)
        tokenised = dict(zip(found, self.tokenize(list(found.values())), strict=True))
        return cider_d(tokenised, self.references)
