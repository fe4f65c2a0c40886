"""train@dataset-model-seed: train a recipe with a seed; keep the best snapshot and the learning curves.

Where the recipe says train.processes: n, this program starts as many of itself, which share every batch;
under torchrun --nproc-per-node n -m stages.train ... it is one of those.
"""

import argparse
import csv
import os
import sys
import time
from pathlib import Path
from typing import Any

from pipeline import provenance, vocabularies
from pipeline.compute import devices, launch, memory
from pipeline.compute.process_group import Ranks, joined
from pipeline.datasets.schema import images_of, of_split, read_pairs
from pipeline.features.memory_cache import held, planned
from pipeline.features.store import FeatureStore
from pipeline.outputs import clear, replacing
from pipeline.recipes import recipe_file, trained_model
from pipeline.recipes.recipe_file import Recipe
from pipeline.scoring import tokenizer
from pipeline.training import compiling, memory_planning
from pipeline.training.loop import Training, seed_all
from pipeline.training.resuming import History
from pipeline.training.sampling import Sampler
from pipeline.training.validation import Validation
from stages import run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
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
    parser.add_argument(
        "--tokens",
        choices=tokenizer.TOKENIZERS,
        default="ptb",
        help="of validation: ptb, as scores have (default) | plain: lower-case words only, needs no Java",
    )
    arguments = parser.parse_args()
    if "RANK" not in os.environ:
        count = launch.processes(recipe_file.load(arguments.recipe).train)
        if count > 1:
            sys.exit(launch.start("stages.train", sys.argv[1:], count))
    launch.end_with_starter()
    with joined() as ranks:
        train(arguments, ranks)


def train(arguments: argparse.Namespace, ranks: Ranks) -> None:
    start = time.monotonic()
    devices.repeatable()
    recipe = recipe_file.load(arguments.recipe)
    launch.check_group(recipe.train, ranks)
    pairs, vocabulary = read_pairs(arguments.pairs), vocabularies.load(arguments.vocab)
    store = FeatureStore(arguments.features, expected=recipe.features)
    inputs = [path.read_bytes() for path in (arguments.recipe, arguments.pairs, arguments.vocab)]
    keys = store.record, str(arguments.seed), arguments.tokens
    scratch = provenance.scratch(arguments.weights, *inputs, *keys)

    seed_all(arguments.seed, 0)
    model = recipe_file.build(recipe, recipe.sizes_for(store.shape, len(vocabulary), vocabulary.longest))
    tokenize, val = tokenizer.TOKENIZERS[arguments.tokens], of_split(pairs, "val")
    validation = Validation(val, store, vocabulary, tokenize) if ranks.rank == 0 else None
    training = Training(model, recipe, arguments.seed, scratch / "state.pt", validation, ranks)
    own = of_split(pairs, "train")
    settings = recipe.train
    sampler = Sampler(own, settings["batch"], arguments.seed, settings["exchange"], settings["references"])
    check_memory(training, sampler, store, images_of(own))
    training.compile(compiling.backend(settings["compile"], training.device))
    source = held(store, images_of(own), settings["cache"], training.device)
    history = training.run(sampler, source, vocabulary)
    if ranks.rank == 0:
        write(arguments, recipe, store, vocabulary, history)
        seconds = time.monotonic() - start
        provenance.write(arguments.provenance, seconds, precision=str(training.dtype), processes=ranks.world)
        clear(arguments.weights)
        print(f"kept iteration {history.best_iteration}: validation CIDEr-D {history.best_score:.3f}")


def check_memory(training: Training, sampler: Sampler, store: FeatureStore, images: list[str]) -> None:
    """Refuse what does not fit before anything is read or written."""
    settings, device, world = training.recipe.train, training.device, training.ranks.world
    features = planned(store, images, settings["cache"], device, world)
    scene = memory_planning.scene_of(sampler.scenes, sampler.references)
    needed = memory_planning.demand(training.model, scene, device, training.dtype, features)
    free = memory.free(device)
    memory_planning.check(memory_planning.together(needed, world, device), settings["batch"], free, world)
    training.ranks.wait()  # nobody takes memory before all have seen what is free


def write(
    arguments: argparse.Namespace,
    recipe: Recipe,
    store: FeatureStore,
    vocabulary: vocabularies.Vocabulary,
    history: History,
) -> None:
    trained = trained_model.Trained(
        recipe,
        arguments.seed,
        store.shape,
        len(vocabulary),
        vocabulary.longest,
        history.best_iteration,
        history.best_score,
    )
    with replacing(arguments.weights) as beside:
        trained_model.save(beside, trained, history.best)
    with replacing(arguments.curves) as beside:
        beside.mkdir()
        write_csv(beside / "loss.csv", history.losses)
        write_csv(beside / "validation.csv", history.validation)


def write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    """One row a dictionary, columns in its order."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    run(main)
