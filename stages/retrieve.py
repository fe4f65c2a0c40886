"""retrieve@dataset-model-seed: how well what learnt to retrieve finds pairs by sentences, and sentences.

The folder is empty where nothing was pre-trained, before imported weights.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from models.common.trainable import Retrieves, Trainable
from pipeline.cli.arguments import address_to_read, parsed, to_read
from pipeline.compute import devices
from pipeline.datasets import manifest
from pipeline.datasets.manifest import read_pairs
from pipeline.datasets.schema import SPLITS, Pair, of_split
from pipeline.features.object_storage import STORES, store_of
from pipeline.features.store import FeatureStore
from pipeline.io import content_hashes
from pipeline.io.errors import InputError
from pipeline.io.outputs import Contents, replacing, write_json, write_text
from pipeline.scoring.retrieval import Ranks, figures, ranks, retrievable, similarities
from pipeline.text import vocabularies
from pipeline.weights import trained_model
from pipeline.weights.model_description import Trained
from stages import run

FIGURES, RANKS = "retrieval.json", "retrieved.jsonl"  # the second one of each pair
CONTENTS = Contents("retrieval")
BATCH = 256  # pairs at once
EXAMPLES, FOUND = 4, 3  # sentences, and the pairs shown for each


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--first", type=to_read, required=True, help="the folder that the stage pretrain wrote"
    )
    parser.add_argument("--pairs", type=to_read, required=True)
    parser.add_argument("--vocab", type=to_read, required=True)
    parser.add_argument("--features", type=address_to_read, required=True, help=STORES)
    parser.add_argument("--split", choices=SPLITS, default="test")
    parser.add_argument("--ties", choices=("strict", "all_ties"), default="strict")
    parser.add_argument("--out", type=CONTENTS.to_write, required=True, help="the folder to write")
    arguments = parsed(parser)
    model = trained_model.load_first(arguments.first) if trained_model.there(arguments.first) else None
    with replacing(arguments.out, CONTENTS) as folder:
        folder.mkdir()
        if model is not None and isinstance(model[0], Retrieves):
            retrieve(*model, arguments, folder)
        else:
            print("it did not learn to retrieve: nothing to do")


def retrieve(model: Trainable, trained: Trained, arguments: argparse.Namespace, folder: Path) -> None:
    assert isinstance(model, Retrieves)
    devices.repeatable()
    vocabulary = vocabularies.load(arguments.vocab)
    trained.check_vocabulary(vocabulary, arguments.vocab)
    store = FeatureStore(store_of(arguments.features, trained.recipe.input), expected=trained.recipe.features)
    trained.check_store(store)
    manifest.check_images(arguments.pairs, store.location.name, store.images)
    if not (pairs := retrievable(of_split(read_pairs(arguments.pairs), arguments.split))):
        raise InputError(
            f"{arguments.pairs} has no pair of the split {arguments.split} where something changed; "
            "choose another split"
        )
    similarity = similarities(model.to(devices.device()), pairs, store, vocabulary, BATCH).numpy()
    ranked = ranks(similarity, [pair.captions for pair in pairs])
    found = figures(ranked, arguments.ties)
    write_text(folder / RANKS, "".join(f"{json.dumps(line)}\n" for line in lines(pairs, ranked)))
    hashes = {
        "weights": trained_model.sha256_of(arguments.first),
        "pairs": content_hashes.file_hash(arguments.pairs),
        "ranks": content_hashes.file_hash(folder / RANKS),
        "run": trained.run,
    }
    record = found | {"examples": examples(pairs, similarity)}
    write_json(folder / FIGURES, content_hashes.with_hashes(record, hashes))
    shown = found["text_to_pair"]
    print(f"text to pair: R@1 {shown['R@1']:.3f}, R@5 {shown['R@5']:.3f}; of {len(pairs)} pairs")


def lines(pairs: list[Pair], ranked: Ranks) -> Iterator[dict[str, Any]]:
    """Of each pair the ranks of its sentences' search, and of its own; what a bootstrap resamples."""
    each = iter(ranked.text_to_pair.tolist())
    for pair, own in zip(pairs, ranked.pair_to_text.tolist(), strict=True):
        by_sentence = [next(each) for _ in pair.captions]
        names = {"pair_id": pair.pair_id, "scene_id": pair.scene_id}
        yield names | {"text_to_pair": by_sentence, "pair_to_text": own}


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
