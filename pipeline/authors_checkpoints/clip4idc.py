"""Import CLIP4IDC's released checkpoints, of both phases (docs/checkpoints.md, "CLIP4IDC and CLIP").

A file is a dictionary of tensors. CLIP's tensors have OpenAI's names with the prefix "clip.". The other
tensors belong to the pair encoder and, in the second phase, to the captioner. The text tower in a file of the
second phase is not used.
"""

from pathlib import Path

from models.clip4idc.model import STARTS
from pipeline.authors_checkpoints import clip
from pipeline.authors_checkpoints.system import System
from pipeline.authors_checkpoints.tensor_table import Sizes, table
from pipeline.io.errors import InputError
from pipeline.weights.first_weights import name_in_file

FIELDS = {"D": "width", "p": "patch", "T": "text_width", "k": "text_layers", "C": "context", "E": "joint"}
HEADS = {"heads": "width", "text_heads": "text_width", "caption_heads": "joint"}
HEAD = 64  # width of attention heads, in CLIP and in the captioner
COMPARISON = """
visual.{bef,aft}_embedding              D           inter.images
visual.joint_positional_embedding       2N,D        inter.positions
visual.ln_mid.G                         D           inter.norm
"""
CAPTIONER = """
[decoder]
embeddings.word_embeddings.weight       49408,E     decoder.tables.tokens.weight    words
embeddings.position_embeddings.weight   C,E         decoder.tables.positions
embeddings.LayerNorm.G                  E           decoder.norm
encoder.layer.<m>.slf_attn.att.{query,key,value}.G  E,E   memories.layers.<m>.attention.{query,key,value}
encoder.layer.<m>.slf_attn.output.dense.G           E,E   memories.layers.<m>.attention.output
encoder.layer.<m>.slf_attn.output.LayerNorm.G       E     memories.layers.<m>.norms.0
encoder.layer.<m>.intermediate.dense.G              4E,E  memories.layers.<m>.feed_forward.0
encoder.layer.<m>.output.dense.G                    E,4E  memories.layers.<m>.feed_forward.2
encoder.layer.<m>.output.LayerNorm.G                E     memories.layers.<m>.norms.1
decoder.layer.<m>.slf_attn.att.{query,key,value}.G  E,E   decoder.layers.<m>.self_attention.{query,key,value}
decoder.layer.<m>.enc_attn.att.{query,key,value}.G  E,E   decoder.layers.<m>.cross_attention.{query,key,value}
decoder.layer.<m>.{slf,enc}_attn.output.dense.G     E,E   decoder.layers.<m>.{self,cross}_attention.output
decoder.layer.<m>.{slf,enc}_attn.output.LayerNorm.G E     decoder.layers.<m>.norms.{0,1}
decoder.layer.<m>.intermediate.dense.G              4E,E  decoder.layers.<m>.feed_forward.0
decoder.layer.<m>.output.dense.G                    E,4E  decoder.layers.<m>.feed_forward.2
decoder.layer.<m>.output.LayerNorm.G                E     decoder.layers.<m>.norms.2
[decoder.classifier.cls.predictions]
transform.dense.G                       E,E         decoder.head.0
transform.LayerNorm.G                   E           decoder.head_norm
bias                                    49408       decoder.bias                    words
decoder.weight                          49408,E     -       =decoder.embeddings.word_embeddings.weight
"""
ADAPTED = "[clip]" + clip.OPENAIS + COMPARISON


def in_table(name: str) -> str:
    """Return the name that the tensor table uses for the parameter `name` of our model."""
    return name_in_file(STARTS, name) or name.removeprefix("difference.")


def sizes_of_model(path: Path, sizes: Sizes, intra: int) -> dict[str, int]:
    """Return the sizes that our model needs to load the authors' checkpoint at `path`, as name -> size.

    `sizes` were found in the file. `intra` is the number of blocks that encode a single image. Raises
    InputError if the file has fewer blocks.
    """
    blocks = sizes["n"]
    if not 0 <= intra <= blocks:
        raise InputError(f"{path}: its image tower has {blocks} blocks, but --intra is {intra}; correct it")
    widths = {name: sizes[letter] for letter, name in FIELDS.items()}
    heads = {name: max(1, widths[width] // HEAD) for name, width in HEADS.items()}
    layers = {"caption_layers": sizes.get("m", 1), "intra": intra, "inter": blocks - intra}
    return widths | heads | layers


def _system(marks: tuple[str, ...], captioner: str, phase: str | None) -> System:
    return System(
        title="CLIP4IDC",
        model="clip4idc",
        marks=(r"clip\.visual\.", *marks),
        table=table(ADAPTED, captioner),
        settings={"dropout": 0.1, "coef_lr": 0.001, "temperature": 0.01},
        features=None,
        phase=phase,
        order=lambda path, vocabulary: clip.ORDER,
        alias=in_table,
        our_sizes=sizes_of_model,
    )


CAPTIONING = _system((r"decoder\.embeddings\.",), CAPTIONER, None)
ADAPTATION = _system((), "", "adapt")
