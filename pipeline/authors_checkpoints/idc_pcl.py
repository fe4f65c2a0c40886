"""Import released checkpoints of IDC-PCL, of both phases (docs/checkpoints.md, "IDC-PCL").

A pre-trained file has its tensors in the entry model_state_dict. A fine-tuned file consists of tensors only.
The rows of the word tables are in the order of the authors' vocabulary. In our vocabulary, [MASK] and [CLS]
come after the words.
"""

from functools import partial
from pathlib import Path

from models.idc_pcl.network import positions
from models.idc_pcl.switches import RELEASED
from pipeline.authors_checkpoints.system import System
from pipeline.authors_checkpoints.tensor_table import table
from pipeline.config.store_contents import IMPORTED, Spec
from pipeline.io.errors import InputError
from pipeline.io.inputs import read_json
from pipeline.text.vocabularies import PCL_MARKS, PCL_OTHERS, Vocabulary

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


def _system(
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


PRETRAINED = _system((r"feat_regress\.",), CELLS, phase="pretrain")
JUDGING = _system((r"pooler\.",), JUDGE)
CAPTIONING = _system((), "", switches={"distractor_judging": False})
