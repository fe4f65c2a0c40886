"""Run the phases of a stage: the command-line arguments, the processes, and the files that a phase writes."""

import argparse
import csv
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from models import entry_of
from pipeline.cli import phase_checks
from pipeline.cli.arguments import SEEDS, address_to_read, to_read, whole
from pipeline.compute import devices, memory, process_group
from pipeline.compute.process_group import Ranks, joined
from pipeline.config import params
from pipeline.config.recipe_file import Recipe
from pipeline.datasets import schema
from pipeline.datasets.schema import images_of, of_split, read_pairs
from pipeline.features.memory_cache import feature_source
from pipeline.features.object_storage import STORES
from pipeline.io import provenance, source_code
from pipeline.io.content_hashes import file_hash
from pipeline.io.errors import printable
from pipeline.io.folder_records import RECORD
from pipeline.io.inputs import read_json
from pipeline.io.outputs import Contents, file_to_write, replacing
from pipeline.io.scratch_folders import clear, output_lock
from pipeline.text import vocabularies
from pipeline.training import compiling, live_curves
from pipeline.training.kinds import with_kinds
from pipeline.training.live_curves import LiveCurves
from pipeline.training.loop import Training, seed_all
from pipeline.training.phases import Phase, PhaseInputs, phase_of
from pipeline.training.resuming import History
from pipeline.training.validation import Validator
from pipeline.weights import imported_weights, trained_model
from pipeline.weights.model_description import Trained

LOSS, VALIDATION = "loss.csv", "validation.csv"
CURVES = Contents("curves")
NO_CURVES: Mapping[str, Path] = MappingProxyType({})
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


def run_phases(
    stage: str,
    arguments: argparse.Namespace,
    recipe: Recipe,
    inputs: Mapping[str, PhaseInputs],
    start: Path | None = None,
    measure: Measure | None = None,
) -> None:
    """Run phases of a recipe in their order. Each starts from the weights of the phase before it.

    The recipe's last phase writes the outputs of the stage. The others write to scratch folders, unless they
    are finished.

    inputs: name of each phase to run -> its inputs
    start: folder of the weights from which the first of these phases starts
    measure: function that evaluates the last phase's weights, and writes to the folder of the curves
    """
    check = partial(phase_checks.check, arguments, recipe, next(iter(inputs)), start)
    curves: dict[str, Path] = {}  # phase -> folder of its curves
    for name, given in inputs.items():
        phase = phase_of(recipe.until(name), replace(given, start=start))
        own = argparse.Namespace(**{**vars(arguments), **given.data})
        if name == recipe.last:
            run_phase(stage, own, phase, arguments.weights, check, curves, measure)
            return
        own = in_scratch(stage, own, phase)
        if not own.curves.exists():  # the curves are written last
            run_phase(stage, own, phase, arguments.weights, check)
        start, curves[name] = own.weights, own.curves


def in_scratch(stage: str, arguments: argparse.Namespace, phase: Phase) -> argparse.Namespace:
    """Return the arguments with scratch folders as outputs, for a phase that is not the stage's last."""
    name, store = phase.recipe.last, phase_checks.feature_store(arguments, phase.recipe)
    inputs = (*input_hashes(arguments, phase), *phase.keys, str(arguments.seed), devices.identity())
    weights, curves = (
        provenance.scratch(stage, arguments.weights, name, kind, store.record, *inputs)
        for kind in ("weights", "curves")
    )
    live = arguments.live and arguments.live.with_name(f"{arguments.live.name}-{name}")
    record = arguments.provenance.with_stem(f"{arguments.provenance.stem}-{name}")
    outputs = {"weights": weights, "curves": curves, "live": live, "provenance": record}
    return argparse.Namespace(**vars(arguments) | outputs)


def run_phase(
    stage: str,
    arguments: argparse.Namespace,
    phase: Phase,
    out: Path,
    check: Callable[[], None],
    earlier_curves: Mapping[str, Path] = NO_CURVES,
    measure: Measure | None = None,
) -> None:
    """Train a phase, with the number of processes in its settings.

    `out`: output of the stage, locked during the phase.
    `check`: checks the inputs of the stage, in every process. One process reports its error.
    `earlier_curves`: phase -> folder of its learning curves, which is copied next to those of this phase.
    """
    if "RANK" not in os.environ:
        count = process_group.processes(phase.settings)
        if count > 1:
            sys.exit(process_group.start(f"stages.{stage}", sys.argv[1:], count))
    process_group.end_with_starter()
    if not process_group.is_launched():  # before a wait for processes that nobody starts
        process_group.check_group(phase.settings, Ranks(*process_group.rank_and_world()))
    with joined() as ranks, output_lock(out, is_first=ranks.rank == 0):
        check()
        train(stage, arguments, phase, ranks, earlier_curves, measure)


