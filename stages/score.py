"""Score captions with every metric, on all pairs and on each subset.

In the pipeline:  python -m stages.score --captions FILE --pairs FILE --split test --out FILE
                  [--dataset NAME] [--attention FILE --images FILE]
On its own:       python -m stages.score --captions FILE --references FILE --out FILE
"""

import argparse
import sys
from collections.abc import Sequence

from pipeline.cli.arguments import new_parser, pairs_and_others, parsed, real, to_read, word
from pipeline.config import params
from pipeline.datasets import manifest
from pipeline.datasets.schema import SPLITS, Pair
from pipeline.decoding import attention_maps
from pipeline.free_english.judging import FREE
from pipeline.io.errors import printable
from pipeline.io.outputs import file_to_write
from pipeline.judging.strict import STRICT
from pipeline.reporting import tables
from pipeline.scoring import attention_localisation, results, routing, run_files, scored_files, table_notes
from pipeline.scoring.attention_localisation import Localisation
from pipeline.scoring.conditions import Conditions, Scope
from pipeline.scoring.corpus import Scores, score
from pipeline.scoring.metric_names import AGREES, BY_CHANGE, TOTAL, TRUE
from pipeline.scoring.results import Correctness
from pipeline.scoring.scored_files import ScoredTexts
from pipeline.scoring.tokenizer import OF_SCORES
from stages import run


def main() -> None:
    arguments = _arguments()
    pairs, others = pairs_and_others(arguments.pairs, arguments.split) if arguments.pairs else ([], [])
    prepared = manifest.read(arguments.manifest) if arguments.manifest else None
    if prepared and pairs:
        prepared.check_split(pairs, arguments.split, arguments.pairs)
        manifest.check_files(arguments.manifest, prepared, arguments.pairs, arguments.images)
    if arguments.attention:
        run_files.check_attention(arguments.attention, arguments.pairs)
    scored = _scored(arguments, pairs, others)
    captions, pairs = scored.captions, scored.pairs
    located = Localisation({}, {})
    if arguments.attention:
        located = attention_localisation.of_files(arguments.attention, arguments.images, pairs, captions)
    if pairs:
        scores, truth, scope = _against_pairs(scored, arguments)
    else:
        (scores, scope), truth = _against_references(scored, arguments), results.UNKNOWN
    protocol = prepared.references if prepared else None
    routed = routing.read(arguments.captions)
    shares = routed.shares(pairs)
    metrics = results.metrics_of(scores, truth, located.summary, protocol, scope, shares)
    strange = arguments.reader == "strict" and not arguments.attention  # captions of another program
    unread = results.unread(truth.unreadable, captions) if strange else []
    for warning in (*scores.warnings, *scored.warnings(), *unread):
        print(f"warning: {printable(warning)}", file=sys.stderr)
    if arguments.per_pair:
        results.write_pair_scores(
            arguments.per_pair, scores, captions, truth, located.pairs, scope.conditions
        )
    hashes = run_files.hashes_of_scored(vars(arguments))
    results.write_metrics(arguments.out, metrics, arguments.summary, hashes)
    notes = table_notes.of_metrics(metrics)
    if not {TRUE, AGREES} & scores.subsets[TOTAL].keys():
        notes.append(table_notes.WORDS_ONLY)
    _show(scores, truth, notes)


def _scored(arguments: argparse.Namespace, pairs: list[Pair], others: list[str]) -> ScoredTexts:
    """Read the captions to score. `others`: ids of pairs of other splits."""
    captions, key, referenced_only = arguments.captions, arguments.key, arguments.referenced_only
    if arguments.references:
        return scored_files.of_references(
            captions, arguments.references, key, arguments.predicted_only, referenced_only
        )
    left_out = manifest.left_out(arguments.manifest or manifest.path_of(arguments.pairs), arguments.split)
    free = arguments.reader == "free"
    return scored_files.of_pairs(
        captions, pairs, arguments.pairs, left_out, {*others}, key, free, referenced_only
    )


