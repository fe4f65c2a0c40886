"""What an adapted model makes of pairs and of sentences: vectors of one space, to be compared."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from models.clip4idc import Retrieval
from pipeline.datasets.schema import NO_CHANGE, Pair
from pipeline.features.store import FeatureStore, feature_batches
from pipeline.vocabularies import Vocabulary, pad


def retrievable(pairs: Sequence[Pair]) -> list[Pair]:
    """The pairs that sentences are to find: those where something changed, or nobody said."""
    return [pair for pair in pairs if pair.change_type != NO_CHANGE]


@torch.inference_mode()
def similarities(
    model: Retrieval, pairs: Sequence[Pair], store: FeatureStore, vocabulary: Vocabulary, batch: int
) -> Tensor:
    """cos(g, v) of every sentence of the pairs, in order, with every pair: sentences x pairs, float32."""
    training = model.training
    model.eval()
    device = next(model.parameters()).device
    vectors = []
    for before, after in feature_batches(pairs, store, batch):
        encoded = (model.encoding(images.to(device).float()) for images in (before, after))
        vectors.append(model.pairs(*encoded))
    texts = [caption for pair in pairs for caption in pair.captions]
    parts = [texts[start : start + batch] for start in range(0, len(texts), batch)]
    tokens = (torch.from_numpy(pad([vocabulary.encode(text) for text in part])).to(device) for part in parts)
    sentences = [model.sentences(part) for part in tokens]
    model.train(training)
    v, g = (F.normalize(torch.cat(found), dim=-1) for found in (vectors, sentences))
    return (g @ v.T).cpu()
