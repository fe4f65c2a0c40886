"""Import released checkpoints of DUDA, and of VARD with LSTMs (docs/checkpoints.md, "DUDA and VARD").

The authors' captions end with <NULL>, our captions with <END>. So the import exchanges these two rows of the
word tables. The model's outputs do not change.
"""

from pathlib import Path

from pipeline.authors_checkpoints.scorer_dirl_card import FEATURES
from pipeline.authors_checkpoints.system import System
from pipeline.authors_checkpoints.tensor_table import table
from pipeline.text.vocabularies import END, NULL, Vocabulary

SHARED = """
[change_detector_state]
embed.1.G                               M           difference.map.norm
att.G                                   1,M,1,1     difference.map.weigh
[speaker_state]
embed.0.weight                          V,e         decoder.words.weight            words
core.weight_fc.0.G                      3,H         decoder.weights
core.module_att_lstm.weight_ih          4H,2H       decoder.weighing.weight_ih
core.{module_att,lang}_lstm.weight_hh   4H,H        decoder.{weighing,speaking}.weight_hh
core.{module_att,lang}_lstm.bias_{ih,hh}    4H      decoder.{weighing,speaking}.bias_{ih,hh}
logit.G                                 V,H         decoder.vocabulary              words
"""
# fc1, the classifier of the change type, is not used by any loss
DUDAS = """
[change_detector_state]
fc1.G                                   6,1026      -
embed.0.G                               M,2052,1,1  difference.map.embed
[speaker_state]
core.embed.0.G                          H,3078      decoder.look
core.lang_lstm.weight_ih                4H,1026+e   decoder.speaking.weight_ih
"""
VARDS = """
[change_detector_state]
fc1.G                                   6,D         -
embed.0.G                               M,2D,1,1    difference.map.embed
img.G                                   D,1026      encoding.1
perl.{query,key,value}.G                D,D         difference.disentangle.perl.attention.{query,key,value}
perl.pos.proj.0.G                       D,1,3,3     difference.disentangle.perl.places
{perl,urd}.layer_norm.G                 D           difference.disentangle.{perl.norm,same}
{diff,diff_feat}.0.G                    D,2D        difference.{disentangle.fuse,fuse}
{diff,diff_feat}.1.G                    D           difference.{disentangle.norm,norm}
[speaker_state]
core.embed.0.G                          H,3D        decoder.look
core.lang_lstm.weight_ih                4H,D+e      decoder.speaking.weight_ih
"""


def exchanged(path: Path, vocabulary: Vocabulary) -> list[int]:
    """Return for each word of the vocabulary its row in the authors' word tables.

    The row is the word's id, except that the ids of <NULL> and <END> are exchanged.
    """
    return [{NULL: END, END: NULL}.get(row, row) for row in range(len(vocabulary))]


def _system(title: str, marks: tuple[str, ...], rows: str, heads: int) -> System:
    return System(
        title=title,
        model=title.lower(),
        marks=(r"speaker_state\.core\.(module_att|lang)_lstm\.", *marks),
        table=table(rows, SHARED),
        settings={"dropout": 0.5},
        features=FEATURES,
        unknown=("resize",),
        heads=heads,
        longest=24,
        order=exchanged,
    )


VARD = _system("VARD", (r"change_detector_state\.(img|perl)\.",), VARDS, 4)
DUDA = _system("DUDA", (), DUDAS, 1)
