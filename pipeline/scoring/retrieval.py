"""Retrieval of pairs by sentence and of sentences by pair (CLIP4IDC section 3.1 and Table 6).

Q: number of sentences; P: number of pairs. Ranks count from 1: a rank is 1 + the number of more similar
candidates + half the number of equally similar candidates. R@k is the share of ranks up to k. MdR is the
median of the ranks, MnR their mean.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from models.common.trainable import Retrieves
from pipeline.compute import devices
from pipeline.datasets import manifest
from pipeline.datasets.schema import NO_CHANGE, Pair, of_split
from pipeline.features.object_storage import store_of
from pipeline.features.store import FeatureStore, feature_batches
from pipeline.io import content_hashes
from pipeline.io.errors import InputError
from pipeline.io.outputs import write_json, write_text
from pipeline.text import vocabularies
from pipeline.text.vocabularies import Vocabulary, pad
from pipeline.weights import trained_model

KS = (1, 5, 10)
FIGURES, RANKS = "retrieval.json", "retrieved.jsonl"
BATCH = 256  # pairs
Ties = Literal["strict", "all_ties"]


def retrievable(pairs: Sequence[Pair]) -> list[Pair]:
    return [pair for pair in pairs if pair.change_type != NO_CHANGE]


@torch.inference_mode()
def similarities(
    model: Retrieves, pairs: Sequence[Pair], store: FeatureStore, vocabulary: Vocabulary, batch: int
) -> Tensor:
    """Return the cosine cos(g, v) of each sentence g with each pair v: (Q sentences, P pairs), float32.

    The rows are the sentences of the first pair, then of the second pair, and so on.
    """
    training = model.training
    model.eval()
    device = next(model.parameters()).device
    vectors = []
    for before, after in feature_batches(pairs, store, batch):
        encoded = (model.encoding(images.to(device).float()) for images in (before, after))
        vectors.append(model.pairs(*encoded))
    texts = [caption for pair in pairs for caption in pair.captions]
    batches = [texts[start : start + batch] for start in range(0, len(texts), batch)]
    tokens = (pad([vocabulary.encode(text) for text in texts]) for texts in batches)
    sentences = [model.sentences(torch.from_numpy(ids).to(device)) for ids in tokens]
    model.train(training)
    v, g = (F.normalize(torch.cat(parts), dim=-1) for parts in (vectors, sentences))
    return (g @ v.T).cpu()


@dataclass(frozen=True)
class RetrievalRanks:
    """Ranks of the right results when sentences search for pairs, and when pairs search for sentences."""

    text_to_pair: np.ndarray  # (Q,): rank of each sentence's own pair
    shared: np.ndarray  # (Q,): the same rank, if each pair with the identical sentence counts as a hit
    pair_to_text: np.ndarray  # (P,): rank of each pair's own sentences, by the best of them
    tied: np.ndarray  # (P,): number of other pairs whose best sentence is equally similar


def ranks(similarity: np.ndarray, sentences: Sequence[Sequence[str]]) -> RetrievalRanks:
    """Return the rank of the correct result in each search by a sentence and in each search by a pair.

    A search by a sentence ranks the P pairs. The correct result is the sentence's own pair. A search
    by a pair ranks P sentences: from each pair, the sentence that is most similar to the searching
    pair. The correct result is the sentence from the searching pair itself.

    similarity: similarity of each sentence with each pair, (Q, P)
    sentences: the sentences of each pair, in the order of the rows of `similarity`
    """
    owners = np.repeat(np.arange(len(sentences)), [len(texts) for texts in sentences])
    right = similarity[np.arange(len(owners)), owners]
    # row n: similarity of each pair with the most similar sentence of pair n, (P, P)
    best = np.stack([similarity[owners == pair].max(0) for pair in range(len(sentences))])
    right_best = best.diagonal()
    tied = (best == right_best).sum(0) - 1
    return RetrievalRanks(
        _rank(similarity, right[:, None], 1),
        _rank(similarity, _shared(similarity, sentences)[:, None], 1),
        _rank(best, right_best[None], 0),
        tied,
    )


def _rank(similarity: np.ndarray, right: np.ndarray, axis: int) -> np.ndarray:
    """Return each search's rank of the correct candidate along `axis`; ties share the mean rank."""
    return 1 + (similarity > right).sum(axis) + ((similarity == right).sum(axis) - 1) / 2


def _shared(similarity: np.ndarray, sentences: Sequence[Sequence[str]]) -> np.ndarray:
    """Return each sentence's highest similarity with the pairs that have its text: (Q, pairs) -> (Q,)."""
    pairs_of: defaultdict[str, list[int]] = defaultdict(list)
    for pair, texts in enumerate(sentences):
        for text in set(texts):
            pairs_of[text].append(pair)
    return np.array([similarity[row, pairs_of[text]].max() for row, text in enumerate(chain(*sentences))])


