"""Import released checkpoints of CLIP4IDC and IDC-PCL, of both phases.

See docs/checkpoints.md, "CLIP4IDC and CLIP", and docs/checkpoints.md, "IDC-PCL".

A file of CLIP4IDC is a dictionary of tensors. CLIP's tensors have OpenAI's names with the prefix "clip.". The
other tensors belong to the pair encoder and, in the second phase, to the captioner. The text tower in a file
of the second phase is not used.

A pre-trained file of IDC-PCL has its tensors in the entry model_state_dict. A fine-tuned file consists of
tensors only. The rows of the word tables are in the order of the authors' vocabulary. In our vocabulary,
[MASK] and [CLS] come after the words.
"""

from functools import partial
from pathlib import Path

from models.clip4idc.model import STARTS
from models.idc_pcl.network import positions
from models.idc_pcl.switches import RELEASED
from pipeline.authors_checkpoints import clip
from pipeline.authors_checkpoints.tensor_table import Sizes, System, table
from pipeline.config.store_contents import IMPORTED, Spec
from pipeline.io.errors import InputError
from pipeline.io.inputs import read_json
from pipeline.text.vocabularies import PCL_MARKS, PCL_OTHERS, Vocabulary
from pipeline.weights.imported_weights import name_in_file

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


def _clip4idc(marks: tuple[str, ...], captioner: str, phase: str | None) -> System:
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


CLIP4IDC = _clip4idc((r"decoder\.embeddings\.",), CAPTIONER, None)
CLIP4IDC_ADAPTATION = _clip4idc((), "", "adapt")


MODEL = "idc_pcl"
FEATURES = Spec("resnet101", "imagenet", stride=32, finer=False, standardise=False, resize=IMPORTED, size=224)
SETTINGS = {"dropout": 0.2, "masked_words": 0.15, "masked_words_captioning": 0.15, "masked_cells": 0.15}
SETTINGS |= {"coef_lr": 1.0, "tau1": 1.0, "tau2": 1.0}
SHARED = """
img_project.0.G                         D,2048      difference.project
word_embedding.weight                   V+2,D       difference.words.weight         words
output_layer.G                          V+2,D       difference.output               words
position_encoding.type_pe.weight        7,D         difference.types.weight
position_encoding.layernorm.{a_2,b_2}   D           difference.norm.{weight,bias}
position_encoding.pe                    1,200,D     -                               sinusoids
"""
TRANSFORMER = """
[STORED]
norm.{a_2,b_2}                          D           difference.MODEL.norm.{weight,bias}
layers.<N>.sublayer.{0,1}.norm.{a_2,b_2}    D       difference.MODEL.blocks.<N>.norm_{1,2}.{weight,bias}
layers.<N>.attn.{q,k,v}_linear.G        D,D         difference.MODEL.blocks.<N>.attention.{query,key,value}
layers.<N>.attn.out.G                   D,D         difference.MODEL.blocks.<N>.attention.output
layers.<N>.feed_forward.w_1.G           4D,D        difference.MODEL.blocks.<N>.feed_forward.0
layers.<N>.feed_forward.w_2.G           D,4D        difference.MODEL.blocks.<N>.feed_forward.3
[]
"""
TRANSFORMERS = {"single": "single_img_encoder", "pair": "double_img_encoder", "cross": "encoder"}
SHARED += "".join(
    TRANSFORMER.replace("STORED", stored).replace("MODEL", parameter).replace("N", parameter)
    for parameter, stored in TRANSFORMERS.items()
)
CELLS = """
feat_regress.weight                     D,2048      -                               =img_project.0.weight
feat_regress.bias                       2048        cell_head.bias
feat_regress.net.0.G                    D,D         cell_head.map
feat_regress.net.2.{a_2,b_2}            D           cell_head.norm.{weight,bias}
{pooler,classifier,aligner}.0.{weight,bias}     *   -                               ignored
"""
JUDGE = """
pooler.0.G                              2,2D        judge
"""


def order(path: Path, vocabulary: Vocabulary) -> list[int]:
    """Return the row of each of our words in the authors' weight tables.

    The row of a word is its id in the authors' vocabulary file `path`. Raises InputError if the file
    lacks one of our words, has other words, or has ids with gaps.
    """
    vocabulary_words: tuple[str, ...] = getattr(vocabulary, "words", ())
    words = [*PCL_MARKS, *vocabulary_words[len(PCL_MARKS) :], *PCL_OTHERS]
    ids: dict[str, int] = read_json(path, "name a JSON file of word -> id")
    if missing := [word for word in words if word not in ids]:
        raise InputError(f"{path} lacks {missing[0]}; name the vocabulary of the checkpoint of IDC-PCL")
    if sorted(rows := [ids[word] for word in words]) != list(range(len(ids))):
        raise InputError(f"{path}: ids must run from 0 without gaps; name the checkpoint's own vocabulary")
    return rows


def _idc_pcl(
    marks: tuple[str, ...], rows: str, phase: str | None = None, switches: dict[str, bool] | None = None
) -> System:
    return System(
        title="IDC-PCL",
        model=MODEL,
        marks=(r"(word_embedding|img_project|output_layer)\.", *marks),
        table=table(SHARED, rows),
        settings=SETTINGS,
        features=FEATURES,
        unknown=("resize",),
        phase=phase,
        longest=40,
        switches=lambda sizes: switches or {},
        order=order,
        waves=partial(positions, switches=RELEASED),
    )


IDC_PCL_PRETRAINED = _idc_pcl((r"feat_regress\.",), CELLS, phase="pretrain")
IDC_PCL_JUDGING = _idc_pcl((r"pooler\.",), JUDGE)
IDC_PCL = _idc_pcl((), "", switches={"distractor_judging": False})
