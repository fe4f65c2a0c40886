"""Evaluate a pre-trained model's retrieval of pairs by sentences, and of sentences by pairs.

The stage pretrain does this for the test pairs. Use this command for another split, or for another way to
rank ties.
"""

from commands import run
from pipeline.cli.arguments import address_to_read, new_parser, parsed, to_read
from pipeline.datasets.schema import SPLITS
from pipeline.features.object_storage import STORES
from pipeline.io.errors import InputError
from pipeline.io.outputs import Contents, replacing
from pipeline.scoring import retrieval

CONTENTS = Contents("retrieval")


def main() -> None:
    parser = new_parser("python -m commands.retrieve", __doc__)
    add = parser.add_argument
    add("--pretrained", type=to_read, required=True, help="the folder that the stage pretrain wrote")
    add("--pairs", type=to_read, required=True)
    add("--vocab", type=to_read, required=True)
    add("--features", type=address_to_read, required=True, help=STORES)
    add("--split", choices=SPLITS, default="test")
    add("--ties", choices=("strict", "all_ties"), default="strict")
    add("--out", type=CONTENTS.to_write, required=True, help="the folder to write")
    arguments = parsed(parser)
    inputs = (arguments.pretrained, arguments.pairs, arguments.vocab, arguments.features)
    with replacing(arguments.out, CONTENTS) as folder:
        folder.mkdir()
        figures = retrieval.write(folder, *inputs, arguments.split, arguments.ties)
        if figures is None:
            raise InputError(f"{arguments.pretrained} has no weights for retrieval; name weights of clip4idc")
    recalls = figures["text_to_pair"]
    print(f"text to pair: R@1 {recalls['R@1']:.3f}, R@5 {recalls['R@5']:.3f}; of {figures['pairs']} pairs")


if __name__ == "__main__":
    run(main)
