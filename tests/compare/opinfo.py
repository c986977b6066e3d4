"""The sweep: PyTorch's own operation database, run through both frameworks.

    python -m tests.compare.opinfo                       everything
    python -m tests.compare.opinfo add linalg.*          by name or pattern
    python -m tests.compare.opinfo --dtypes float32 --limit 5 -v sum

For each operation, dtype and sample input: value, dtype, shape; in-place and method forms; error
inputs; and for float64 and complex128 the gradients. Prints one line per failing operation.
"""

from __future__ import annotations

import argparse
import fnmatch
import functools
import re
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map

import adjoint as ad
from tests.compare.bridge import OURS_OF, Unsupported, ours, theirs
from tests.compare.names import (
    IMPRECISE,
    JUDGED_IN_FLOAT32,
    NONDETERMINISTIC,
    ON_PURPOSE,
    WANTED,
)

TOLERANCE = {
    torch.float64: (1e-7, 1e-7),
    torch.complex128: (1e-7, 1e-7),
    torch.float32: (2e-4, 2e-4),
    torch.complex64: (2e-4, 2e-4),
    torch.float16: (5e-3, 5e-3),
    torch.bfloat16: (3e-2, 3e-2),
}
DTYPES = (
    "float64",
    "float32",
    "float16",
    "bfloat16",
    "complex128",
    "complex64",
    "int64",
    "int32",
    "uint8",
    "int8",
    "int16",
    "bool",
)


# Operations the database calls through a wrapper with another order of arguments.
ADAPTERS = {
    "nn.functional.embedding": lambda w, i, **kwargs: ad.nn.functional.embedding(i, w, **kwargs),
    "nn.functional.embedding_bag": (
        lambda w, i, **kwargs: ad.nn.functional.embedding_bag(i, w, **kwargs)
    ),
    "einsum": lambda tensors, equation: ad.einsum(equation, tensors),
    "where": lambda x, condition, other, **kwargs: ad.where(condition, x, other, **kwargs),
    "zero_": lambda x: x.clone().zero_(),
    "resize_": lambda x, shape: x.clone().resize_(shape),
    "resize_as_": lambda x, other: x.clone().resize_as_(other),
    "polygamma": lambda x, n, **kwargs: ad.polygamma(n, x, **kwargs),
    "special.polygamma": lambda x, n, **kwargs: ad.special.polygamma(n, x, **kwargs),
    "linalg.lstsq[grad_oriented]": lambda a, b, driver: ad.linalg.lstsq(a, b, driver=driver)[:2],
    "linalg.pinv[singular]": lambda a, b: ad.linalg.pinv(a @ b.mT),
    "svd_lowrank": lambda a, b, **kwargs: ad.svd_lowrank(a @ b.mT, **kwargs),
    "pca_lowrank": lambda a, b, **kwargs: ad.pca_lowrank(a @ b.mT, **kwargs),
}


def resolve(name: str) -> Any:
    """Our function of that name: a function of the namespace, else a Tensor method."""
    if name in ADAPTERS:
        return ADAPTERS[name]
    target: Any = ad
    for part in name.split("."):
        target = getattr(target, part, None)
        if target is None:
            break
    if target is None or name.startswith("__") or isinstance(target, ad.dtype):
        target = getattr(ad.Tensor, name, None)
    if isinstance(target, property):
        return target.fget
    return target


