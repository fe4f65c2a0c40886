"""Evaluate a model's retrieval, and write figures, examples, and the ranks of each pair."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from models.common.trainable import Retrieves
from pipeline.compute import devices
from pipeline.datasets import manifest
from pipeline.datasets.schema import Pair, of_split
from pipeline.features.object_storage import store_of
from pipeline.features.store import FeatureStore
from pipeline.io import content_hashes
from pipeline.io.errors import InputError
from pipeline.io.outputs import write_json, write_text
from pipeline.scoring.retrieval import Ranks, Ties, figures, ranks, retrievable, similarities
from pipeline.text import vocabularies
from pipeline.weights import trained_model

FIGURES, RANKS = "retrieval.json", "retrieved.jsonl"
BATCH = 256  # pairs
EXAMPLES, FOUND = 4, 3  # number of example sentences, and of pairs shown for each sentence


def candidates(path: Path, split: str) -> list[Pair]:
    """Return the pairs of a split that can be retrieved. Raises InputError if there are none."""
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
    """Write FIGURES and RANKS. Return the figures, or None if the model does not learn retrieval.

    `weights`: the folder that pre-training wrote. `features`: the folder of the feature stores. Raises
    InputError if the split has no changed pair, or if an input does not match the weights.
    """
    model, trained = trained_model.load_first(weights)
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
    found = figures(ranked, ties)
    write_text(folder / RANKS, "".join(f"{json.dumps(line)}\n" for line in lines(searched, ranked)))
    hashes = {
        "weights": trained_model.sha256_of(weights),
        "pairs": content_hashes.file_hash(pairs),
        "ranks": content_hashes.file_hash(folder / RANKS),
        "run": trained.run,
    }
    record = found | {"examples": examples(searched, similarity)}
    write_json(folder / FIGURES, content_hashes.with_hashes(record, hashes))
    return found


def lines(pairs: list[Pair], ranked: Ranks) -> Iterator[dict[str, Any]]:
    """Yield a record per pair with the ranks of searches by its sentences, and of the search by the pair."""
    each = iter(ranked.text_to_pair.tolist())
    for pair, own in zip(pairs, ranked.pair_to_text.tolist(), strict=True):
        by_sentence = [next(each) for _ in pair.captions]
        names = {"pair_id": pair.pair_id, "scene_id": pair.scene_id}
        yield names | {"text_to_pair": by_sentence, "pair_to_text": own}


def examples(pairs: list[Pair], similarity: np.ndarray) -> list[dict[str, Any]]:
    """Return EXAMPLES searches by a pair's first sentence, each with the FOUND most similar pairs."""
    first = np.cumsum([0, *(len(pair.captions) for pair in pairs)])
    chosen = sorted({number * len(pairs) // EXAMPLES for number in range(EXAMPLES)})
    return [
        {
            "sentence": pairs[place].captions[0],
            "pair": pairs[place].pair_id,
            "found": [
                pairs[pair].pair_id
                for pair in np.argsort(-similarity[first[place]], kind="stable")[:FOUND].tolist()
            ],
        }
        for place in chosen
    ]
