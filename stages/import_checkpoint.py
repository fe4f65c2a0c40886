"""Import a released checkpoint of SCORER, DIRL or IDC-PCL as weights of our model, released variant.

The model is `scorer`, `dirl_ccr` or `idc_pcl`: the file tells which, and of `idc_pcl` which phase. Not a
stage of dvc.yaml: its outputs stand where those of train@dataset-model-seed do, for `dvc commit`.
"""

import argparse
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from pipeline import params, provenance, vocabularies
from pipeline.authors_checkpoints import checkpoint_file, idc_pcl, importing
from pipeline.errors import InputError
from pipeline.features.store_config import spec
from pipeline.outputs import replacing
from pipeline.recipes import trained_model
from stages import run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("checkpoint", type=Path, help="the file that the released program saved")
    parser.add_argument("--vocab", type=Path, required=True, help="its vocabulary: JSON, word -> id")
    parser.add_argument("--out", type=Path, required=True, help="the folder of weights to write")
    parser.add_argument("--dataset", default="clevr_change", help="what it was trained on")
    parser.add_argument("--heads", type=int, default=8, help="attention heads, which no tensor tells")
    parser.add_argument(
        "--longest", type=int, default=40, help="tokens of IDC-PCL's longest caption: 40, of birds 80"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the cell that it shall stand in")
    parser.add_argument("--curves", type=Path, help="the folder of empty learning curves to write")
    parser.add_argument("--provenance", type=Path, help="the file to write of where the weights come from")
    import_checkpoint(parser.parse_args())


def import_checkpoint(arguments: argparse.Namespace) -> None:
    start = time.monotonic()
    for path in filter(None, (arguments.out, arguments.curves)):
        if path.exists() or path.is_symlink():
            raise InputError(f"{path} is there already; remove it, or name another place")
    everything = params.load()
    wanted = spec(everything.features, everything.of(arguments.dataset))
    vocabulary = vocabularies.fixed(arguments.vocab, [], lower_case=False)
    file = checkpoint_file.read(arguments.checkpoint)
    own = vocabulary, arguments.dataset, wanted, arguments.heads, arguments.seed
    if idc_pcl.recognised(file):
        own = replace(vocabulary, longest=arguments.longest), *own[1:]
        trained, tensors = idc_pcl.imported(file, arguments.vocab, *own)
        header = "iteration,cap\n"
    else:
        importing.check_features(wanted)
        trained, tensors = importing.imported(file, *own)
        header = f"{','.join(['iteration', *importing.terms(trained)])}\n"
    with ExitStack() as outputs:  # all of them appear at its end, or none
        trained_model.save(outputs.enter_context(replacing(arguments.out)), trained, tensors)
        if arguments.curves:
            folder = outputs.enter_context(replacing(arguments.curves))
            folder.mkdir()
            for name, text in curves(header).items():
                (folder / name).write_text(text, encoding="utf-8")
        if arguments.provenance:
            beside = outputs.enter_context(replacing(arguments.provenance))
            origin = {"checkpoint": file.path.name, "checkpoint_sha256": file.sha256}
            provenance.write(beside, time.monotonic() - start, **origin)
    print(f"{arguments.out}: {len(tensors)} tensors of {file.path.name}, sha256 {file.sha256}")


def curves(header: str) -> dict[str, str]:
    """The learning curves' files without a row: the checkpoint does not hold its own."""
    return {"loss.csv": header, "validation.csv": "iteration,CIDEr-D\n"}


if __name__ == "__main__":
    run(main)