def compare(got: Any, want: Any, what: str, at_least: float = 0) -> None:
    """Raise unless the results agree in structure, dtype, shape and value."""
    if isinstance(want, torch.Tensor):
        if not isinstance(got, ad.Tensor):
            raise AssertionError(f"{what}: expected a tensor, got {type(got).__name__}")
        if tuple(got.shape) != tuple(want.shape):
            raise AssertionError(f"{what}: shape {tuple(got.shape)} != {tuple(want.shape)}")
        if want.dtype not in OURS_OF:
            raise Unsupported(str(want.dtype))
        if got.dtype is not OURS_OF[want.dtype]:
            raise AssertionError(f"{what}: dtype {got.dtype} != {want.dtype}")
        rtol, atol = TOLERANCE.get(want.dtype, (0, 0))
        torch.testing.assert_close(
            theirs(got),
            want.detach().resolve_conj().resolve_neg(),
            rtol=rtol,
            atol=max(atol, at_least),
            equal_nan=True,
        )
    elif isinstance(want, (list, tuple)):
        if not isinstance(got, (list, tuple)) or len(got) != len(want):
            raise AssertionError(f"{what}: structure {type(got)} != {type(want)}")
        for i, (g, w) in enumerate(zip(got, want, strict=True)):
            compare(g, w, f"{what}[{i}]")
    elif isinstance(want, torch.dtype):
        assert got is OURS_OF[want], f"{what}: {got} != {want}"
    elif isinstance(want, float):
        assert got == want or abs(got - want) < 1e-4 * max(1, abs(want)) or want != want, (
            f"{what}: {got} != {want}"
        )
    elif not isinstance(want, (torch.Size,)):
        assert got == want, f"{what}: {got!r} != {want!r}"


def same_aliasing(got: Any, want: Any, our_input: Any, their_input: Any) -> None:
    """Raise unless the result is a view of the input exactly where PyTorch's is."""
    if (
        not isinstance(their_input, torch.Tensor)
        or their_input.is_conj()
        or not their_input.numel()
    ):
        return
    pairs = zip(tree_leaves(got), tree_leaves(want), strict=False)
    for i, (g, w) in enumerate(pairs):
        if not isinstance(w, torch.Tensor) or w.is_conj() or w.is_neg() or not w.numel():
            continue
        shares = w.untyped_storage().data_ptr() == their_input.untyped_storage().data_ptr()
        if (g._storage is our_input._storage) != shares:
            raise AssertionError(f"result {i} is {'a view' if shares else 'a copy'} in PyTorch")


# Where PyTorch promises no order among equal elements: the place of `dim` among the arguments.
TIED = {"argsort": 0, "kthvalue": 1, "mode": 0, "sort": 0, "topk": 1}


def settle_ties(name: str, got: Any, want: Any, sample: Any) -> Any:
    """`want` with our indices wherever they point at elements equal to PyTorch's."""
    x = sample.input
    if name not in TIED or not x.ndim or sample.kwargs.get("stable"):
        return want
    place = TIED[name]
    dim = sample.args[place] if len(sample.args) > place else sample.kwargs.get("dim", -1)
    theirs_at = want if name == "argsort" else want[1]
    ours_at = theirs(got if name == "argsort" else got[1])
    if ours_at.shape != theirs_at.shape or ours_at.dtype != theirs_at.dtype:
        return want

    def at(index: torch.Tensor) -> torch.Tensor:
        return x.gather(dim, index if index.ndim == x.ndim else index.unsqueeze(dim))

    equal = at(ours_at) == at(theirs_at)
    equal |= at(ours_at).isnan() & at(theirs_at).isnan()
    settled = torch.where(equal.reshape(theirs_at.shape), ours_at, theirs_at)
    return settled if name == "argsort" else (want[0], settled)


def settle_phases(name: str, got: Any, want: Any) -> Any:
    """`want` with eigenvectors of our signs and phases, which libraries choose each in its way."""
    if name not in ("linalg.eig", "linalg.eigh") or got[1].shape != want[1].shape:
        return want
    ours_are, theirs_are = theirs(got[1]), want[1].detach()
    if ours_are.dtype is not theirs_are.dtype:
        return want
    along = (theirs_are.conj() * ours_are).sum(-2, keepdim=True)
    same = (along.abs() - 1).abs() < 1e-3  # the vectors of a repeated value turn in other ways
    return want[0], torch.where(same, theirs_are * (along / along.abs()), theirs_are)