def _arguments() -> argparse.Namespace:
    parser = new_parser("python -m stages.score", __doc__)
    add, against = parser.add_argument, parser.add_mutually_exclusive_group(required=True)
    add("--captions", type=to_read, required=True, help="captions of any program (docs/evaluation.md)")
    against.add_argument("--pairs", type=to_read, help="prepared pairs, for references and subsets")
    against.add_argument("--references", type=to_read, help="references in COCO form, or id -> sentences")
    add("--predicted-only", action="store_true", help="score only the ids that have a prediction")
    add("--referenced-only", action="store_true", help="score only the ids that have a reference with a word")
    add("--key", type=word, help="key or column of the captions, if there are several (such as prediction)")
    add("--manifest", type=to_read, help="the manifest of the prepared pairs")
    add("--dataset", type=word, help="dataset of the pairs, for its grammar (negatives.grammar)")
    readers = "how captions are parsed, with --pairs: the dataset's own grammar (default), or free English"
    add("--reader", choices=("strict", "free"), default="strict", help=readers)
    add("--split", choices=SPLITS, default="test", help="split of the pairs (default: test)")
    add("--out", type=file_to_write, required=True, help="metrics.json to write")
    add("--summary", type=file_to_write, help="summary.json to write: the few scores that DVC shows")
    add("--per-pair", type=file_to_write, help="pairs.jsonl to write: the scores of each pair")
    add("--attention", type=to_read, help="attention.npz of these captions, for localisation")
    add("--images", type=to_read, help="the index of the dataset's images, for localisation")
    default = "(default: of params.yaml with --pairs, else {})"
    limit = f"seconds that a run of Java may take {default.format(600)}"
    add("--meteor-timeout", type=real(0.001, 1_000_000.0), help=limit)
    tokeniser = f"tokeniser of captions and references {default.format('ptb')}"
    add("--tokeniser", choices=tuple(OF_SCORES), help=tokeniser)
    arguments = parsed(parser)
    if arguments.attention and not (arguments.pairs and arguments.images):
        parser.error("--attention needs --pairs and --images")
    if arguments.predicted_only and not arguments.references:
        parser.error("--predicted-only needs --references")
    if (arguments.dataset or arguments.reader == "free") and not arguments.pairs:
        parser.error("--dataset and --reader free need --pairs")
    return arguments


def _against_pairs(scored: ScoredTexts, arguments: argparse.Namespace) -> tuple[Scores, Correctness, Scope]:
    captions, pairs, everything = scored.captions, scored.pairs, params.load()
    settings, grammar = everything.score, None
    if arguments.dataset:
        everything.of(arguments.dataset)  # raises for an unknown name
        grammar = everything.negatives.grammar.get(arguments.dataset)
    truth = results.correctness(
        captions,
        pairs,
        grammar,
        reader=FREE if arguments.reader == "free" else STRICT,
        exchanged=attention_maps.read_exchanged(arguments.attention) if arguments.attention else None,
    )
    timeout = arguments.meteor_timeout or settings.meteor_timeout
    tokeniser = arguments.tokeniser or settings.tokeniser
    name, reader = OF_SCORES[tokeniser][0], arguments.reader
    gate = routing.read(arguments.captions).gate
    scored_as = Conditions(tokeniser=name, reader=reader, gate=gate)
    scope = Scope(scored_as, arguments.pairs.name, scored.left_out)
    return results.score_pairs(captions, pairs, timeout, tokeniser, truth), truth, scope


def _against_references(scored: ScoredTexts, arguments: argparse.Namespace) -> tuple[Scores, Scope]:
    timeout, tokeniser = arguments.meteor_timeout or 600.0, arguments.tokeniser or "ptb"
    gate = routing.read(arguments.captions).gate
    scored_as = Conditions(tokeniser=OF_SCORES[tokeniser][0], gate=gate)
    scope = Scope(scored_as, arguments.references.name, scored.left_out)
    return score(scored.captions, scored.references, {}, timeout, tokeniser), scope


def _show(scores: Scores, truth: Correctness, notes: Sequence[str]) -> None:
    columns = [name for name in scores.subsets[TOTAL] if name not in BY_CHANGE]  # these are shares of subsets
    headings = ["", *(name.replace("/", " ") for name in columns)]
    rows = [
        [name, *(tables.number(values[column]) for column in columns)]
        for name, values in scores.subsets.items()
    ]
    lines = []
    if truth.change_accuracy is not None:
        lines.append(f"change/no-change accuracy: {_percent(truth.change_accuracy)}")
    lines += [f"{name} named correctly: {_percent(value)}" for name, value in truth.attributes.items()]
    all_notes = [printable(line) for line in (*lines, *notes)]
    tables.show([tables.Table("scores × 100, as papers print them", headings, rows, all_notes)])


def _percent(share: float | None) -> str:
    return "never named" if share is None else f"{100 * share:.1f} %"


if __name__ == "__main__":
    run(main)