def train(
    stage: str,
    arguments: argparse.Namespace,
    phase: Phase,
    ranks: Ranks,
    earlier_curves: Mapping[str, Path],
    measure: Measure | None,
) -> None:
    start, recipe = time.monotonic(), phase.recipe
    devices.repeatable()
    process_group.check_group(phase.settings, ranks)
    pairs = read_pairs(arguments.pairs)
    words = vocabularies.load(arguments.vocab)
    vocabulary = phase.cut(words)
    store = phase_checks.feature_store(arguments, recipe)
    is_first = ranks.rank == 0

    seed_all(arguments.seed, 0)
    with memory.enough(phase.settings["batch"], ranks.world):
        model = phase.make(store.shape, vocabulary)
        train_pairs = with_kinds(of_split(pairs, "train"), model.kinds)
        build = entry_of(recipe.model).build
        # a hand-written recipe may list other code
        code = json.dumps(source_code.of_model(recipe.model, build))
        keys = (str(arguments.seed), code, *phase.keys, devices.identity())
        inputs = input_hashes(arguments, phase)
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
    write(arguments, trained, history, earlier_curves, measure)
    facts = {"precision": str(training.dtype), "processes": ranks.world}
    provenance.write(stage, arguments.provenance, time.monotonic() - start, **facts)
    clear(arguments.weights)
    print(f"kept iteration {history.best_iteration}: validation {phase.metric} {history.best_score:.3f}")


def say_constant(validation: Validator) -> None:
    """Warn if the validation score is the same for every model, so that it cannot choose a snapshot."""
    if validation.constant:
        remedy = "the last snapshot is kept; add validation pairs, or set train.select to last or ROUGE-L"
        print(f"warning: {validation.constant}, so it selects nothing: {remedy}", file=sys.stderr)


def input_hashes(arguments: argparse.Namespace, phase: Phase) -> list[str]:
    """Return hashes of recipe, pairs, vocabulary, and the weights that the phase starts from, if any."""
    remedies = {
        arguments.recipe: phase_checks.REMEDY,
        arguments.pairs: schema.REMEDY,
        arguments.vocab: vocabularies.REMEDY,
    }
    if phase.inputs.start is not None:
        remedies[phase.inputs.start / trained_model.FILE] = trained_model.REMEDIES["pretrain"]
    return [file_hash(path, remedy) for path, remedy in remedies.items()]


def live_writer(folder: Path | None, phase: Phase) -> LiveCurves:
    """Return a writer of live learning curves. Without a folder, the writer writes nothing."""
    log = params.load().train.log if folder and Path("params.yaml").exists() else None
    return LiveCurves(folder, log or "dvclive", images=2 * phase.settings["batch"])


def write(
    arguments: argparse.Namespace,
    trained: Trained,
    history: History,
    earlier_curves: Mapping[str, Path],
    measure: Measure | None,
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
        for name, curves in earlier_curves.items():
            shutil.copytree(curves, temporary_folder / name, ignore=shutil.ignore_patterns(RECORD))
        if measure is not None:
            measure(arguments.weights, temporary_folder)


def write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write dictionaries as the rows of a CSV file; the columns are the keys of the first dictionary."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def use_imported(
    stage: str, arguments: argparse.Namespace, imported: Path, measure: Measure | None = None
) -> None:
    """Copy imported weights to the stage's outputs, instead of training.

    The learning curves of the import are copied, too. They are files with headers and without values.

    imported: the folder of the import
    measure: function that evaluates the weights, and adds its results to the folder of the curves

    Raises InputError if the weights do not fit the vocabulary or the feature store.
    """
    start = time.monotonic()
    _, trained = trained_model.load(imported / imported_weights.WEIGHTS, stage)
    phase_checks.check_fits(trained, arguments)
    if process_group.rank_and_world()[0]:
        return  # only the first process writes
    source = read_json(imported / imported_weights.SOURCE, imported_weights.AGAIN)
    with (
        replacing(arguments.weights, trained_model.CONTENTS) as weights,
        replacing(arguments.curves, CURVES) as curves,
    ):
        shutil.copytree(imported / imported_weights.WEIGHTS, weights)
        shutil.copytree(imported / imported_weights.CURVES, curves)
        if measure is not None:
            measure(weights, curves)
    provenance.write(stage, arguments.provenance, time.monotonic() - start, **source)
    print(f"no training: the weights in {imported} are imported from {source['checkpoint']}")
