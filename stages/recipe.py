"""recipe@dataset-model: resolve the parameters into all that decides how this model is trained here.

What decides a phase before captioning stands in a file of its own, `null` where there is none: the
stages adapt and pretrain read that alone, so that they do not run again for another captioning.
"""

import argparse

from pipeline.cli.arguments import parsed, word
from pipeline.config import params, recipe_file, resolving
from pipeline.io.outputs import file_to_write, write_text
from stages import run


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--dataset", type=word, required=True)
    parser.add_argument("--model", type=word, required=True)
    parser.add_argument("--out", type=file_to_write, required=True)
    parser.add_argument("--first", type=file_to_write, help="that of the phase before captioning, to write")
    arguments = parsed(parser)
    recipe = resolving.resolve(params.load(), arguments.dataset, arguments.model)
    recipe_file.save(arguments.out, recipe)
    if arguments.first and recipe.adapt:
        recipe_file.save(arguments.first, recipe.first_phase())
    elif arguments.first:
        write_text(arguments.first, "null\n")  # of an empty file DVC warns


if __name__ == "__main__":
    run(main)