def figures(ranks: RetrievalRanks, ties: Ties = "strict") -> dict[str, Any]:
    """Return R@k, MdR and MnR of searches by sentences and of searches by pairs, and their chance values.

    If `ties` is "all_ties", two details are computed as in CLIP4IDC's released program:

    - If n wrong candidates of a search by a pair are as similar as the right one, R@k, MdR and MnR are
      computed from n + 1 ranks of this search, instead of their mean. For example, if one wrong candidate
      is equally similar and none is more similar, the ranks are 1 and 2, instead of 1.5.
    - The median of an even number of searches by sentences is the lower of the two middle ranks.
    """
    pair_to_text, median_method = ranks.pair_to_text, "median_unbiased"
    if ties == "all_ties":
        first_ranks = pair_to_text - ranks.tied / 2
        pair_to_text = np.concatenate(
            [first + np.arange(tied + 1) for first, tied in zip(first_ranks, ranks.tied, strict=True)]
        )
        median_method = "lower"
    pairs = len(ranks.tied)
    return {
        "ties": ties,
        "pairs": pairs,
        "sentences": len(ranks.text_to_pair),
        "text_to_pair": _figures(ranks.text_to_pair, median_method),
        "text_to_pair_shared": _figures(ranks.shared, median_method),
        "pair_to_text": _figures(pair_to_text, "median_unbiased"),
        "chance": {f"R@{k}": min(k, pairs) / pairs for k in KS}
        | {"MdR": (pairs + 1) / 2, "MnR": (pairs + 1) / 2},
    }


def _figures(ranks: np.ndarray, median_method: Any) -> dict[str, float]:
    shares = {f"R@{k}": float((ranks <= k).mean()) for k in KS}
    return shares | {"MdR": float(np.quantile(ranks, 0.5, method=median_method)), "MnR": float(ranks.mean())}


def candidates(path: Path, split: str) -> list[Pair]:
    """Return the pairs of a split, at least one, that retrieval ranks: all but unchanged ones."""
    if pairs := retrievable(of_split(manifest.read_pairs(path), split)):
        return pairs
    raise InputError(f"{path} has no pair of the split {split} where something changed; choose another split")


def write(
    folder: Path,
    weights: Path,
    pairs: Path,
    vocab: Path,
    features: str,
    split: str = "test",
    ties: Ties = "strict",
) -> dict[str, Any] | None:
    """Test the retrieval of pairs by sentence, and of sentences by pair, with a pre-trained model.

    The scores, such as R@k, are returned and written to the file FIGURES in `folder`. The ranks are
    written to the file RANKS. `weights` is the folder that pre-training wrote. `features` is the folder
    of the feature stores. `ties` sets how the scores, but not the file RANKS, treat equally similar
    candidates. "strict" counts half of them as more similar. "all_ties" follows CLIP4IDC's released
    program (see `figures`). Returns None if the model does not learn retrieval. Raises InputError if
    the split has no changed pair, or if an input does not match the weights.
    """
    model, trained = trained_model.load(weights, "pretrain")
    if not isinstance(model, Retrieves):
        return None
    devices.repeatable()
    vocabulary = vocabularies.load(vocab)
    trained.check_vocabulary(vocabulary, vocab)
    store = FeatureStore(store_of(features, trained.recipe.input), expected=trained.recipe.features)
    trained.check_store(store)
    manifest.check_images(pairs, store.location.name, store.images)
    searched = candidates(pairs, split)
    similarity = similarities(model.to(devices.device()), searched, store, vocabulary, BATCH).numpy()
    ranked = ranks(similarity, [pair.captions for pair in searched])
    record = figures(ranked, ties)
    write_text(folder / RANKS, "".join(f"{json.dumps(line)}\n" for line in lines(searched, ranked)))
    hashes = {
        "weights": content_hashes.file_hash(weights / trained_model.FILE),
        "pairs": content_hashes.file_hash(pairs),
        "ranks": content_hashes.file_hash(folder / RANKS),
        "run": trained.run,
    }
    write_json(folder / FIGURES, content_hashes.with_hashes(record, hashes))
    return record


def lines(pairs: list[Pair], ranked: RetrievalRanks) -> Iterator[dict[str, Any]]:
    """Yield a pair's ranks: of the pair for each sentence, and of its best sentence for the pair."""
    sentence_ranks = iter(ranked.text_to_pair.tolist())
    for pair, pair_rank in zip(pairs, ranked.pair_to_text.tolist(), strict=True):
        by_sentence = [next(sentence_ranks) for _ in pair.captions]
        names = {"pair_id": pair.pair_id, "scene_id": pair.scene_id}
        yield names | {"text_to_pair": by_sentence, "pair_to_text": pair_rank}
