"""decode@dataset-model-seed: greedy captions of the test pairs, in the COCO results form."""

import argparse
from pathlib import Path

from pipeline import devices, params, text, weights
from pipeline.datasets.schema import SPLITS, of_split, read_pairs
from pipeline.decoding import captions
from pipeline.outputs import write_json
from pipeline.store import FeatureStore
from stages import run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weights", type=Path, required=True, help="the folder that training wrote")
    parser.add_argument("--pairs", type=Path, required=True)
    parser.add_argument("--vocab", type=Path, required=True)
    parser.add_argument("--features", type=Path, required=True)
    parser.add_argument("--split", choices=SPLITS, default="test")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    devices.repeatable()
    model, trained = weights.load(arguments.weights)
    vocabulary = text.load(arguments.vocab)
    trained.check_vocabulary(vocabulary)
    store = FeatureStore(arguments.features, expected=trained.recipe.features)
    pairs = of_split(read_pairs(arguments.pairs), arguments.split)
    found = captions(
        model.to(devices.device()), pairs, store, vocabulary, params.load().decode.batch, shown=True
    )
    write_json(arguments.out, [{"image_id": pair, "caption": caption} for pair, caption in found.items()])


if __name__ == "__main__":
    run(main)
