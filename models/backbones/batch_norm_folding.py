"""Fold batch norms into the convolutions before them, so that inference is faster.

A convolution (weights w, bias b) followed by a batch norm is itself a convolution of the input x:
y = (w * x + b - mean) / sqrt(var + eps) * gain + shift.
"""

from collections import Counter
from collections.abc import Iterator
from typing import cast

from timm.layers.conv2d_same import Conv2dSame
from timm.layers.norm_act import BatchNormAct2d
from torch import fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

CONVOLUTIONS = (nn.Conv2d, Conv2dSame)  # subclasses are not folded: some change their weights in forward
NORMS = (nn.BatchNorm2d, BatchNormAct2d)


class _Tracer(fx.Tracer):
    def is_leaf_module(self, module: nn.Module, qualified: str) -> bool:
        return type(module) in CONVOLUTIONS + NORMS or super().is_leaf_module(module, qualified)


def fold(network: nn.Module) -> int | None:
    """Fold batch norms into convolutions of a network in evaluation mode; return the number of folded norms.

    A batch norm is folded if no other layer uses the convolution's output, and if norm and convolution are
    called exactly once in the forward pass. Returns None if torch.fx cannot trace the forward pass.
    """
    if not any(type(part) in NORMS for part in network.modules()):
        return 0
    try:
        graph = _Tracer().trace(network)
    except (fx.proxy.TraceError, TypeError, RuntimeError, ValueError, AttributeError):
        return None
    pairs = list(_pairs(network, graph))
    for before, after in pairs:
        convolution, norm = cast(nn.Conv2d, network.get_submodule(before)), network.get_submodule(after)
        network.set_submodule(before, fuse_conv_bn_eval(convolution, cast(nn.BatchNorm2d, norm)))
        network.set_submodule(after, norm.act if isinstance(norm, BatchNormAct2d) else nn.Identity())
    return len(pairs)


def _pairs(network: nn.Module, graph: fx.Graph) -> Iterator[tuple[str, str]]:
    """Yield (name of a convolution, name of the batch norm that can be folded into it)."""
    calls = Counter(
        id(network.get_submodule(str(node.target))) for node in graph.nodes if node.op == "call_module"
    )
    for node in graph.nodes:
        before = node.args[0] if node.args else None
        if not (
            _is(network, node, NORMS) and isinstance(before, fx.Node) and _is(network, before, CONVOLUTIONS)
        ):
            continue
        norm, convolution = (network.get_submodule(str(call.target)) for call in (node, before))
        called_once = calls[id(norm)] == calls[id(convolution)] == 1
        if called_once and len(before.users) == 1 and norm.running_var is not None:
            yield str(before.target), str(node.target)


def _is(network: nn.Module, node: fx.Node, kinds: tuple[type[nn.Module], ...]) -> bool:
    return node.op == "call_module" and type(network.get_submodule(str(node.target))) in kinds
