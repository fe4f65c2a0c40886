"""Score one annotator against the others, next to the best constant caption for the same references.

python -m commands.annotators --pairs data/pairs/tabletop.jsonl --split test
python -m commands.annotators --layout spot_the_diff data/raw/spot_the_diff --protocol per_entry

A pair counts if it has several references. If the pairs of a file share their images, as with the protocol
per_entry, each of them is one annotator's.
"""

from commands import run
from pipeline.cli import pair_sources
from pipeline.cli.arguments import new_parser, parsed, real
from pipeline.io.errors import InputError, printable
from pipeline.io.outputs import file_to_write, write_json
from pipeline.reporting.tables import Table, number, show
from pipeline.scoring import human_baseline
from pipeline.scoring.constant_baseline import CONSTANT
from pipeline.scoring.corpus import score_each
from pipeline.scoring.metric_names import CORPUS
from pipeline.scoring.results import rounded
from pipeline.scoring.tokenizer import OF_SCORES

METRICS = ("BLEU-1", *CORPUS)


def main() -> None:
    parser = new_parser("python -m commands.annotators", __doc__)
    pair_sources.add(parser, parser.add_mutually_exclusive_group(required=True))
    add = parser.add_argument
    add("--tokeniser", choices=tuple(OF_SCORES), default="ptb", help="tokeniser of the scores (default: ptb)")
    add("--timeout", type=real(1.0, 1_000_000.0), default=3600.0, help="seconds for a run of Java (3600)")
    add("--out", type=file_to_write, help="the scores to write, JSON")
    arguments = parsed(parser)
    name, pairs = pair_sources.read(arguments)
    if not (corpora := human_baseline.corpora(pairs)):
        raise InputError(f"{name} has no pair with several references; name other pairs, or --protocol")
    (scored,) = score_each(corpora, arguments.timeout, arguments.tokeniser)
    scores = rounded(human_baseline.entry(scored))
    if arguments.out:
        write_json(arguments.out, {"dataset": name, **scores})
    rows = [
        [label, *(number(values[metric]) for metric in METRICS)]
        for label, values in (("one annotator", scores), ("best constant", scores[CONSTANT]))
    ]
    count = f"{scores['pairs']:,} pairs with several references"
    caption = printable(f"best constant caption: “{scores[CONSTANT]['caption']}”")
    show([Table(f"{name}: scores × 100", ["", *METRICS], rows, [count, caption])])


if __name__ == "__main__":
    run(main)
