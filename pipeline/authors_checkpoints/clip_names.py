"""Where CLIP's parameters stand in its files: in OpenAI's names, and in Hugging Face's.

Source: docs/methods.md, "CLIP4IDC".
Ours are those of models/clip4idc/encoders.py: patches, blocks, project and text, with the scale's logarithm;
blocks are numbered through the whole image tower, so that one file fits every split.
"""

import re
from dataclasses import dataclass

import torch
from torch import nn

from models.clip4idc.encoders import ClipSizes, ImageEncoder, Projection, TextEncoder
from models.clip4idc.switches import ClipSwitches
from pipeline.authors_checkpoints.systems import JOINED, Place


@dataclass(frozen=True)
class Names:
    """One way of naming. Patterns of ours -> theirs; {0} is a block's number."""

    title: str
    modules: dict[str, str]
    blocks: dict[str, str]  # by "" and "text.": where a tower's blocks stand
    inside: dict[str, str]  # of a block
    transposed: tuple[str, ...]  # ours that are theirs transposed
    joined: bool  # an attention's query, key and value are one tensor
    unused: str  # a pattern of theirs that are no parameters

    def place(self, ours: str) -> Place:
        """Where our parameter of that name stands. Raises KeyError where nowhere."""
        if match := re.match(r"(text\.|)blocks\.(\d+)\.(.+)\.(weight|bias)$", ours):
            return self._of_block(self.blocks[match[1]].format(match[2]), match[3], match[4])
        for module, theirs in self.modules.items():
            if ours == module or ours.startswith(f"{module}."):
                return Place(theirs + ours.removeprefix(module), transposed=ours in self.transposed)
        raise KeyError(ours)

    def _of_block(self, block: str, module: str, kind: str) -> Place:
        part = module.rpartition(".")[2]
        if self.joined and part in JOINED:
            return Place(f"{block}.attn.in_proj_{kind}", JOINED.index(part))
        return Place(f"{block}.{self.inside[module]}.{kind}")


OPENAI = Names(
    title="OpenAI's names",
    modules={
        "patches.project": "visual.conv1",
        "patches.token": "visual.class_embedding",
        "patches.positions": "visual.positional_embedding",
        "patches.norm": "visual.ln_pre",
        "project.norm": "visual.ln_post",
        "project.map.weight": "visual.proj",
        "text.tables.tokens": "token_embedding",
        "text.tables.positions": "positional_embedding",
        "text.norm": "ln_final",
        "text.map.weight": "text_projection",
        "log_scale": "logit_scale",
    },
    blocks={"": "visual.transformer.resblocks.{0}", "text.": "transformer.resblocks.{0}"},
    inside={
        "norm_1": "ln_1",
        "norm_2": "ln_2",
        "attention.output": "attn.out_proj",
        "mlp.0": "mlp.c_fc",
        "mlp.2": "mlp.c_proj",
    },
    transposed=("project.map.weight", "text.map.weight"),
    joined=True,
    unused=r"(input_resolution|context_length|vocab_size)$",
)
HUGGING_FACE = Names(
    title="Hugging Face's names",
    modules={
        "patches.project": "vision_model.embeddings.patch_embedding",
        "patches.token": "vision_model.embeddings.class_embedding",
        "patches.positions": "vision_model.embeddings.position_embedding.weight",
        "patches.norm": "vision_model.pre_layrnorm",  # as it is spelt there
        "project.norm": "vision_model.post_layernorm",
        "project.map": "visual_projection",
        "text.tables.tokens": "text_model.embeddings.token_embedding",
        "text.tables.positions": "text_model.embeddings.position_embedding.weight",
        "text.norm": "text_model.final_layer_norm",
        "text.map": "text_projection",
        "log_scale": "logit_scale",
    },
    blocks={"": "vision_model.encoder.layers.{0}", "text.": "text_model.encoder.layers.{0}"},
    inside={
        "norm_1": "layer_norm1",
        "norm_2": "layer_norm2",
        **{f"attention.{part}": f"self_attn.{part[0]}_proj" for part in JOINED},
        "attention.output": "self_attn.out_proj",
        "mlp.0": "mlp.fc1",
        "mlp.2": "mlp.fc2",
    },
    transposed=(),
    joined=False,
    unused=r"(vision|text)_model\.embeddings\.position_ids$",
)
FORMATS = (OPENAI, HUGGING_FACE)


def shapes(sizes: ClipSizes) -> dict[str, tuple[int, ...]]:
    """Names and shapes of all parameters of a CLIP of these sizes, ours; `intra` is its number of blocks."""
    with torch.device("meta"):
        image = ImageEncoder(sizes, ClipSwitches(), sizes.intra)
        parts: dict[str, nn.Module] = {"": image, "project.": Projection(sizes), "text.": TextEncoder(sizes)}
    found = {
        f"{before}{name}": tuple(parameter.shape)
        for before, part in parts.items()
        for name, parameter in part.named_parameters()
    }
    return found | {"log_scale": ()}
