"""train@dataset-model-seed: train a recipe with a seed; keep the best snapshot and the learning curves.

The stage runs the phases that learn captions: `train` and, with a reward, `reinforce`. If the recipe has
"train.processes: n", this program starts n processes, which share every batch. With
"torchrun --nproc-per-node n -m stages.train ...", torchrun's n processes are used instead.
"""

from pipeline.cli import phase_run
from pipeline.cli.arguments import new_parser, parsed, to_read
from pipeline.config import recipe_file
from pipeline.config.recipe_file import REINFORCE, TRAIN
from pipeline.io.errors import InputError
from pipeline.scoring import tokenizer
from pipeline.training.phases import PhaseInputs
from pipeline.weights import imported_weights
from pipeline.weights.imported_weights import PRETRAINED
from stages import run


def main() -> None:
    parser = new_parser("python -m stages.train", __doc__)
    add = parser.add_argument
    phase_run.add_arguments(parser)
    # not --start: torchrun reads that as its own --start-method
    add("--start-from", type=to_read, help="the folder of the run's inputs, with pre-trained weights")
    add("--trained", type=to_read, help="weights for the reward phase to start from (default: train them)")
    tokens = "tokeniser of validation: ptb (default), as for scores, or plain, which needs no Java"
    add("--tokens", choices=tokenizer.TOKENIZERS, default="ptb", help=tokens)
    arguments = parsed(parser)
    recipe = recipe_file.load(arguments.recipe)
    if folder := imported_weights.find(arguments.imported, "train"):
        phase_run.use_imported("train", arguments, folder)
        return
    names = [name for name in (TRAIN, REINFORCE) if name in recipe.phases]
    start = arguments.start_from / PRETRAINED if recipe.pretraining and arguments.start_from else None
    if arguments.trained:
        names, start = names[1:], arguments.trained
    if not names:
        lacking = "a reward phase, which --trained needs" if arguments.trained else f"the phase {TRAIN}"
        raise InputError(f"{arguments.recipe} lacks {lacking}; name the recipe.yaml of a run that has it")
    inputs = {name: PhaseInputs(tokens=arguments.tokens) for name in names}
    phase_run.run_phases("train", arguments, recipe, inputs, start)


if __name__ == "__main__":
    run(main)
