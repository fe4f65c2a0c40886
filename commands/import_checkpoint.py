"""Import a released checkpoint, without changes, as weights of the corresponding model of this project.

Checkpoints of SCORER, DIRL, CLIP4IDC, IDC-PCL, DUDA, VARD and CARD can be imported. The command
recognises the model and the phase by the tensors in the file. The tensors do not show the number of
attention heads, so --heads gives it. For CLIP4IDC, --heads is not needed, and --vocab is the file that
the stage vocab wrote.

The weights go to data/imported, unless --out names another folder. The stage train or pretrain with the
same dataset, model and seed then uses the weights in data/imported instead of training.
"""

from pathlib import Path

from commands import run
from models.clip4idc.model import Retrieval
from models.common.captioner import Captioner
from models.common.trainable import Trainable
from pipeline.authors_checkpoints import checkpoint_file, clip_models
from pipeline.authors_checkpoints.importing import Options, imported
from pipeline.cli.arguments import SEEDS, new_parser, parsed, to_read, whole, word
from pipeline.io.errors import InputError
from pipeline.io.outputs import replacing, write_json
from pipeline.weights import imported_weights, trained_model
from pipeline.weights.imported_weights import WEIGHTS
from pipeline.weights.model_description import Trained


def main() -> None:
    parser = new_parser("python -m commands.import_checkpoint", __doc__)
    add = parser.add_argument
    add("checkpoint", type=to_read, help="the file that the released program saved")
    add("--vocab", type=to_read, required=True, help="its vocabulary: JSON, word -> id")
    add("--out", type=trained_model.CONTENTS.to_write, help="a folder to write (default: in data/imported)")
    add("--dataset", type=word, default="clevr_change", help="the dataset it was trained on")
    add("--heads", type=whole(1, 1024), help="number of attention heads (default: 8, for VARD 4)")
    add("--intra", type=whole(0, 100), default=9, help="CLIP4IDC's blocks on single images (default: 9)")
    longest = "longest caption in tokens: IDC-PCL 40, birds 80, DUDA and VARD 24"
    add("--longest", type=whole(1, 1024), help=longest)
    add("--seed", type=whole(*SEEDS), default=1, help="seed of the run that uses the weights")
    arguments = parsed(parser)
    if arguments.out:
        imported_weights.check_unowned(arguments.out)
    file = checkpoint_file.read(arguments.checkpoint)
    sizes = (arguments.heads, arguments.longest, arguments.intra)
    options = Options(arguments.vocab, arguments.dataset, arguments.seed, *sizes)
    trained, tensors, model = imported(file, options)
    stage = "train" if isinstance(model, Captioner) else "pretrain"
    place = imported_weights.folder_of(arguments.dataset, trained.recipe.model, arguments.seed, stage)
    out = arguments.out or place
    if out.exists() or out.is_symlink():
        raise InputError(f"{out} exists already; remove it, or name another place with --out")
    contents = trained_model.CONTENTS if arguments.out else imported_weights.CONTENTS
    with replacing(out, contents) as folder:
        trained_model.save(folder if arguments.out else folder / WEIGHTS, trained, tensors)
        if not arguments.out:
            write_empty_curves(folder / imported_weights.CURVES, trained, model)
            source = {"checkpoint": file.path.name, "checkpoint_sha256": file.sha256}
            write_json(folder / imported_weights.SOURCE, source)
    print(f"{out}: {len(tensors)} tensors of {file.path.name}, sha256 {file.sha256}")
    if not arguments.out:
        target = f"{stage}@{arguments.dataset}-{trained.recipe.model}-{arguments.seed}"
        print(f"`dvc repro {target}` uses them instead of training")


def write_empty_curves(folder: Path, trained: Trained, model: Trainable) -> None:
    """Write the learning curves of a run that was not trained here: CSV files with headers only."""
    folder.mkdir()
    terms = ("cap",) if trained.recipe.model == clip_models.MODEL else model.terms  # the same for both phases
    (folder / "loss.csv").write_text(f"{','.join(['iteration', *terms])}\n", encoding="utf-8")
    metric = "R@1" if isinstance(model, Retrieval) else "CIDEr-D"
    (folder / "validation.csv").write_text(f"iteration,{metric}\n", encoding="utf-8")


if __name__ == "__main__":
    run(main)
