"""The sample calls of every operation (`tests/samples`): what they give, as a few sums each."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.conformance.cases import rows
from tests.recorded import ABSENT, Program
from tests.samples import S, T

# What mathematics leaves open, signs of vectors and an order; and unsigned words, which Adjoint
# has as signed ones.
OPEN = frozenset(
    "svd linalg.svd linalg.eig linalg.eigh linalg.eigvals linalg.qr qr geqrf svd_lowrank "
    "pca_lowrank lobpcg linalg.ldl_factor linalg.ldl_factor_ex hash_tensor".split()
)


class Stream:
    """Numbers for tensors by a rule that no version of NumPy changes."""

    def __init__(self, seed: str) -> None:
        self.numbers = random.Random(seed)  # of which Python promises the same for ever

    def uniform(self, low: float, high: float, shape: tuple[int, ...]) -> Any:
        found = [low + (high - low) * self.numbers.random() for _ in range(math.prod(shape))]
        return np.array(found, np.float64).reshape(shape)

    def integers(self, low: int, high: int, shape: tuple[int, ...]) -> Any:
        return np.floor(self.uniform(low, high, shape)).astype(np.int64)

    def permutation(self, count: int) -> Any:
        return np.argsort(self.uniform(0, 1, (count,)), kind="stable")


def given(lib: Any, x: Any, stream: Any) -> Any:
    """An argument of a row as the library takes it."""
    if isinstance(x, T):
        array = x.array(stream)
        return lib.tensor(array.tolist(), dtype=getattr(lib, array.dtype.name)).reshape(x.shape)
    if isinstance(x, list | tuple):
        return type(x)(given(lib, v, stream) for v in x)
    if type(x).__name__ in ("DType", "MemoryFormat"):
        return getattr(lib, str(x).rsplit(".", maxsplit=1)[-1])
    return x


def leaves(x: Any) -> Iterator[Any]:
    if hasattr(x, "detach"):
        yield x.detach()
    elif isinstance(x, list | tuple):
        for value in x:
            yield from leaves(value)
    elif isinstance(x, bool | int | float):
        yield x


def sums(x: Any) -> list[Any]:
    """A tensor's kind and shape, its sums by two weights, and how large they might be."""
    if not hasattr(x, "detach"):
        return [x]
    kind = str(x.dtype).rsplit(".", maxsplit=1)[-1]
    array = np.array(x.resolve_conj().tolist())
    flat = array.reshape(-1).astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    parts = [flat.real, flat.imag] if flat.dtype.kind == "c" else [flat]
    found: list[Any] = [kind, list(x.shape)]
    for part in parts:
        part = np.nan_to_num(part, nan=0.731, posinf=13.1, neginf=-17.3)
        at = np.arange(part.size)
        found.append(
            [float(np.abs(part).sum()), *(float((part * np.cos(w * at)).sum()) for w in (0.7, 2.3))]
        )
    return found


def called(lib: Any, row: S) -> Any:
    stream = Stream(repr(row))
    args = [given(lib, x, stream) for x in row.args]
    kwargs = {key: given(lib, x, stream) for key, x in row.kwargs.items()}
    target = lib
    for part in row.path.split("."):
        target = getattr(target, part)
    if row.path.startswith("Tensor.") and row.path.endswith("_"):
        args[0] = args[0].clone()
    return [sums(x) for x in leaves(target(*args, **kwargs))]


def all_of(lib: Any, found: list[S]) -> dict[str, Any]:
    """What the calls of a function give, as far as PyTorch has them."""
    results: dict[str, Any] = {}
    for row in found:
        name = repr(row).removeprefix(row.path)
        name += " again" * sum(name == other.split(" again")[0] for other in results)
        try:
            results[name] = called(lib, row)
        except (AttributeError, LookupError, RuntimeError, TypeError, ValueError):
            if lib.__name__ != "torch":
                raise
            results[name] = ABSENT
    return results


def programs() -> dict[str, Program]:
    by_path: dict[str, list[S]] = defaultdict(list)
    for row in rows():
        if not row.random and row.path not in OPEN and "Body" not in repr(row):
            by_path[row.path].append(row)
    return {path: lambda lib, found=found: all_of(lib, found) for path, found in by_path.items()}


PROGRAMS = programs()
