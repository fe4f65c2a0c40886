"""The score that chooses a snapshot: CIDEr-D of greedy captions on the validation split."""

from collections.abc import Sequence

from models.captioner import Captioner
from pipeline.datasets.schema import Pair
from pipeline.decoding.greedy import captions
from pipeline.features.store import FeatureStore
from pipeline.scoring.metrics import cider_d
from pipeline.scoring.tokenizer import tokenize
from pipeline.vocabularies import Vocabulary

BATCH = 256  # pairs decoded at once


class Validation:
    """Call it with a model: CIDEr-D (a fraction) over all pairs, references tokenised once."""

    def __init__(self, pairs: Sequence[Pair], store: FeatureStore, vocabulary: Vocabulary):
        self.pairs, self.store, self.vocabulary = pairs, store, vocabulary
        sentences = iter(tokenize([caption for pair in pairs for caption in pair.captions]))
        self.references = {pair.pair_id: [next(sentences) for _ in pair.captions] for pair in pairs}

    def __call__(self, model: Captioner) -> float:
        found = captions(model, self.pairs, self.store, self.vocabulary, BATCH)
        tokenised = dict(zip(found, tokenize(list(found.values())), strict=True))
        return cider_d(tokenised, self.references)
