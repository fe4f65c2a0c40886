"""Import released checkpoints of SCORER, DIRL, MEDIC, CARD, DUDA, and of VARD with LSTMs.

See docs/checkpoints.md, "SCORER and DIRL", and docs/checkpoints.md, "DUDA and VARD".

A file of SCORER, DIRL, MEDIC or CARD has the entries change_detector_state, speaker_state and model_cfg. The
last entry, an object of the authors' class, is not used. SCORER's files do not contain backward reasoning.
The imports of CARD and MEDIC were not tested with a released file. MEDIC's files have all names of DIRL's.

The authors of DUDA and VARD end captions with <NULL>, we with <END>. So the import exchanges these two rows
of the word tables. The model's outputs do not change.
"""

from pathlib import Path

from models.common.trainable import KINDS
from pipeline.authors_checkpoints.tensor_table import System, table
from pipeline.config.store_contents import Spec
from pipeline.text.vocabularies import END, NULL, Vocabulary

FEATURES = Spec(
    "resnet101", "imagenet", stride=16, finer=False, standardise=False, resize="opencv_bicubic", size=224
)
PLAIN = 1024  # channels of the features; DIRL's models for CLEVR-Change may have two coordinates as well
SPEAKER = """
[speaker_state]
core.embed.weight       V,e     decoder.embedding.weight    words
core.position_enc.pe    L,e     -                           sinusoids
core.fc.0.G             D,e     decoder.project
logit.G                 V,D     decoder.vocabulary          words
"""
LAYERS = """
[speaker_state]
core.layer.<m>.{self,cross}_att.A   3D,D    decoder.layers.<m>.{self,cross}_attention
core.layer.<m>.linear1.G            4D,D    decoder.layers.<m>.feed_forward.0
core.layer.<m>.linear2.G            D,4D    decoder.layers.<m>.feed_forward.3
core.layer.<m>.norm{1,2,3}.G        D       decoder.layers.<m>.norms.{0,1,2}
"""
SCORERS = """
[change_detector_state]
img.0.G                                     D,1026,1,1  encoding.project
{w,h}_embedding.weight                      14,D/2      encoding.{column,row}.weight
scorer.<n>.attention.{query,key,value}.G    D,D         difference.attentions.<n>.{query,key,value}
scorer.<n>.attention.layer_norm.G           D           difference.norms.<n>
scorer.<n>.attention.logit_scale            ()          regularisers.cv.contrast.s  last
embed_fc.0.G                                D,2D        difference.fuse
[speaker_state]
core.fc.2.G                                 D           decoder.norm
core.layer.<m>.self_attention.{query,key,value}.G    D,D  decoder.layers.<m>.self_attention.{query,key,value}
core.layer.<m>.dec_enc_attention.{query,key,value}.G D,D  decoder.layers.<m>.cross_attention.{query,key,value}
core.layer.<m>.hidden_intermediate.dense.G  D,D         decoder.layers.<m>.feed_forward.0
core.layer.<m>.output.dense.G               D,D         decoder.layers.<m>.feed_forward.2
core.layer.<m>.norm{1,2}.G                  D           decoder.layers.<m>.norms.{0,1}
core.layer.<m>.output.LayerNorm.G           D           decoder.layers.<m>.norms.2
"""
DETECTOR = """
[change_detector_state]
img.0.G                         D,C,1,1     encoding.project
{w,h}_embedding.weight          14,D/2      encoding.{column,row}.weight
mlp.0.G                         4D,D        regularisers.dirl.mlp.0
mlp.3.G                         D,4D        regularisers.dirl.mlp.3
transformer.<n>.attention.A     3D,D        difference.attentions.<n>
transformer.<n>.norm1.G         D           difference.norms.<n>
[speaker_state]
core.fc.1.G                     D           decoder.norm
"""
DIRLS = """
[speaker_state]
core.embed_fc.0.G               D,2D        difference.fuse
core.embed_fc.1.G               D           difference.norm
"""
MEDICS = """
[change_detector_state]
expert_modules_change.{0,1,2,3,4}.key_memory    S,2D        difference.routing.change.keys
expert_modules_change.{0,1,2,3,4}.value_memory  S,2D        difference.routing.change.values
expert_module_no_change.key_memory              S,2D        difference.routing.no_change.keys    one
expert_module_no_change.value_memory            S,2D        difference.routing.no_change.values  one
{change,type}_classifier.0.G                    R,2D,3,3    difference.routing.{change,kind}_router.0
change_classifier.2.G                           2,R,3,3     difference.routing.change_router.2
type_classifier.2.G                             5,R,3,3     difference.routing.kind_router.2
[speaker_state]
core.embed_fc.0.G                               D,4D        difference.fuse.map
core.embed_fc.1.G                               D           difference.fuse.norm
"""
CARDS = """
[change_detector_state]
img.0.G                             D,1024,1,1  encoding.project
positions                           197,D       difference.positions
{bef,aft}_cls_token                 1,1,D       difference.{before,after}_token
{encoder,transformer}.attention.A   3D,D        difference.{own,common}_block.attention
{encoder,transformer}.norm1.G       D           difference.{own,common}_block.norm
{common_proj,bef_diff,aft_diff}.G   D,D         difference.{common,before_own,after_own}
common_trans.0.G                    D,2D        difference.local_common.map
{diff_trans,diff_trans2}.0.G        D,2D        difference.{before,after}_local.map
fc.0.G                              D,2D        difference.fuse.map
temp                                ()          regularisers.con.temperature
"""
SCORER = System(
    title="SCORER",
    model="scorer",
    marks=(r"change_detector_state\.scorer\.",),
    table=table(SCORERS, SPEAKER),
    settings={"dropout": 0.1, "temperature": 0.5},
    features=FEATURES,
)
DIRL = System(
    title="DIRL",
    model="dirl_ccr",
    marks=(r"change_detector_state\.transformer\.",),
    table=table(DETECTOR, DIRLS, SPEAKER, LAYERS),
    settings={"dropout": 0.1, "alpha": 0.003, "temperature": 0.5},
    features=FEATURES,
    switches=lambda sizes: {"coordinates": True} if sizes["C"] == PLAIN + 2 else {},
)
MEDIC = System(
    title="MEDIC",
    model="dirl_medic",
    marks=(r"change_detector_state\.expert_modules_change\.",),
    table=table(DETECTOR, MEDICS, SPEAKER, LAYERS),
    settings={"dropout": 0.1, "alpha": 0.003, "temperature": 0.5, "kinds": list(KINDS)},
    features=FEATURES,
    switches=lambda sizes: {"coordinates": True} if sizes["C"] == PLAIN + 2 else {},
)
CARD = System(
    title="CARD",
    model="card",
    marks=(r"change_detector_state\.(positions|\w+_cls_token|common_proj)",),
    table=table(CARDS, SPEAKER, LAYERS),
    settings={"dropout": 0.1, "temperature": 0.07},
    features=FEATURES,
    unknown=("resize",),  # stated as "bicubic", without the library
)


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
    """Return each word's row in the authors' tables: its id, but <NULL> and <END> are exchanged."""
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
