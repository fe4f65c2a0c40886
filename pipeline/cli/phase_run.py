"""Run one training phase: its command-line arguments, its processes, and the files that it writes."""

import argparse
import csv
import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from models import entry_of
from pipeline.cli.arguments import SEEDS, address_to_read, to_read, whole
from pipeline.compute import devices, memory, process_group
from pipeline.compute.process_group import Ranks, joined
from pipeline.config import params
from pipeline.config.recipe_file import Recipe
from pipeline.datasets.schema import images_of, of_split, read_pairs
from pipeline.features.memory_cache import feature_source
from pipeline.features.object_storage import STORES, store_of
from pipeline.features.store import FeatureStore
from pipeline.io import provenance, source_code
from pipeline.io.content_hashes import file_hash
from pipeline.io.errors import printable
from pipeline.io.folder_records import RECORD
from pipeline.io.outputs import Contents, file_to_write, replacing
from pipeline.io.scratch_folders import clear, output_lock
from pipeline.text import vocabularies
from pipeline.training import compiling, live_curves
from pipeline.training.kinds import with_kinds
from pipeline.training.live_curves import LiveCurves
from pipeline.training.loop import Training, seed_all
from pipeline.training.phases import Phase
from pipeline.training.resuming import History
from pipeline.training.validation import Validator
from pipeline.weights import trained_model
from pipeline.weights.model_description import Trained

TRAINED = "trained"  # name, in scratch folders and curves, of the phase before the reward phase
IMAGES = "images"  # folder in the pre-training curves, with the curves of pre-training on single images
LOSS, VALIDATION = "loss.csv", "validation.csv"
CURVES = Contents("curves")
Measure = Callable[[Path, Path], object]
"""Function that evaluates weights: (folder of the weights, folder to write to)."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command-line arguments that all training phases share."""
    add = parser.add_argument
    add("--recipe", type=to_read, required=True)
    add("--seed", type=whole(*SEEDS), required=True)
    add("--pairs", type=to_read, required=True)
    add("--vocab", type=to_read, required=True)
    add("--features", type=address_to_read, required=True, help=STORES)
    add("--weights", type=trained_model.CONTENTS.to_write, required=True, help="folder to write")
    add("--curves", type=CURVES.to_write, required=True, help="the folder of loss.csv and validation.csv")
    add("--provenance", type=file_to_write, required=True)
    add("--imported", type=to_read, help="the folder of the run's imported weights, if any")
    log = "the folder of live learning curves (train.log in params.yaml)"
    add("--live", type=live_curves.CONTENTS.to_write, help=log)


def run_phase(
    stage: str,
    arguments: argparse.Namespace,
    recipe: Recipe,
    phase: Phase,
    before: Path | None = None,
    out: Path | None = None,
    checks: Callable[[], None] | None = None,
    measure: Measure | None = None,
) -> None:
    """Train a phase, with the number of processes in its settings.

    `before`: the folder of the weights that the phase starts from.
    `out`: output of the stage, locked during the phase; None: `arguments.weights`.
    `checks`: function that checks the inputs, called in every process. One process reports its error.
    `measure`: function that evaluates the trained weights, and writes to the folder of the curves.
    """
    if "RANK" not in os.environ:
        count = process_group.processes(phase.settings)
        if count > 1:
            sys.exit(process_group.start(f"stages.{stage}", sys.argv[1:], count))
    process_group.end_with_starter()
    if not process_group.is_launched():  # before a wait for processes that nobody starts
        process_group.check_group(phase.settings, Ranks(*process_group.rank_and_world()))
    with joined() as ranks, output_lock(out or arguments.weights, is_first=ranks.rank == 0):
        if checks is not None:
            checks()
        train(stage, arguments, recipe, phase, before, ranks, measure)


