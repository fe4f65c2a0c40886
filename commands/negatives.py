"""Write a dataset's negatives: six captions with a small error for each pair of train and val.

Pre-training (the task fda of IDC-PCL) generates the same negatives. Use this command to inspect them.
"""

from commands import run
from pipeline.cli.arguments import new_parser, parsed, to_read, word
from pipeline.config import params
from pipeline.datasets.manifest import read_pairs
from pipeline.datasets.negatives import write_negatives
from pipeline.io.outputs import file_to_write
from pipeline.io.progress import track
from pipeline.negatives.generation import SPLITS, generate


def main() -> None:
    parser = new_parser("python -m commands.negatives", __doc__)
    add = parser.add_argument
    add("--dataset", type=word, required=True, help="its name under 'negatives.grammar' in params.yaml")
    add("--pairs", type=to_read, required=True)
    add("--out", type=file_to_write, required=True, help="the file of negatives to write, JSON lines")
    arguments = parsed(parser)
    grammar, seed = params.load().negatives.of(arguments.dataset)
    pairs = read_pairs(arguments.pairs)
    count = sum(pair.split in SPLITS for pair in pairs)
    negatives = track(generate(grammar, pairs, seed), "negatives", "pairs", count)
    write_negatives(arguments.out, negatives)
    print(f"{arguments.dataset}: negatives of {count} pairs")


if __name__ == "__main__":
    run(main)
