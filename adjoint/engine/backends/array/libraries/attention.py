"""Attention as operations of cuDNN: over long sequences, or of wide heads, it is faster than ours.

Tensors are (batch, heads, length, size) in any order of the first three. Scores are masked by
position alone. What each query's weights add up to is kept as its logsumexp, as our own kernels
keep it (Note [attention], `ops.nn.attention_rows`); backward, cuDNN wants the result too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

from adjoint.engine.backends.array.libraries.cudnn import DTYPES, CudnnOperation
from adjoint.engine.core.dtype import named

Strides = tuple[int, ...]
FORWARD, BACKWARD = "attention", "attention backward"
# The tensors of a call, in the order of its addresses; the last of each are its results.
TENSORS = {
    FORWARD: ("query", "key", "value", "out", "lse"),
    BACKWARD: (
        "query", "key", "value", "lse", "grad", "out", "query_grad", "key_grad", "value_grad",
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class CudnnAttention:
    """Attention, or its three gradients, of halves."""

    kind: str
    dtype: str
    batch: tuple[int, int, int]  # sequences, heads of queries, heads of keys
    queries: int
    keys: int
    size: int
    value_size: int
    scale: float
    causal: bool
    strides: tuple[Strides, ...]  # of TENSORS, in elements
    refs: tuple[Any, ...] = ()  # a kernel's references, of which it has none

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of one of its tensors."""
        count, heads, key_heads = self.batch
        if name.startswith(("key", "value")):
            outer = (count, key_heads, self.keys)
        else:
            outer = (count, heads, self.queries)
        if name == "lse":
            return (*outer, 1)
        wide = name.startswith(("value", "out")) or name == "grad"
        return (*outer, self.value_size if wide else self.size)

    @property
    def work(self) -> int:
        """Products and sums."""
        times = 2 if self.kind == FORWARD else 5
        all_pairs = prod(self.batch[:2]) * self.queries * self.keys
        return times * all_pairs * (self.size + self.value_size) // (2 if self.causal else 1)


def operation(call: CudnnAttention) -> CudnnOperation:
    """What is asked of cuDNN."""
    item = named(call.dtype).itemsize
    sizes = tuple(prod(call.shape(n)) * (4 if n == "lse" else item) for n in TENSORS[call.kind])
    spread = tuple(
        (1 + sum((n - 1) * s for n, s in zip(call.shape(name), strides, strict=True)))
        * (4 if name == "lse" else item)
        for name, strides in zip(TENSORS[call.kind], call.strides, strict=True)
    )
    return CudnnOperation(key=call, build=builder(call), sizes=tuple(map(max, sizes, spread)))


def builder(call: CudnnAttention) -> Callable[[Any, Any], list[Any]]:
    """What puts it into a graph."""

    def build(module: Any, graph: Any) -> list[Any]:
        kinds = module.data_type
        names, strides = (
            TENSORS[call.kind],
            dict(zip(TENSORS[call.kind], call.strides, strict=True)),
        )

        def laid(name: str) -> dict[str, Any]:
            kind = kinds.FLOAT if name == "lse" else getattr(kinds, DTYPES[call.dtype])
            return {"dim": list(call.shape(name)), "stride": list(strides[name]), "data_type": kind}

        def given(name: str) -> Any:
            return graph.tensor(name=name, **laid(name))

        how = {"attn_scale": call.scale, "use_causal_mask": call.causal, "name": "attention"}
        read = [given(n) for n in names[: 3 if call.kind == FORWARD else 6]]
        if call.kind == FORWARD:
            q, k, v = read
            results = graph.sdpa(q=q, k=k, v=v, generate_stats=True, **how)
        else:
            q, k, v, lse, grad, out = read
            results = graph.sdpa_backward(q=q, k=k, v=v, o=out, dO=grad, stats=lse, **how)
        for name, x in zip(names[len(read) :], results, strict=True):
            about = laid(name)
            x.set_output(True).set_data_type(about["data_type"])
            x.set_dim(about["dim"]).set_stride(about["stride"])
        return [*read, *results]

    return build
