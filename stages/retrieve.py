"""retrieve@dataset-model-seed: how well the adapted model finds pairs by sentences and the other way."""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from models.clip4idc import Retrieval
from pipeline import vocabularies
from pipeline.compute import devices
from pipeline.datasets.schema import SPLITS, Pair, of_split, read_pairs
from pipeline.errors import InputError
from pipeline.features.object_storage import STORES, store_of
from pipeline.features.store import FeatureStore
from pipeline.outputs import file_to_write, write_json, write_text
from pipeline.recipes import trained_model
from pipeline.scoring.retrieval import Ranks, figures, ranks, retrievable, similarities
from stages import run

BATCH = 256  # pairs at once
EXAMPLES, FOUND = 4, 3  # sentences, and the pairs shown for each


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--adapted", type=Path, required=True, help="the folder that the adaptation wrote")
    parser.add_argument("--pairs", type=Path, required=True)
    parser.add_argument("--vocab", type=Path, required=True)
    parser.add_argument("--features", required=True, help=STORES)
    parser.add_argument("--split", choices=SPLITS, default="test")
    parser.add_argument("--ties", choices=("strict", "all_ties"), default="strict")
    parser.add_argument("--out", type=file_to_write, required=True, help="retrieval.json to write")
    parser.add_argument(
        "--per-pair", type=file_to_write, required=True, help="retrieved.jsonl, a line a pair, to write"
    )
    arguments = parser.parse_args()
    devices.repeatable()
    model, trained = trained_model.load_first(arguments.adapted, "clip4idc")
    assert isinstance(model, Retrieval)  # the phase before of a model of that name
    vocabulary = vocabularies.load(arguments.vocab)
    trained.check_vocabulary(vocabulary)
    store = FeatureStore(store_of(arguments.features, trained.recipe.input), expected=trained.recipe.features)
    if not (pairs := retrievable(of_split(read_pairs(arguments.pairs), arguments.split))):
        raise InputError(
            f"{arguments.pairs} has no pair of the split {arguments.split} where something changed; "
            "choose another split"
        )
    similarity = similarities(model.to(devices.device()), pairs, store, vocabulary, BATCH).numpy()
    ranked = ranks(similarity, [pair.captions for pair in pairs])
    found = figures(ranked, arguments.ties)
    write_text(arguments.per_pair, "".join(f"{json.dumps(line)}\n" for line in lines(pairs, ranked)))
    write_json(arguments.out, found | {"examples": examples(pairs, similarity)})
    shown = found["text_to_pair"]
    print(f"text to pair: R@1 {shown['R@1']:.3f}, R@5 {shown['R@5']:.3f}; of {len(pairs)} pairs")


def lines(pairs: list[Pair], ranked: Ranks) -> Iterator[dict[str, Any]]:
    """Of each pair the ranks of its sentences' search, and of its own; what a bootstrap resamples."""
    each = iter(ranked.text_to_pair.tolist())
    for pair, own in zip(pairs, ranked.pair_to_text.tolist(), strict=True):
        by_sentence = [next(each) for _ in pair.captions]
        yield {"pair_id": pair.pair_id, "text_to_pair": by_sentence, "pair_to_text": own}


def examples(pairs: list[Pair], similarity: np.ndarray) -> list[dict[str, Any]]:
    """The first sentence of pairs spread over the split, and the pairs that it finds, most alike first."""
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


if __name__ == "__main__":
    run(main)
