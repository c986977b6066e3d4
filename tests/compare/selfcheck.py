"""PyTorch's samples as inputs to our own consistency: capture, forward mode, vmap.

    python -m tests.compare.selfcheck [pattern ...] [--limit 4] [-v]

For each operation's float64 samples: captured equals eager (values and gradients), the jvp agrees
with the vjp, and vmap over every tensor argument equals a loop.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
import traceback
import warnings
from collections import Counter
from typing import Any

import numpy as np
import torch
from torch.testing._internal.common_methods_invocations import op_db

import adjoint as ad
from adjoint.engine.core.spec import UnknownShapeError
from adjoint.engine.core.tree import flatten, unflatten
from adjoint.graph import capture
from tests.compare.bridge import Unsupported, ours
from tests.compare.names import NONDETERMINISTIC, WANTED
from tests.compare.opinfo import Sweep, describe, resolve

# Rounding by design (casts to halves), changes of size in place, and windows on memory outside.
LEFT_OUT = frozenset(("bfloat16", "half", "resize_", "resize_as_", "as_strided"))


def is_float(x: Any) -> bool:
    return isinstance(x, ad.Tensor) and x.dtype.is_inexact


def array(x: Any) -> Any:
    return x.detach().numpy()


def close(a: Any, b: Any, what: str) -> None:
    narrow = a.dtype.itemsize < (16 if a.dtype.kind == "c" else 8) and a.dtype.kind in "fc"
    rtol, atol = (1e-5, 1e-5) if narrow else (1e-7, 1e-9)
    np.testing.assert_allclose(a, b, rtol=rtol, atol=atol, err_msg=what)


# Refusals that are right: values asked for while they are unknown, losses that depend on a phase,
# and memory outside the tensor that only the original storage has.
RIGHTLY_REFUSED = (
    "is not known inside",
    "up to multiplication by",
    "outside",
    "out of bounds",
    "a sparse gradient cannot be part",
    "of layout adjoint.sparse",
    "not supported with sparse gradients",
)


NO_DERIVATIVE = ("derivative", "not differentiable", "automatic differentiation")


def refused_by_both(error: Exception, op: Any, sample: Any) -> bool:
    """Whether a derivative is missing that PyTorch does not have either."""
    if not any(text in str(error) for text in NO_DERIVATIVE):
        return False

    def tracked(x: Any) -> Any:
        inexact = isinstance(x, torch.Tensor) and (x.is_floating_point() or x.is_complex())
        return x.detach().clone().requires_grad_() if inexact else x

    given = ((sample.input, *sample.args), sample.kwargs)
    args, kwargs = torch.utils._pytree.tree_map(tracked, given)
    try:
        outs = torch.utils._pytree.tree_leaves(op.op(*args, **kwargs))
        sum(
            o.abs().sum() for o in outs if isinstance(o, torch.Tensor) and o.requires_grad
        ).backward()
    except (RuntimeError, NotImplementedError) as theirs:
        return any(text in str(theirs) for text in NO_DERIVATIVE)
    return False


def moves_without_gradient(name: str, sample: Any) -> bool:
    """Whether a gradient is not the transpose, as in PyTorch: of rows of padding, by frequency."""
    changed = {"padding_idx", "scale_grad_by_freq"} & sample.kwargs.keys()
    return name == "nn.functional.embedding" and bool(changed)


def found_twice(name: str, tensors: list[Any]) -> bool:
    """Whether unpooling writes two values to one place, where overlapping windows found them.

    As in PyTorch both then get its gradient, while the tangent is that of the one written last.
    """
    if "max_unpool" not in name:
        return False
    rank = int(name[-2])
    places = next(t for t in tensors if t.dtype is ad.int64)
    rows = places.reshape(-1, int(np.prod(places.shape[places.ndim - rank :])))
    return any(row.unique().numel() < row.numel() for row in rows)


class Check:
    """One sample, as a function of its tensors."""

    def __init__(self, fn: Any, args: Any, kwargs: Any) -> None:
        leaves, self.structure = flatten((args, kwargs))
        self.leaves = [x.detach() if isinstance(x, ad.Tensor) else x for x in leaves]
        self.places = [i for i, x in enumerate(leaves) if isinstance(x, ad.Tensor)]
        self.target = fn

    @property
    def tensors(self) -> list[Any]:
        return [self.leaves[i] for i in self.places]

    def __call__(self, *tensors: Any) -> list[Any]:
        leaves = list(self.leaves)
        for i, t in zip(self.places, tensors, strict=True):
            leaves[i] = t
        args, kwargs = unflatten(self.structure, leaves)
        return [t for t in flatten(self.target(*args, **kwargs))[0] if isinstance(t, ad.Tensor)]

    def with_gradients(self, *tensors: Any) -> list[Any]:
        outs = self(*tensors)
        leaves = [t.detach().clone().requires_grad_() if is_float(t) else t for t in tensors]
        wanted = [t for t in leaves if is_float(t)]
        tracked = [o for o in self(*leaves) if o.requires_grad]
        if not tracked:
            return outs
        seeds = [ad.ones_like(o) * 0.7 for o in tracked]
        grads = ad.autograd.grad(tracked, wanted, seeds, materialize_grads=True)
        return [*outs, *grads]

    def captured(self) -> None:
        want = self.with_gradients(*self.tensors)
        got = capture(self.with_gradients)(*self.tensors)
        for i, (g, w) in enumerate(zip(got, want, strict=True)):
            assert g.dtype is w.dtype, f"captured result {i}: {g.dtype} != {w.dtype}"
            close(array(g), array(w), f"captured result {i}")

    def forward(self) -> None:
        floats = [t for t in self.tensors if is_float(t)]
        if not floats:
            return
        rng = np.random.default_rng(0)

        def of_floats(*given: Any) -> Any:
            supply = iter(given)
            return tuple(
                o
                for o in self(*[next(supply) if is_float(t) else t for t in self.tensors])
                if is_float(o)
            )

        def draw(t: Any) -> Any:
            a = rng.standard_normal(tuple(t.shape))
            return ad.tensor(
                a + 1j * rng.standard_normal(tuple(t.shape)) if t.dtype.is_complex else a
            ).to(t.dtype)

        tangents = [draw(t) for t in floats]
        outs, pushed = ad.func.jvp(of_floats, tuple(floats), tuple(tangents))
        if not outs:
            return
        _, pull = ad.func.vjp(of_floats, *floats)
        seeds = tuple(draw(o) for o in outs)
        pulled = pull(seeds)
        a = sum(
            np.real(np.sum(np.conj(array(u)) * array(t)))
            for u, t in zip(seeds, pushed, strict=True)
        )
        b = sum(
            np.real(np.sum(np.conj(array(g)) * array(v)))
            for g, v in zip(pulled, tangents, strict=True)
        )
        if np.isfinite(a) and np.isfinite(b):
            assert abs(a - b) <= 1e-6 * max(1, abs(a), abs(b)), f"jvp {a} != vjp {b}"

    def batched(self) -> None:
        if not self.tensors:
            return
        want = self(*self.tensors)
        doubled = [ad.stack([t, t]) for t in self.tensors]
        got = ad.func.vmap(lambda *ts: tuple(self(*ts)))(*doubled)
        for i, (g, w) in enumerate(zip(got, want, strict=True)):
            for lane in (0, 1):
                close(array(g[lane]), array(w), f"vmap result {i}")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("patterns", nargs="*")
    parser.add_argument("--limit", type=int, default=4)
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    sweep = Sweep(options.limit, False, True)
    passed: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    first: dict[str, str] = {}
    for op in op_db:
        skip = op.name not in WANTED or op.name in NONDETERMINISTIC or op.name in LEFT_OUT
        if skip or (
            options.patterns and not any(fnmatch.fnmatchcase(op.name, p) for p in options.patterns)
        ):
            continue
        fn = resolve(op.name)
        for dtype in (torch.float64, torch.complex128, torch.int64):
            if dtype not in op.dtypes:
                continue
            for sample in sweep.take(op, dtype, requires_grad=False):
                try:
                    check = Check(fn, ours((sample.input, *sample.args)), ours(sample.kwargs))
                    check(*check.tensors)
                except Exception:
                    continue  # the comparison itself reports these
                for kind in ("captured", "forward", "batched"):
                    if kind == "forward" and (
                        found_twice(op.name, check.tensors)
                        or moves_without_gradient(op.name, sample)
                    ):
                        continue
                    try:
                        getattr(check, kind)()
                        passed[op.name] += 1
                    except (UnknownShapeError, Unsupported):
                        continue
                    except Exception as error:
                        if any(text in str(error) for text in RIGHTLY_REFUSED):
                            continue
                        if refused_by_both(error, op, sample):
                            continue
                        failed[op.name] += 1
                        first.setdefault(
                            f"{op.name} {kind}",
                            f"{describe(sample)}: {type(error).__name__}: {str(error).strip()[:200]}",
                        )
                        if options.verbose:
                            print(f"--- {op.name} {kind} {describe(sample)}")
                            traceback.print_exception(error, limit=-5)
    for name, text in first.items():
        print(f"FAIL {name}: {' '.join(text.split())}")
    print(f"{sum(passed.values())} passed, {sum(failed.values())} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
