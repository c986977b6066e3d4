"""Eager results on a GPU, and gradients, lie in memory as the CPU's do, however operands lie.

python -m tests.strides_on_a_gpu [path ...]        (of all samples without a path: minutes)
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import adjoint as ad
from tests.conformance.cases import make
from tests.samples import S
from tests.test_capture_strides import CHOICES, LAYOUTS, ROWS, strides

REFUSED = (RuntimeError, NotImplementedError, ValueError, IndexError, TypeError, ImportError)
# Elementwise ones, by the table and as fragments; reductions, views, what moves elements.
FEW = (
    "exp", "add", "where", "addcmul", "frexp", "i0", "special.zeta", "clamp", "sum", "amax",
    "cumsum", "softmax", "nn.functional.layer_norm", "nn.functional.gelu", "matmul", "flip", "cat",
    "conv1d", "Tensor.expand", "clone", "complex",
)  # fmt: skip


def given(row: S, layout: str, choice: str, device: str) -> tuple[Any, list[Any]]:
    """A row's function, and its operands on a device, of which those that are chosen lie so."""
    case = make(row, ad.float32)
    operands = []
    for k, x in enumerate(case.tensors):
        lies_so = CHOICES[choice](k) and x.ndim > 1 and x.numel()
        host = LAYOUTS[layout](x.detach()) if lies_so else x.detach().clone()
        there = host
        if device != "cpu":
            there = ad.empty_strided(host.shape, host.stride(), dtype=host.dtype, device=device)
            once = slice(1) if host.ndim and host.stride(0) == 0 else ...
            there[once].copy_(host[once])
        operands.append(there.requires_grad_() if there.is_floating_point() else there)
    return case.fn, operands


def steps(row: S, layout: str, choice: str, device: str) -> list[Any]:
    """How results lie, and their gradients by all operands that are floats."""
    fn, operands = given(row, layout, choice, device)
    outs = fn(*operands)
    wanted = [x for x in operands if x.requires_grad]
    followed = [x for x in outs if x.requires_grad and not x.dtype.is_complex]
    ones = [ad.ones_like(x) for x in followed]
    found = ad.autograd.grad(followed, wanted, ones, allow_unused=True) if followed else ()
    return strides([*outs, *found])


def difference(row: S, layout: str, choice: str) -> str | None:
    """How results lie there and here, where they do not lie alike."""
    try:
        want = steps(row, layout, choice, "cpu")
    except REFUSED:
        return None
    try:
        got = steps(row, layout, choice, "cuda")
    except REFUSED as error:
        # The stand-in has none of CuPy's companions.
        told = f"{row} {layout} {choice}: {type(error).__name__}: {error}"
        return None if isinstance(error, ImportError) else told[:300]
    return None if got == want else f"{row} {layout} {choice}: {got}, expected {want}"


def check(
    paths: Sequence[str],
    layouts: Sequence[str] = tuple(LAYOUTS),
    choices: Sequence[str] = ("all", "first"),
) -> None:
    """Of all samples of these functions; of all functions without any."""
    found = [
        difference(row, layout, choice)
        for row in ROWS
        if not paths or row.path in paths
        for layout in layouts
        for choice in choices
    ]
    assert not any(found), "\n".join(filter(None, found))


def main(paths: list[str]) -> None:
    """On the stand-in, whose kernels are not run."""
    importlib.import_module("tests.cupy_stand_in").connect(is_run=False)
    warnings.simplefilter("ignore")
    check(paths)
    print("all lie alike")


if __name__ == "__main__":
    main(sys.argv[1:])
