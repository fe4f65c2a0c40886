"""Pack trained weights into a file to share. A machine with this file needs no dataset to caption images.

python -m commands.export --weights data/weights/tabletop/scorer_cbr/1 --out scorer_cbr.zip
python -m commands.export --weights data/weights/tabletop/scorer_cbr/1 --out demo/clip4idc    a folder

The file contains weights, vocabulary, settings, scores, a model card, and the name and hash of the
backbone. Model hubs read model.safetensors, config.json and the card's front matter.
"""

from pathlib import Path

from commands import run
from pipeline.captioning import package
from pipeline.cli.arguments import new_parser, parsed, to_read, word
from pipeline.compute import devices

LICENCE = "MIT, as the program that trained them. The terms of the dataset also apply."


def main() -> None:
    parser = new_parser("python -m commands.export", __doc__)
    add = parser.add_argument
    add("--weights", type=to_read, required=True, help="the folder that training wrote")
    add("--out", type=package.to_write, required=True, help="FILE.zip, or a folder")
    add("--lab", type=to_read, default=Path(), help="the repository that trained them")
    add("--licence", type=word, help="a sentence for the model card")
    add("--licence-id", type=word, help="for hubs, such as cc-by-4.0 (default: mit; other with --licence)")
    add("--with-backbone", action="store_true", help="also pack backbone weights from a file")
    arguments = parsed(parser)
    devices.repeatable()
    out: Path = arguments.out
    licence = arguments.licence or LICENCE
    licence_id = arguments.licence_id or ("other" if arguments.licence else "mit")
    package.write(arguments.weights, arguments.lab, out, licence, arguments.with_backbone, licence_id)
    files = list(out.iterdir()) if out.is_dir() else [out]
    print(f"{out}: {sum(file.stat().st_size for file in files) / 1e6:.2f} MB")


if __name__ == "__main__":
    run(main)