def gradients(fn: Any, args: Any, kwargs: Any, seed: Any, framework: Any) -> Any:
    """The gradients of a weighted sum of outputs with respect to every leaf that asks for one."""
    out = fn(*args, **kwargs)
    outs = [o for o in tree_leaves(out) if hasattr(o, "requires_grad") and o.requires_grad]
    leaves = [
        x for x in tree_leaves((args, kwargs)) if hasattr(x, "requires_grad") and x.requires_grad
    ]
    if not outs:
        return None
    weights = seed(outs)
    return framework.autograd.grad(outs, leaves, weights, allow_unused=True)


def recast(have: torch.dtype, want: torch.dtype, x: Any) -> Any:
    """Tensors of one dtype in another; all else as it is."""
    return x.to(want) if isinstance(x, torch.Tensor) and x.dtype is have else x


class Sweep:
    """Runs samples and keeps score."""

    def __init__(self, limit: int, verbose: bool, grad: bool) -> None:
        self.limit, self.verbose, self.grad = limit, verbose, grad
        self.passed: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.excused: Counter[str] = Counter()
        self.first: dict[str, str] = {}

    def fail(self, name: str, what: str, error: BaseException) -> None:
        marks, _ = ON_PURPOSE.get(name, ((), ""))
        if any(mark in what for mark in marks):
            self.excused[name] += 1
            return
        self.failed[name] += 1
        text = f"{what}: {type(error).__name__}: {str(error).strip()[:300]}"
        if self.verbose:
            print(f"--- {name} {text}")
            traceback.print_exception(error, limit=-6)
        self.first.setdefault(name, text)

    def sample(self, op: Any, name: str, fn: Any, sample: Any, dtype: torch.dtype) -> None:
        what = f"{str(dtype)[6:]} {describe(sample)}"
        try:
            args = ours((sample.input, *sample.args))
            kwargs = ours(sample.kwargs)
        except Unsupported:
            return
        try:
            want = op.op(sample.input, *sample.args, **sample.kwargs)
            if op.name in JUDGED_IN_FLOAT32 and dtype in (torch.float16, torch.bfloat16):
                wide = sample.transform(functools.partial(recast, dtype, torch.float32))
                want = op.op(wide.input, *wide.args, **wide.kwargs)
                want = tree_map(functools.partial(recast, torch.float32, dtype), want)
        except Exception:
            return  # a sample PyTorch itself refuses on this build
        if any(isinstance(w, torch.Tensor) and w.dtype not in OURS_OF for w in tree_leaves(want)):
            return  # complex32 and the like
        try:
            got = fn(*args, **kwargs)
            if op.name in NONDETERMINISTIC:
                assert [tuple(g.shape) for g in tree_leaves(got)] == [
                    tuple(w.shape) for w in tree_leaves(want)
                ], "shape"
                assert [g.dtype for g in tree_leaves(got)] == [
                    OURS_OF[w.dtype] for w in tree_leaves(want)
                ], "dtype"
            else:
                settled = settle_ties(op.name, got, want, sample)
                settled = settle_phases(op.name, got, settled)
                compare(got, settled, "value", IMPRECISE.get(op.name, 0))
                same_aliasing(got, want, args[0], sample.input)
            self.passed[name] += 1
        except Unsupported:
            return
        except Exception as error:
            self.fail(name, what, error)
            return
        if (
            self.grad
            and op.supports_autograd
            and dtype in (torch.float64, torch.complex128)
            and op.name not in NONDETERMINISTIC
        ):
            self.gradient(op, name, fn, sample, args, kwargs, what)

    def gradient(
        self, op: Any, name: str, fn: Any, sample: Any, args: Any, kwargs: Any, what: str
    ) -> None:
        seeds: list[torch.Tensor] = []

        def torch_seed(outs: list[torch.Tensor]) -> list[torch.Tensor]:
            generator = torch.Generator().manual_seed(0)
            seeds.extend(torch.randn(o.shape, dtype=o.dtype, generator=generator) for o in outs)
            return seeds

        post = sample.output_process_fn_grad
        try:
            want = gradients(
                lambda *a, **k: post(op.op(*a, **k)),
                (sample.input, *sample.args),
                sample.kwargs,
                torch_seed,
                torch,
            )
        except Exception:
            return
        if want is None:
            return
        try:
            got = gradients(
                lambda *a, **k: post(fn(*a, **k)), args, kwargs, lambda _: ours(seeds), ad
            )
            leaves = tree_leaves(((sample.input, *sample.args), sample.kwargs))
            leaves = [x for x in leaves if isinstance(x, torch.Tensor) and x.requires_grad]
            for i, (g, w) in enumerate(zip(got, want, strict=True)):
                if w is None and leaves[i]._is_view():
                    continue  # a view made under no_grad, whose gradient PyTorch loses
                if w is None or g is None:
                    zero = w if g is None else theirs(g)
                    assert zero is None or not zero.abs().sum().item(), f"grad[{i}]: {g} != {w}"
                else:
                    compare(g, w, f"grad[{i}]")
            self.passed[name] += 1
        except Unsupported:
            return
        except Exception as error:
            self.fail(name, f"{what} gradient", error)

    def inplace(self, op: Any, name: str, dtype: torch.dtype) -> None:
        theirs_fn = op.get_inplace()
        if theirs_fn is None:
            return
        ours_fn: Any = getattr(ad.Tensor, getattr(theirs_fn, "__name__", ""), None)
        if op.name.startswith("nn.functional.") and ours_fn is None:
            ours_fn = functools.partial(resolve(op.name), inplace=True)
        if ours_fn is None:
            self.fail(name, "in-place form", AttributeError(op.name))
            return
        for sample in self.take(op, dtype, requires_grad=False):
            if sample.broadcasts_input or not isinstance(sample.input, torch.Tensor):
                continue
            try:
                args, kwargs = ours((sample.input, *sample.args)), ours(sample.kwargs)
                want = theirs_fn(sample.input.clone(), *sample.args, **sample.kwargs)
            except (
                Unsupported,
                RuntimeError,
                NotImplementedError,
                TypeError,
                ValueError,
                IndexError,
            ):
                continue
            try:
                target = args[0].clone()
                assert ours_fn(target, *args[1:], **kwargs) is target
                if op.name not in NONDETERMINISTIC:
                    compare(target, want, "in-place")
                self.passed[name] += 1
            except Exception as error:
                self.fail(name, f"{str(dtype)[6:]} in-place {describe(sample)}", error)

    def out(self, op: Any, name: str, fn: Any) -> None:
        """The out= form fills the tensor it is given, and returns it."""
        if not op.supports_out:
            return
        for sample in self.take(op, torch.float32, requires_grad=False):
            try:
                args, kwargs = ours((sample.input, *sample.args)), ours(sample.kwargs)
                want = op.op(sample.input, *sample.args, **sample.kwargs)
                many = not isinstance(want, torch.Tensor)
                spare = (
                    [torch.empty(w.shape, dtype=w.dtype) for w in want]
                    if many
                    else torch.empty(want.shape, dtype=want.dtype)
                )
                op.op(
                    sample.input, *sample.args, **sample.kwargs, out=tuple(spare) if many else spare
                )
                out = ours(spare)
            except Exception:
                continue
            try:
                got = fn(*args, **kwargs, out=tuple(out) if many else out)
                if op.name not in NONDETERMINISTIC:
                    compare(list(out) if many else out, settle_phases(op.name, out, want), "out=")
                assert many or got is out, "out= is not returned"
                self.passed[name] += 1
            except Exception as error:
                self.fail(name, f"out= {describe(sample)}", error)

    def errors(self, op: Any, name: str, fn: Any) -> None:
        if op.error_inputs_func is None:
            return
        try:
            inputs = list(op.error_inputs("cpu"))
        except Exception:
            return
        for error_input in inputs:
            sample = error_input.sample_input
            try:
                args, kwargs = ours((sample.input, *sample.args)), ours(sample.kwargs)
            except (Unsupported, ValueError):  # NumPy has at most 64 dimensions
                continue
            try:
                if "out" in kwargs:
                    continue
                op.op(sample.input, *sample.args, **sample.kwargs)
                continue  # PyTorch accepts it after all
            except Exception as theirs_error:
                want = theirs_error
            try:
                fn(*args, **kwargs)
                self.fail(
                    name,
                    f"error input {describe(sample)}",
                    AssertionError(f"accepted; PyTorch raises {want!r}"[:200]),
                )
            except Exception as got:
                kind = next(
                    k
                    for k in (
                        IndexError,
                        TypeError,
                        ValueError,
                        NotImplementedError,
                        RuntimeError,
                        Exception,
                    )
                    if isinstance(want, k)
                )
                if isinstance(got, kind):
                    self.passed[name] += 1
                else:
                    self.fail(
                        name,
                        f"error input {describe(sample)}",
                        AssertionError(f"raised {got!r}, PyTorch raises {want!r}"[:300]),
                    )

    @staticmethod
    def drops(op: Any, sample: Any) -> bool:
        """Whether a sample drops at random, so that there is nothing to compare."""
        if op.name == "nn.functional.multi_head_attention_forward":
            return sample.args[9] > 0 and sample.kwargs.get("training", True)
        return "attention" in op.name and sample.kwargs.get("dropout_p", 0) > 0

    def take(self, op: Any, dtype: torch.dtype, *, requires_grad: bool) -> Iterator[Any]:
        torch.manual_seed(0)
        try:
            for i, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=requires_grad)):
                if self.drops(op, sample):
                    continue
                if i >= self.limit:
                    return
                yield sample
        except Exception as error:
            if self.verbose:
                print(f"(no samples for {op.name} {dtype}: {error})")

    def op(self, op: Any, dtypes: list[torch.dtype]) -> None:
        name = op.name + (f"[{op.variant_test_name}]" if op.variant_test_name else "")
        fn = ADAPTERS.get(name) or resolve(
            f"{op.name}_" if op.variant_test_name == "in_place" else op.name
        )
        if fn is None:
            self.fail(name, "missing", AttributeError(op.name))
            return
        for dtype in dtypes:
            if dtype not in op.dtypes:
                continue
            differentiable = op.supports_autograd and dtype in (torch.float64, torch.complex128)
            for sample in self.take(op, dtype, requires_grad=differentiable):
                self.sample(op, name, fn, sample, dtype)
            if dtype in (torch.float32, torch.int64):
                self.inplace(op, name, dtype)
        self.out(op, name, fn)
        self.errors(op, name, fn)


