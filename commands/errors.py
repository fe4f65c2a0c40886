"""Count the false parts of captions: kind of change, colour, material, shape, size, relation, new value.

python -m commands.errors                                   the published records (results/records)
python -m commands.errors --own                             your own records (results/own/records)
python -m commands.errors results/runs/tabletop/*/1        finished runs, by their folders or pairs.jsonl
python -m commands.errors captions.json --pairs data/pairs/tabletop.jsonl
                                                          captions of the test pairs, from any program
Numbers are percent of the changed pairs. In the table, a caption counts once for each of its false parts. In
the figure, each false caption counts once: its count is divided equally among its false parts.
"""

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from commands import run
from pipeline.cli.arguments import new_parser, pairs_of, parsed, to_read, word
from pipeline.config import params
from pipeline.config.params import read_tree
from pipeline.io.errors import InputError, printable
from pipeline.io.outputs import file_to_write, write_text
from pipeline.judging.strict import judge
from pipeline.judging.verdicts import UNPARSED
from pipeline.reporting.figures import svg_file
from pipeline.reporting.tables import Table, show
from pipeline.results import false_words, own_records, record_tables, records
from pipeline.results.false_words import Faults
from pipeline.results.record_tables import Records
from pipeline.results.results_figures import draw_faults, of_bars
from pipeline.scoring import results
from pipeline.scoring.caption_files import read_results
from pipeline.statistics.pair_scores import read_pairs


def main() -> None:
    parser = new_parser("python -m commands.errors", __doc__)
    add = parser.add_argument
    add("runs", nargs="*", type=to_read, help="finished runs (default: all records)")
    add("--pairs", type=to_read, help="prepared pairs; the other files are then captions in COCO's format")
    add("--key", type=word, help="key or column of the captions, if there are several (such as prediction)")
    add("--figure", type=file_to_write, help="an SVG file to write: the stacked bars")
    add("--own", action="store_true", help="read your own records, if no run is named")
    arguments = parsed(parser)
    if arguments.pairs and not arguments.runs:
        raise InputError("--pairs needs a file of captions; name it")
    if arguments.pairs:
        faults = [_faults_of_captions(path, arguments.pairs, arguments.key) for path in arguments.runs]
    else:
        faults = [_faults_of_run(path) for path in arguments.runs] or _faults_of_records(arguments.own)
    if arguments.figure:
        drawing = svg_file(partial(draw_faults, faults), of_bars(len(faults)))
        write_text(arguments.figure, drawing)
    show([Table("", false_words.HEADINGS, [false_words.row(run_faults) for run_faults in faults])])


def _faults_of_records(own: bool) -> list[Faults]:
    tree = read_tree(Path("params.yaml"))
    datasets: list[Records] = []
    for dataset in params.load().tabletop.viewpoint:
        if own:
            datasets.append(own_records.read(Path(), tree, dataset)[0])
        else:
            datasets.append(record_tables.read(Path(), dataset))
    known = [dataset for dataset in datasets if len(dataset)]
    if not known:
        missing = f"record of this params.yaml in {records.OWN}" if own else f"record in {records.FOLDER}"
        raise InputError(f"there is no {missing}; run a study, or name finished runs")
    several = len(known) > 1
    return [
        false_words.of_group(group, dataset.dataset * several)
        for dataset in known
        for group in dataset.groups
    ]


def _faults_of_run(path: Path) -> Faults:
    file = path / "pairs.jsonl" if path.is_dir() else path
    lines = read_pairs(file)
    unreadable_ids = [line.pair_id for line in lines if line.faults == UNPARSED]
    _warn_of_unreadable(unreadable_ids, {line.pair_id: line.caption for line in lines})
    if any(line.faults is None for line in lines):
        raise InputError(f"{file} has no faults; score pairs with scenes: `dvc repro score`")
    name = "/".join(file.parent.parts[-3:]) or str(file)
    return _faults(name, [(str(line.faults), bool(line.changed)) for line in lines])


def _faults_of_captions(path: Path, pairs: Path, key: str | None) -> Faults:
    """Return the false parts of the captions in the file `path`, by the scenes in the file `pairs`.

    `key` names the key of the captions in their file; None: the file has only one.
    """
    captions, judged, unreadable_ids = read_results(path, key=key), [], []
    for pair in pairs_of(pairs, "test"):
        if pair.pair_id not in captions:
            raise InputError(f"{path} has no caption of the test pair {pair.pair_id}; add it")
        if (verdict := judge(captions[pair.pair_id], pair)) is None:
            raise InputError(f"{pairs} has no scene of the pair {pair.pair_id}; use a rendered dataset")
        if verdict.faults == UNPARSED:
            unreadable_ids.append(pair.pair_id)
        judged.append((verdict.faults, bool(pair.changed)))
    _warn_of_unreadable(unreadable_ids, captions)
    return _faults(str(path), judged)


def _warn_of_unreadable(unreadable_ids: Sequence[str], captions: Mapping[str, str]) -> None:
    for note in results.unread(unreadable_ids, captions):
        print(f"warning: {printable(note)}", file=sys.stderr)


def _faults(name: str, judged: Sequence[tuple[str, bool]]) -> Faults:
    if not any(changed for _, changed in judged):
        raise InputError(f"{name} has no pair with a change; use other pairs")
    changed, unchanged = (
        [letters for letters, is_changed in judged if is_changed is part] for part in (True, False)
    )
    return Faults(name, changed, unchanged)


if __name__ == "__main__":
    run(main)
