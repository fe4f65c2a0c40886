"""The score that chooses a snapshot on the validation split: CIDEr-D of captions, or retrieval's R@1."""

from collections.abc import Callable, Sequence

from models.captioner import Captioner
from models.clip4idc import Retrieval
from pipeline.datasets.schema import Pair
from pipeline.decoding.greedy import captions
from pipeline.decoding.retrieval_vectors import retrievable, similarities
from pipeline.features.store import FeatureStore
from pipeline.scoring.metrics import cider_d
from pipeline.scoring.retrieval import ranks
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


class RetrievalValidation:
    """Call it with an adapting model: the share of sentences whose own pair is the most alike of all."""

    def __init__(self, pairs: Sequence[Pair], store: FeatureStore, vocabulary: Vocabulary):
        self.pairs, self.store, self.vocabulary = retrievable(pairs), store, vocabulary

    def __call__(self, model: Retrieval) -> float:
        found = similarities(model, self.pairs, self.store, self.vocabulary, BATCH).numpy()
        return float((ranks(found, [pair.captions for pair in self.pairs]).text_to_pair <= 1).mean())
