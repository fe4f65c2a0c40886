"""Import a released checkpoint of SCORER, DIRL, CLIP4IDC or IDC-PCL as weights of our model, as released.

The model is `scorer`, `dirl_ccr`, `clip4idc` or `idc_pcl`, and of the last two the phase: the file tells
which. Not a stage of dvc.yaml: its outputs stand where those of train@dataset-model-seed (or of the phase
before, adapt or pretrain) do, for `dvc commit`.
"""

import argparse
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from models.clip4idc.model import Retrieval
from pipeline import params, provenance, vocabularies
from pipeline.authors_checkpoints import checkpoint_file, clip4idc, idc_pcl, importing
from pipeline.authors_checkpoints.checkpoint_file import CheckpointFile
from pipeline.authors_checkpoints.expectations import check_features
from pipeline.errors import InputError
from pipeline.features.store_contents import pixel_spec, spec
from pipeline.outputs import file_to_write, replacing
from pipeline.recipes import trained_model
from pipeline.recipes.trained_model import Trained
from stages import run
from stages.arguments import SEEDS, whole
from stages.train import CURVES

Imported = tuple[Trained, dict[str, Tensor], tuple[str, ...], str]
"""What is known, the weights, the names of the loss terms, and the validation's metric."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("checkpoint", type=Path, help="the file that the released program saved")
    parser.add_argument(
        "--vocab",
        type=Path,
        required=True,
        help="its vocabulary: JSON, word -> id; CLIP4IDC's is what the stage vocab wrote",
    )
    parser.add_argument(
        "--out", type=trained_model.CONTENTS.to_write, required=True, help="the folder of weights to write"
    )
    parser.add_argument("--dataset", default="clevr_change", help="what it was trained on")
    parser.add_argument(
        "--heads", type=whole(1), default=8, help="attention heads (not of CLIP4IDC), in no tensor"
    )
    parser.add_argument(
        "--intra", type=whole(0), default=9, help="CLIP4IDC's blocks on each image alone, likewise"
    )
    parser.add_argument(
        "--longest", type=whole(1), default=40, help="tokens of IDC-PCL's longest caption: 40, of birds 80"
    )
    parser.add_argument("--seed", type=whole(*SEEDS), default=1, help="of the cell that it shall stand in")
    parser.add_argument("--curves", type=CURVES.to_write, help="the folder of empty learning curves to write")
    parser.add_argument(
        "--provenance", type=file_to_write, help="the file to write of where the weights come from"
    )
    import_checkpoint(parser.parse_args())


def import_checkpoint(arguments: argparse.Namespace) -> None:
    start = time.monotonic()
    for path in filter(None, (arguments.out, arguments.curves)):
        if path.exists() or path.is_symlink():
            raise InputError(f"{path} is there already; remove it, or name another place")
    file = checkpoint_file.read(arguments.checkpoint)
    trained, tensors, terms, metric = imported(arguments, file)
    with ExitStack() as outputs:  # all of them appear at its end, or none
        trained_model.save(
            outputs.enter_context(replacing(arguments.out, trained_model.CONTENTS)), trained, tensors
        )
        if arguments.curves:
            folder = outputs.enter_context(replacing(arguments.curves, CURVES))
            folder.mkdir()
            for name, header in curves(terms, metric).items():
                (folder / name).write_text(header, encoding="utf-8")
        if arguments.provenance:
            beside = outputs.enter_context(replacing(arguments.provenance))
            origin = {"checkpoint": file.path.name, "checkpoint_sha256": file.sha256}
            provenance.write("import_checkpoint", beside, time.monotonic() - start, **origin)
    print(f"{arguments.out}: {len(tensors)} tensors of {file.path.name}, sha256 {file.sha256}")


def imported(arguments: argparse.Namespace, file: CheckpointFile) -> Imported:
    """The file's weights, by the system that it is of."""
    if clip4idc.is_one(file):
        return of_clip4idc(arguments, file)
    return of_idc_pcl(arguments, file) if idc_pcl.recognised(file) else of_scorer_or_dirl(arguments, file)


def of_scorer_or_dirl(arguments: argparse.Namespace, file: CheckpointFile) -> Imported:
    everything = params.load()
    wanted = spec(everything.features, everything.of(arguments.dataset))
    check_features(wanted, importing.FEATURES)
    vocabulary = vocabularies.fixed(arguments.vocab, [], lower_case=False)
    trained, tensors = importing.imported(
        file, vocabulary, arguments.dataset, wanted, arguments.heads, arguments.seed
    )
    return trained, tensors, importing.terms(trained), "CIDEr-D"


def of_clip4idc(arguments: argparse.Namespace, file: CheckpointFile) -> Imported:
    everything = params.load()
    wanted = pixel_spec(everything.features, everything.of(arguments.dataset))
    vocabulary = vocabularies.load(arguments.vocab)
    trained, tensors, model = clip4idc.imported(
        file, vocabulary, arguments.dataset, wanted, arguments.intra, arguments.seed
    )
    return trained, tensors, model.terms, "R@1" if isinstance(model, Retrieval) else "CIDEr-D"


def of_idc_pcl(arguments: argparse.Namespace, file: CheckpointFile) -> Imported:
    everything = params.load()
    wanted = spec(everything.features, everything.of(arguments.dataset))
    vocabulary = vocabularies.fixed(arguments.vocab, [], lower_case=False)
    vocabulary = replace(vocabulary, longest=arguments.longest)
    trained, tensors = idc_pcl.imported(
        file, arguments.vocab, vocabulary, arguments.dataset, wanted, arguments.heads, arguments.seed
    )
    return trained, tensors, ("cap",), "CIDEr-D"


def curves(terms: tuple[str, ...], metric: str) -> dict[str, str]:
    """The learning curves' files without a row: the checkpoint does not hold its own."""
    return {"loss.csv": f"{','.join(['iteration', *terms])}\n", "validation.csv": f"iteration,{metric}\n"}


if __name__ == "__main__":
    run(main)
