"""constant@dataset: choose one caption on the validation pairs, and score it on the test pairs.

The chosen caption is written as the caption of every test pair. If pairs have several references, one of them
is scored against the others, too: the human baseline.
"""

import sys

from pipeline.cli.arguments import new_parser, parsed, to_read, word
from pipeline.config import params
from pipeline.datasets import manifest
from pipeline.datasets.schema import SPLITS, of_split
from pipeline.io.errors import InputError, printable
from pipeline.io.outputs import file_to_write, write_json
from pipeline.scoring import constant_baseline, human_baseline, results, run_files
from pipeline.scoring.conditions import Conditions, Scope
from pipeline.scoring.constant_baseline import HUMAN
from pipeline.scoring.corpus import score_each
from pipeline.scoring.tokenizer import OF_SCORES
from stages import run


def main() -> None:
    parser = new_parser("python -m stages.constant", __doc__)
    add = parser.add_argument
    add("--dataset", type=word, required=True, help="its name under 'dataset' in params.yaml")
    add("--pairs", type=to_read, required=True)
    add("--manifest", type=to_read, required=True, help="the manifest of the prepared pairs")
    add("--captions", type=file_to_write, required=True, help="captions.json to write")
    add("--out", type=file_to_write, required=True, help="metrics.json to write")
    add("--summary", type=file_to_write, help="summary.json to write: the scores that DVC shows")
    arguments = parsed(parser)
    everything = params.load()
    settings = everything.score
    pairs = manifest.read_pairs(arguments.pairs)
    if not (test := of_split(pairs, "test")):
        raise InputError(f"{arguments.pairs} has no pair of the split test; add some")
    prepared = manifest.read(arguments.manifest)
    manifest.check_files(arguments.manifest, prepared, arguments.pairs)
    for split in SPLITS:
        prepared.check_split(of_split(pairs, split), split, arguments.pairs)
    timeout, tokeniser = settings.meteor_timeout, settings.tokeniser
    caption, cider_d = constant_baseline.choose(
        pairs, everything.report.constant_candidates, timeout, tokeniser
    )
    if cider_d == 0:
        print(
            "warning: every constant caption has the validation CIDEr-D 0 (by definition, if the split val "
            "has fewer than 2 distinct sets of references), so it selects nothing: the most frequent "
            "training caption is taken; add validation pairs",
            file=sys.stderr,
        )

    captions = {pair.pair_id: caption for pair in test}
    grammar = everything.negatives.grammar.get(arguments.dataset)
    truth = results.correctness(captions, test, grammar)
    corpora = [results.corpus_of(captions, test), *human_baseline.corpora(test)]
    scored, *of_human = score_each(corpora, timeout, tokeniser)
    scores = results.with_truth(scored, truth, test)
    for warning in scores.warnings:
        print(f"warning: {printable(warning)}", file=sys.stderr)
    write_json(arguments.captions, [{"image_id": key, "caption": text} for key, text in captions.items()])
    hashes = run_files.hashes_of_scored(vars(arguments))
    scored_as = Conditions(tokeniser=OF_SCORES[tokeniser][0], reader="strict")
    scope = Scope(scored_as, arguments.pairs.name)
    metrics = results.metrics_of(scores, truth, {}, prepared.references, scope)
    for human in of_human:
        metrics[HUMAN] = results.rounded(human_baseline.entry(human))
    results.write_metrics(arguments.out, metrics, arguments.summary, hashes)
    print(f"{arguments.dataset}: {caption!r}, validation CIDEr-D {cider_d:.3f}")


if __name__ == "__main__":
    run(main)