def describe(sample: Any) -> str:
    """A sample in a line."""

    def show(x: Any) -> str:
        if isinstance(x, torch.Tensor):
            return f"{str(x.dtype)[6:]}{list(x.shape)}"
        if isinstance(x, (list, tuple)):
            return "(" + ", ".join(map(show, x)) + ")"
        return repr(x)

    parts = [show(sample.input), *map(show, sample.args)]
    parts += [f"{k}={show(v)}" for k, v in sample.kwargs.items()]
    return re.sub(r"\s+", " ", "(" + ", ".join(parts) + ")")[:200]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("patterns", nargs="*")
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--limit", type=int, default=40)
    parser.add_argument("--no-grad", action="store_true")
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dtypes = [getattr(torch, d) for d in options.dtypes.split(",")]
    sweep = Sweep(options.limit, options.verbose, not options.no_grad)
    names = options.patterns or None
    for op in op_db:
        if op.name not in WANTED:
            continue
        if names is None or any(fnmatch.fnmatchcase(op.name, p) for p in names):
            sweep.op(op, dtypes)
    for name in sorted(sweep.failed):
        print(
            f"FAIL {name}: {sweep.failed[name]} failed, {sweep.passed[name]} passed; first: {sweep.first[name]}"
        )
    for name, n in sorted(sweep.excused.items()):
        print(f"differs on purpose {name}: {n} times; {ON_PURPOSE[name][1]}")
    bad = sum(sweep.failed.values())
    good = sum(sweep.passed.values())
    clean = len(set(sweep.passed) - set(sweep.failed))
    print(f"{clean} operations clean, {len(sweep.failed)} with failures")
    print(f"{good} passed, {bad} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
