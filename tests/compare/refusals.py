"""Bad inputs into every module of PyTorch's database: both frameworks refuse them alike.

    python -m tests.compare.refusals                    every module both have
    python -m tests.compare.refusals 'Conv*' LayerNorm  by name or pattern

Each tensor of each sample is replaced by one of another rank, size or dtype. Where both refuse,
the exception's type must be the same; where PyTorch refuses a rank or a size, we must too.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from typing import Any

import torch

import adjoint as ad
from tests.compare.bridge import Unsupported
from tests.compare.errors import builtin
from tests.compare.modules import Pair, entries, samples, translate

# (module, change): what PyTorch does there, and why we do something else.
ON_PURPOSE = {
    ("GroupNorm", "last of 1"): "counts values per channel before it divides channels by groups",
    ("InstanceNorm*", "batch of 0"): "an accident of running statistics; ours leaves them alone",
    ("CTCLoss", "no dimensions"): "reads a size before it counts the dimensions",
    ("*NLLLoss", "channels of 0"): "a mismatch with sizes never given; ours names the class",
    ("CrossEntropyLoss", "channels of 0"): "as NLLLoss",
    ("CrossEntropyLoss", "one sample"): "takes a class for probabilities without dimensions",
    ("CrossEntropyLoss", "no dimensions"): "as above",
    ("CrossEntropyLoss", "rank + 1"): "an accident of label smoothing",
    ("GaussianNLLLoss", "* of 0"): "an accident of broadcasting; ours says that var does not fit",
    ("FractionalMaxPool*", "complex64"): "blames its random samples",
    ("AvgPool3d", "last of 1"): "ignores ceil_mode in its check",
    ("Conv*", "bool"): "with padding='same' it asks what is implemented before it compares dtypes",
    ("LazyConv*", "bool"): "as Conv",
    ("MultiheadAttention", "complex64"): "blames the masks",
    ("Transformer*", "complex64"): "as MultiheadAttention",
    ("TransformerDecoderLayer", "no dimensions"): "transposes the memory before it counts",
    ("TransformerDecoderLayer", "one dimension"): "as above",
    ("LinearCrossEntropyLoss", "*"): "slices the batch before it compares sizes",
}


def changes(t: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """(what was changed, the tensor changed)."""
    yield "rank + 1", t.unsqueeze(0)
    yield "rank + 2", t[None, None]
    if t.ndim:
        yield "batch + 1", t.new_ones((t.shape[0] + 1, *t.shape[1:]))
    if not t.is_floating_point():
        yield "float32", t.float()
        return
    yield "no dimensions", t.new_zeros(())
    yield "one dimension", t.new_zeros(3)
    if t.ndim and t.shape[0]:
        yield "one sample", t[0]
    if t.ndim:
        yield "last + 1", t.new_ones((*t.shape[:-1], t.shape[-1] + 1))
        yield "last of 0", t.new_ones((*t.shape[:-1], 0))
        yield "last of 1", t.new_ones((*t.shape[:-1], 1))
        yield "batch of 0", t.new_ones((0, *t.shape[1:]))
    if t.ndim > 1:
        yield "channels + 1", t.new_ones((t.shape[0], t.shape[1] + 1, *t.shape[2:]))
        yield "channels of 0", t.new_ones((t.shape[0], 0, *t.shape[2:]))
    for dtype in (torch.int64, torch.bool, torch.complex64, torch.float64):
        yield str(dtype)[6:], t.detach().to(dtype)


DTYPES = ("int64", "bool", "complex64", "float64", "float32")


def refusal(module: Any, args: Any, kwargs: Any) -> Exception | None:
    """What a module raises, if it does."""
    try:
        module(*args, **kwargs)
    except Exception as error:
        return error
    return None


def excused(name: str, change: str) -> bool:
    def fits(pattern: str, word: str) -> bool:
        if "*" not in pattern:
            return pattern == word
        before, after = pattern.split("*")
        return word.startswith(before) and word.endswith(after)

    return any(fits(m, name) and fits(c, change) for m, c in ON_PURPOSE)


def disagreement(pair: Pair, name: str, args: list[Any], change: str) -> str | None:
    """How the two frameworks take the same bad arguments differently, if they do."""
    kwargs = pair.args[1]
    given, named = translate((args, dict(kwargs)))
    with torch.no_grad(), ad.no_grad():
        theirs = refusal(pair.theirs, args, kwargs)
        ours = refusal(pair.ours, given, named)
    if theirs is None or excused(name, change):
        return None
    if ours is None:
        return None if change in DTYPES else f"accepted, PyTorch: {theirs!r}"
    return None if builtin(ours) is type(theirs) else f"{ours!r}, PyTorch: {theirs!r}"


def failures(name: str, info: Any, limit: int | None = None) -> Iterator[str]:
    """What differs, a line each."""
    for sample in samples(info, True, torch.float32, limit):
        try:
            pair = Pair(info, name, sample, training=True)
        except Unsupported:
            continue
        args = pair.args[0]
        for place, x in enumerate(args):
            for change, t in changes(x) if isinstance(x, torch.Tensor) else ():
                try:
                    found = disagreement(pair, name, [*args[:place], t, *args[place + 1 :]], change)
                except Unsupported:
                    continue
                if found:
                    made = sample.constructor_input
                    yield f"{name}{made.args} ({change} in argument {place}): {found}"


def main() -> int:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    count = 0
    for name, info in entries(sys.argv[1:]):
        for line in failures(name, info):
            count += 1
            print(line)
    print(f"{count} differ")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
