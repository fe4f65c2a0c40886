"""Import CLIP's weights, from a file of safetensors or torch.save, as the initialisation of a model.

The file's tensors have OpenAI's or Hugging Face's names. The user runs this command; no stage of
dvc.yaml runs it. In datasets.yaml, the key `start` of a dataset's section `own.clip` names the output
file.
"""

from pathlib import Path

from safetensors.torch import save_file

from commands import run
from pipeline.authors_checkpoints import checkpoint_file, clip
from pipeline.cli.arguments import new_parser, parsed, to_read
from pipeline.io.errors import InputError
from pipeline.io.outputs import file_to_write, replacing


def main() -> None:
    parser = new_parser("python -m commands.import_clip", __doc__)
    add = parser.add_argument
    add("file", type=to_read, help="model.safetensors of CLIP ViT-B/32")
    add("--out", type=file_to_write, default=Path("data/weights/clip.safetensors"))
    arguments = parsed(parser)
    out = arguments.out
    if out.exists() or out.is_symlink():
        raise InputError(f"{out} exists already; remove it, or name another place with --out")
    file = checkpoint_file.read(arguments.file)
    tensors = clip.imported(file)
    with replacing(out) as temporary_path:  # one metadata entry: the order of several would vary between runs
        save_file(tensors, temporary_path, metadata={"sha256": file.sha256})
    print(f"{out}: {len(tensors)} tensors of {file.path.name}, sha256 {file.sha256}")


if __name__ == "__main__":
    run(main)
