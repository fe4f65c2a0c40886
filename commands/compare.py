"""Compare two models by paired bootstrap over the test pairs.

The inputs are the pairs.jsonl that the stage score writes for each seed: the scores of each test pair.

python -m commands.compare A/1/pairs.jsonl A/2/pairs.jsonl --against B/1/pairs.jsonl B/2/pairs.jsonl
"""

from commands import run
from pipeline.cli.arguments import SEEDS, new_parser, parsed, to_read, whole, word
from pipeline.io.errors import printable
from pipeline.statistics import comparisons, pair_scores
from pipeline.statistics.evidence import alike


def main() -> None:
    parser = new_parser("python -m commands.compare", __doc__)
    add, files = parser.add_argument, "pairs.jsonl of each seed of a model"
    add("model", type=to_read, nargs="+", help=files)
    add("--against", type=to_read, nargs="+", required=True, help=files)
    add("--names", type=word, nargs=2, metavar=("A", "B"), default=("A", "B"), help="names to print")
    # the scores of all resamples are in memory
    add("--resamples", type=whole(1, 1_000_000), default=10_000, help="bootstrap samples (default: 10000)")
    add("--seed", type=whole(*SEEDS), default=1, help="seed of resampling (default: 1)")
    arguments = parsed(parser)
    scores_a, scores_b = pair_scores.read(arguments.model), pair_scores.read(arguments.against)
    # checked here, so that a message names the files
    alike({str(arguments.model[0]): scores_a, str(arguments.against[0]): scores_b})
    first_name, second_name = arguments.names
    of_scenes = f" of {scores_a.scenes} scenes" if scores_a.scenes < len(scores_a.pair_ids) else ""
    seeds = f"{first_name}: {scores_a.seeds} seed(s), {second_name}: {scores_b.seeds} seed(s)"
    print(printable(f"{len(scores_a.pair_ids)} test pairs{of_scenes}; {seeds}"))
    for name, scores in ((first_name, scores_a), (second_name, scores_b)):
        if scores.conditions and scores.conditions.mark:
            print(printable(f"warning: {name}: {scores.conditions.mark}"))
    for comparison in comparisons.compare(scores_a, scores_b, arguments.resamples, arguments.seed).values():
        print(printable(comparison.sentence(first_name, second_name)))


if __name__ == "__main__":
    run(main)
