"""train@dataset-model-seed: train a recipe with a seed; keep the best snapshot and the learning curves."""

import argparse
import csv
import time
from pathlib import Path
from typing import Any

from pipeline import devices, provenance, recipes, text, weights
from pipeline.batches import Sampler
from pipeline.datasets.schema import images_of, of_split, read_pairs
from pipeline.outputs import remove, replacing
from pipeline.resident import held
from pipeline.store import FeatureStore
from pipeline.training import Training, seed_all
from pipeline.validation import Validation
from stages import run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recipe", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--pairs", type=Path, required=True)
    parser.add_argument("--vocab", type=Path, required=True)
    parser.add_argument("--features", required=True, help="the store: a folder, or an address (http, s3, gs)")
    parser.add_argument("--weights", type=Path, required=True, help="the folder to write")
    parser.add_argument(
        "--curves", type=Path, required=True, help="the folder of loss.csv and validation.csv"
    )
    parser.add_argument("--provenance", type=Path, required=True)
    train(parser.parse_args())


def train(arguments: argparse.Namespace) -> None:
    start = time.monotonic()
    devices.repeatable()
    recipe = recipes.load(arguments.recipe)
    pairs, vocabulary = read_pairs(arguments.pairs), text.load(arguments.vocab)
    store = FeatureStore(arguments.features, expected=recipe.features)
    inputs = [path.read_bytes() for path in (arguments.recipe, arguments.pairs, arguments.vocab)]
    scratch = provenance.scratch("train", *inputs, store.record, str(arguments.seed))

    seed_all(arguments.seed, 0)
    model = recipes.build(recipe, recipe.sizes_for(store.shape, len(vocabulary), vocabulary.longest))
    validation = Validation(of_split(pairs, "val"), store, vocabulary)
    training = Training(model, recipe, arguments.seed, scratch / "state.pt", validation)
    settings = recipe.train
    own = of_split(pairs, "train")
    sampler = Sampler(own, settings["batch"], arguments.seed, settings["exchange"])
    history = training.run(
        sampler, held(store, images_of(own), settings["cache"], training.device), vocabulary
    )

    trained = weights.Trained(
        recipe,
        arguments.seed,
        store.shape,
        len(vocabulary),
        vocabulary.longest,
        history.best_iteration,
        history.best_score,
    )
    with replacing(arguments.weights) as beside:
        weights.save(beside, trained, history.best)
    with replacing(arguments.curves) as beside:
        beside.mkdir()
        write_csv(beside / "loss.csv", history.losses)
        write_csv(beside / "validation.csv", history.validation)
    provenance.write(arguments.provenance, time.monotonic() - start, precision=str(training.dtype))
    remove(scratch)
    print(f"kept iteration {history.best_iteration}: validation CIDEr-D {history.best_score:.3f}")


def write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    """One row a dictionary, columns in its order."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    run(main)
