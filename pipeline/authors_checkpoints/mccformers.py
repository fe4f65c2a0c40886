"""Import released checkpoints of MCCFormers-D and -S (docs/checkpoints.md, "MCCFormers").

A file contains the encoder and the decoder as objects of the authors' classes. They are read without running
code. The name of a tensor is the path of its module. The import was not tested with a released file.
"""

from pipeline.authors_checkpoints.system import System, order_by
from pipeline.authors_checkpoints.tensor_table import table
from pipeline.config.store_contents import IMPORTED, Spec
from pipeline.text.vocabularies import MCC_MARKS

FEATURES = Spec("resnet101", "imagenet", stride=16, finer=False, standardise=False, resize=IMPORTED, size=256)
SHARED = """
[encoder]
w_embedding.weight                      I,D/2       encoding.column.weight          first
h_embedding.weight                      J,D/2       encoding.row.weight             first
[decoder]
vocab_embedding.weight                  V,2D        decoder.embedding.weight        words
wdc.G                                   V,2D        decoder.vocabulary              words
position_encoding.pe                    P,1,2D      -                               sinusoids
transformer.layers.<m>.self_attn.A      6D,2D       decoder.layers.<m>.self_attention
transformer.layers.<m>.multihead_attn.A 6D,2D       decoder.layers.<m>.cross_attention
transformer.layers.<m>.linear1.G        8D,2D       decoder.layers.<m>.feed_forward.0
transformer.layers.<m>.linear2.G        2D,8D       decoder.layers.<m>.feed_forward.3
transformer.layers.<m>.norm{1,2,3}.G    2D          decoder.layers.<m>.norms.{0,1,2}
"""
DS = """
[encoder]
projection.G                            D,1024,1,1  encoding.project
transformer.<n>.attention.A             3D,D        difference.layers.<n>.attention
transformer.<n>.linear1.G               4D,D        difference.layers.<n>.feed_forward.0
transformer.<n>.linear2.G               D,4D        difference.layers.<n>.feed_forward.3
transformer.<n>.norm{1,2}.G             D           difference.layers.<n>.norms.{0,1}
"""
SS = """
[encoder]
input_proj.G                            D,1024,1,1  encoding.project
idx_embedding.weight                    2,D         difference.images.weight
transformer.layers.<n>.self_attn.A      3D,D        difference.layers.<n>.attention
transformer.layers.<n>.linear1.G        4D,D        difference.layers.<n>.feed_forward.0
transformer.layers.<n>.linear2.G        D,4D        difference.layers.<n>.feed_forward.3
transformer.layers.<n>.norm{1,2}.G      D           difference.layers.<n>.norms.{0,1}
"""


def _system(model: str, marks: tuple[str, ...], own: str) -> System:
    return System(
        title="MCCFormers",
        model=model,
        marks=(r"encoder\.\w_embedding\.", r"decoder\.(vocab_embedding|wdc)\.", *marks),
        table=table(own, SHARED),
        settings={"dropout": 0.5, "default_dropout": 0.1},
        features=FEATURES,
        unknown=("resize", "size"),  # a smaller grid uses the first rows of position tables
        longest=66,
        order=order_by(MCC_MARKS),
    )


S = _system("mccformers_s", (r"encoder\.(idx_embedding|input_proj)\.",), SS)
D = _system("mccformers_d", (), DS)