def train(
    stage: str,
    arguments: argparse.Namespace,
    recipe: Recipe,
    phase: Phase,
    before: Path | None,
    ranks: Ranks,
    measure: Measure | None,
) -> None:
    start = time.monotonic()
    devices.repeatable()
    process_group.check_group(phase.settings, ranks)
    pairs = read_pairs(arguments.pairs)
    words = vocabularies.load(arguments.vocab)
    vocabulary = phase.cut(words)
    store = feature_store(arguments, recipe)
    is_first = ranks.rank == 0

    seed_all(arguments.seed, 0)
    with memory.enough(phase.settings["batch"], ranks.world):
        model = phase.make(store.shape, vocabulary)
        train_pairs = with_kinds(of_split(pairs, "train"), model.kinds)
        build = entry_of(recipe.model).build
        # a hand-written recipe may list other code
        code = json.dumps(source_code.of_model(recipe.model, build))
        keys = (str(arguments.seed), code, *phase.keys, devices.identity())
        inputs = input_contents(arguments, before)
        scratch = provenance.scratch(stage, arguments.weights, *inputs, store.record, *keys)
        validation = phase.validation(of_split(pairs, "val"), store, vocabulary) if is_first else None
        if validation:
            phase = phase.selecting_by(validation)
            say_constant(validation)
        live = live_writer(arguments.live if is_first else None, phase)
        objective = phase.objective(train_pairs, vocabulary) if phase.objective else None
        training = Training(
            model, recipe, arguments.seed, scratch / "state.pt", validation, ranks, phase, live, objective
        )
        compiler = compiling.backend(phase.settings["compile"], training.device)
        compiling.compile_pieces(model, compiler)
        source = feature_source(
            store, images_of(train_pairs), phase.settings["cache"], training.device, ranks
        )
        sampler = phase.sampler(train_pairs, arguments.seed)
        if is_first and sampler.note:
            print(f"note: {printable(sampler.note)}", file=sys.stderr)
        history = training.run(sampler, source, vocabulary)
        live.end()
    if not is_first:
        return
    hashes: dict[Any, str] = {"vocabulary": vocabularies.identity(words), **store.hashes}
    sizes = (store.shape, len(vocabulary), vocabulary.longest)
    trained = Trained(recipe, arguments.seed, *sizes, history.best_iteration, history.best_score, hashes)
    write(arguments, trained, history, phase, measure)
    facts = {"precision": str(training.dtype), "processes": ranks.world}
    provenance.write(stage, arguments.provenance, time.monotonic() - start, **facts)
    clear(arguments.weights)
    print(f"kept iteration {history.best_iteration}: validation {phase.metric} {history.best_score:.3f}")


def say_constant(validation: Validator) -> None:
    """Warn if the validation score is the same for every model, so that it cannot choose a snapshot."""
    if validation.constant:
        remedy = "the last snapshot is kept; add validation pairs, or set train.select to last or ROUGE-L"
        print(f"warning: {validation.constant}, so it selects nothing: {remedy}", file=sys.stderr)


def feature_store(arguments: argparse.Namespace, recipe: Recipe) -> FeatureStore:
    return FeatureStore(store_of(arguments.features, recipe.input), expected=recipe.features)


def input_contents(arguments: argparse.Namespace, before: Path | None) -> list[str | bytes]:
    """Return the contents of recipe, pairs and vocabulary, and a hash of the weights in `before`."""
    files = [path.read_bytes() for path in (arguments.recipe, arguments.pairs, arguments.vocab)]
    return [*files, file_hash(before / trained_model.FILE, trained_model.FIRST)] if before else [*files]


def live_writer(folder: Path | None, phase: Phase) -> LiveCurves:
    """Return a writer of live learning curves. Without a folder, the writer writes nothing."""
    log = params.load().train.log if folder and Path("params.yaml").exists() else None
    return LiveCurves(folder, log or "dvclive", images=2 * phase.settings["batch"])


def write(
    arguments: argparse.Namespace, trained: Trained, history: History, phase: Phase, measure: Measure | None
) -> None:
    """Write the weights, and the learning curves of this phase and of earlier phases.

    The folders are `arguments.weights` and `arguments.curves`. `measure` evaluates the written weights,
    and writes its results to the folder of the curves; None: no evaluation.
    """
    with replacing(arguments.weights, trained_model.CONTENTS) as temporary_folder:
        trained_model.save(temporary_folder, trained, history.best)
    with replacing(arguments.curves, CURVES) as temporary_folder:
        temporary_folder.mkdir()
        write_csv(temporary_folder / LOSS, history.losses)
        write_csv(temporary_folder / VALIDATION, history.validation)
        for name, curves in phase.others.curves.items():
            shutil.copytree(curves, temporary_folder / name, ignore=shutil.ignore_patterns(RECORD))
        if measure is not None:
            measure(arguments.weights, temporary_folder)


def write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write dictionaries as the rows of a CSV file; the columns are the keys of the first dictionary."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
