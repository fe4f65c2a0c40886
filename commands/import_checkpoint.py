"""Import a released checkpoint, without changes, as weights of the corresponding model of this project.

Checkpoints of SCORER, DIRL, CLIP4IDC, IDC-PCL, DUDA, VARD, MCCFormers and CARD can be imported. The command
recognises the model by the tensors in the file (`scorer`, `dirl_ccr`, `clip4idc`, `idc_pcl`, `duda`, `vard`,
`mccformers_d`, `mccformers_s`, `card`). For CLIP4IDC and IDC-PCL it also recognises the phase. This command
is not a stage of dvc.yaml, and writes to data/imported. Then the stage train or pretrain of that dataset,
model and seed uses these weights instead of training.
"""

import argparse
from pathlib import Path

from torch import Tensor

from commands import run
from models.clip4idc.model import Retrieval
from models.common.captioner import Captioner
from models.common.trainable import Trainable
from pipeline.authors_checkpoints import checkpoint_file, idc_pcl
from pipeline.authors_checkpoints.checkpoint_file import CheckpointFile
from pipeline.authors_checkpoints.importing import Options, imported
from pipeline.cli.arguments import SEEDS, blocks, heads, longest, parsed, to_read, whole, word
from pipeline.io.errors import InputError
from pipeline.io.outputs import replacing, write_json
from pipeline.weights import imported_weights, trained_model
from pipeline.weights.imported_weights import WEIGHTS
from pipeline.weights.model_description import Trained


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("checkpoint", type=to_read, help="the file that the released program saved")
    parser.add_argument(
        "--vocab",
        type=to_read,
        required=True,
        help="its vocabulary: JSON, word -> id; for CLIP4IDC the file that the stage vocab wrote",
    )
    parser.add_argument(
        "--out",
        type=trained_model.CONTENTS.to_write,
        help="a folder to write; default: data/imported, where the stage of the run finds the weights",
    )
    parser.add_argument("--dataset", type=word, default="clevr_change", help="the dataset it was trained on")
    parser.add_argument(
        "--heads",
        type=heads,
        help="number of attention heads (not for CLIP4IDC); tensors do not show it; default: 8, for VARD 4",
    )
    parser.add_argument(
        "--intra", type=blocks, default=9, help="CLIP4IDC's blocks on single images (default: 9)"
    )
    parser.add_argument(
        "--longest",
        type=longest,
        help="tokens of the longest caption: IDC-PCL 40, for birds 80; DUDA and VARD 24; MCCFormers 66",
    )
    parser.add_argument("--seed", type=whole(*SEEDS), default=1, help="seed of the run that uses the weights")
    import_checkpoint(parsed(parser))


def import_checkpoint(arguments: argparse.Namespace) -> None:
    """Import the checkpoint. Write its weights to --out, or to the folder of their dataset, model and seed.

    Raises InputError if the weights do not fit a model, or if the output exists.
    """
    if arguments.out:
        imported_weights.check_unowned(arguments.out)
    file = checkpoint_file.read(arguments.checkpoint)
    own = (arguments.heads, arguments.longest, arguments.intra)
    options = Options(arguments.vocab, arguments.dataset, arguments.seed, *own)
    trained, tensors, model = imported(file, options)
    stage = "train" if isinstance(model, Captioner) else "pretrain"
    kept = imported_weights.place(arguments.dataset, trained.recipe.model, arguments.seed, stage)
    out = arguments.out or kept
    if out.exists() or out.is_symlink():
        raise InputError(f"{out} exists already; remove it, or name another place with --out")
    contents = trained_model.CONTENTS if arguments.out else imported_weights.CONTENTS
    with replacing(out, contents) as folder:
        if arguments.out:
            trained_model.save(folder, trained, tensors)
        else:
            write_for_stage(folder, trained, tensors, model, file)
    print(f"{out}: {len(tensors)} tensors of {file.path.name}, sha256 {file.sha256}")
    if not arguments.out:
        target = f"{stage}@{arguments.dataset}-{trained.recipe.model}-{arguments.seed}"
        print(f"`dvc repro {target}` uses them instead of training")


def write_for_stage(
    folder: Path, trained: Trained, tensors: dict[str, Tensor], model: Trainable, file: CheckpointFile
) -> None:
    """Write the weights for the stage that takes them over, with empty learning curves.

    The checkpoint's name and hash are written, too.
    """
    trained_model.save(folder / WEIGHTS, trained, tensors)
    pcl = trained.recipe.model == idc_pcl.MODEL
    terms = ("cap",) if pcl else model.terms  # the same for both phases
    (folder / imported_weights.CURVES).mkdir()
    for name, header in curves(terms, "R@1" if isinstance(model, Retrieval) else "CIDEr-D").items():
        (folder / imported_weights.CURVES / name).write_text(header, encoding="utf-8")
    source = {"checkpoint": file.path.name, "checkpoint_sha256": file.sha256}
    write_json(folder / imported_weights.SOURCE, source)


def curves(terms: tuple[str, ...], metric: str) -> dict[str, str]:
    """Return file name -> content of empty learning curves, which have only headers."""
    return {"loss.csv": f"{','.join(['iteration', *terms])}\n", "validation.csv": f"iteration,{metric}\n"}


if __name__ == "__main__":
    run(main)
