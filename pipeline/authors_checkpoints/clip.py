"""Import CLIP's weights from a file with OpenAI's or Hugging Face's names of the tensors.

See docs/checkpoints.md, "CLIP4IDC and CLIP". Our names are those in models/clip4idc/encoders.py. In
CLIP4IDC, the first blocks of the image tower encode single images, and the later blocks encode both
images together. The size `intra` is the number of first blocks. The blocks are numbered through the
whole tower. Therefore the same imported weights fit every value of `intra`.
"""

from math import isqrt
from pathlib import Path

from torch import Tensor

from pipeline.authors_checkpoints import tensor_table
from pipeline.authors_checkpoints.checkpoint_file import CheckpointFile, tensors_of
from pipeline.authors_checkpoints.tensor_table import Sizes, table
from pipeline.io.errors import InputError
from pipeline.text.vocabularies import exchanged

REMEDY = "name the file of CLIP with a ViT, in OpenAI's names or in Hugging Face's"
TOKENS = 49_408
ORDER = [exchanged(number) for number in range(TOKENS)]  # CLIP's token for each of our ids
OPENAIS = """
visual.conv1.weight                             D,3,p,p     patches.project.weight
visual.class_embedding                          D           patches.token
visual.positional_embedding                     N,D         patches.positions
visual.ln_pre.G                                 D           patches.norm
visual.transformer.resblocks.<n>.ln_{1,2}.G     D           blocks.<n>.norm_{1,2}
visual.transformer.resblocks.<n>.attn.A         3D,D        blocks.<n>.attention
visual.transformer.resblocks.<n>.mlp.c_fc.G     4D,D        blocks.<n>.mlp.0
visual.transformer.resblocks.<n>.mlp.c_proj.G   D,4D        blocks.<n>.mlp.2
visual.ln_post.G                                D           project.norm
visual.proj                                     D,E         project.map.weight          T
token_embedding.weight                          49408,T     text.tables.tokens.weight   words
positional_embedding                            C,T         text.tables.positions
transformer.resblocks.<k>.ln_{1,2}.G            T           text.blocks.<k>.norm_{1,2}
transformer.resblocks.<k>.attn.A                3T,T        text.blocks.<k>.attention
transformer.resblocks.<k>.mlp.c_fc.G            4T,T        text.blocks.<k>.mlp.0
transformer.resblocks.<k>.mlp.c_proj.G          T,4T        text.blocks.<k>.mlp.2
ln_final.G                                      T           text.norm
text_projection                                 T,E         text.map.weight             T
logit_scale                                     ()          log_scale
"""
NUMBERS = """
{input_resolution,context_length,vocab_size}    *           -                           ignored
"""
HUGGING_FACES = """
[vision_model]
embeddings.patch_embedding.weight               D,3,p,p     patches.project.weight
embeddings.class_embedding                      D           patches.token
embeddings.position_embedding.weight            N,D         patches.positions
pre_layrnorm.G                                  D           patches.norm
encoder.layers.<n>.layer_norm{1,2}.G            D           blocks.<n>.norm_{1,2}
encoder.layers.<n>.self_attn.{q,k,v,out}_proj.G D,D         blocks.<n>.attention.{query,key,value,output}
encoder.layers.<n>.mlp.fc1.G                    4D,D        blocks.<n>.mlp.0
encoder.layers.<n>.mlp.fc2.G                    D,4D        blocks.<n>.mlp.2
post_layernorm.G                                D           project.norm
embeddings.position_ids                         *           -                           ignored
[text_model]
embeddings.token_embedding.weight               49408,T     text.tables.tokens.weight   words
embeddings.position_embedding.weight            C,T         text.tables.positions
encoder.layers.<k>.layer_norm{1,2}.G            T           text.blocks.<k>.norm_{1,2}
encoder.layers.<k>.self_attn.{q,k,v,out}_proj.G T,T         text.blocks.<k>.attention.{query,key,value,output}
encoder.layers.<k>.mlp.fc1.G                    4T,T        text.blocks.<k>.mlp.0
encoder.layers.<k>.mlp.fc2.G                    T,4T        text.blocks.<k>.mlp.2
final_layer_norm.G                              T           text.norm
embeddings.position_ids                         *           -                           ignored
[]
visual_projection.weight                        E,D         project.map.weight
text_projection.weight                          E,T         text.map.weight
logit_scale                                     ()          log_scale
"""
# prefix of the image tower's tensors -> table
FORMATS = {"visual.": table(OPENAIS, NUMBERS), "vision_model.": table(HUGGING_FACES)}


def imported(file: CheckpointFile) -> dict[str, Tensor]:
    """Return name -> parameter of CLIP, with the rows of the token table in our vocabulary's order.

    Raises InputError, which names the tensor, if a tensor is missing, does not fit, or is not CLIP's.
    """
    path, tensors = file.path, tensors_of(file)
    formats = [rows for tower, rows in FORMATS.items() if any(name.startswith(tower) for name in tensors)]
    if not formats:
        raise InputError(f"{path} has no tensor of {' or '.join(FORMATS)}; {REMEDY}")
    match = tensor_table.read(path, formats[0], tensors, {}, REMEDY)
    side(path, match.sizes)
    return tensor_table.converted(match, ORDER)


def side(path: Path, sizes: Sizes) -> int:
    """Return the side of the model's images in pixels. Raises InputError if the images are not square."""
    patches = isqrt(sizes["N"] - 1) if sizes["N"] else 0
    if patches**2 + 1 != sizes["N"]:
        raise InputError(f"{path}: its image tower has {sizes['N']} positions, not a square plus 1; {REMEDY}")
    return patches * sizes["p"]
