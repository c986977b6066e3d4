"""One recording for many sizes: families of programs that differ in dynamic dimensions only.

Which dimensions are dynamic: those marked with `mark_dynamic`, and under `dynamic=True` those seen
to differ between calls. A family is recorded once with extents for sizes (Note [extents]) and once
more at other sizes, to check that the first says what the second does; from then on a call with
new sizes gets its program by putting them in, without running the function.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from adjoint.core.record import is_tensor
from adjoint.core.spec import Spec, contiguous_strides
from adjoint.graph.environment import Fingerprint
from adjoint.graph.extents import Extent, Scope, Sizes
from adjoint.graph.program import Program
from adjoint.graph.template import difference, instance

MARKS = "_dynamic_dims"  # a tensor's marked dimensions, among its attributes
Dims = dict[tuple[int, int], str]  # (argument leaf, dimension) -> symbol
Record = Callable[[list[Any]], Program]  # records the function for specs in the place of tensors


def mark_dynamic(tensor: Any, dim: int | Sequence[int]) -> None:
    """Say that a compiled function will be called with other sizes in this dimension.

    The first call with this tensor then makes one program for all sizes from 2 on.

    Args:
        tensor: an argument of a compiled function.
        dim: a dimension, or several.

    Example:
        >>> import adjoint as ad
        >>> f = ad.compile(lambda x: x.sum(0) / x.shape[0])
        >>> x = ad.ones(4, 3)
        >>> ad.mark_dynamic(x, 0)
        >>> f(x), f(ad.ones(100, 3)), f.traces
        (tensor([1., 1., 1.]), tensor([1., 1., 1.]), 1)
    """
    dims = [dim] if isinstance(dim, int) else list(dim)
    for d in dims:
        if not -tensor.ndim <= d < tensor.ndim:
            raise IndexError(f"mark_dynamic: dimension {d} of a tensor of {tensor.ndim} dimensions")
    held = tensor.__dict__.setdefault(MARKS, set())
    held.update(d % tensor.ndim for d in dims)


@dataclass
class Family:
    """Programs alike but for sizes."""

    key: Any  # a signature of the family
    dims: Dims
    template: Program
    scope: Scope
    fingerprint: Fingerprint | None
    static: set[int] = field(default_factory=set)  # parts of the template without extents

    def sizes(self, key: Any) -> dict[str, int] | None:
        """What the symbols are in a call, if its signature is of this family."""
        if key[0] != self.key[0] or key[2] != self.key[2] or len(key[1]) != len(self.key[1]):
            return None
        sizes: dict[str, int] = {}
        for i, (mine, theirs) in enumerate(zip(self.key[1], key[1], strict=True)):
            if not isinstance(mine[0], Spec):
                if mine != theirs:
                    return None
                continue
            if not isinstance(theirs[0], Spec) or not self._fit(i, mine, theirs, sizes):
                return None
        return sizes

    def _fit(self, i: int, mine: Any, theirs: Any, sizes: dict[str, int]) -> bool:
        a, b = mine[0], theirs[0]
        if (a.dtype, a.device, len(a.shape), *mine[2:]) != (
            b.dtype,
            b.device,
            len(b.shape),
            *theirs[2:],
        ):
            return False
        if theirs[1] != contiguous_strides(b.shape):
            return False
        for d, (m, n) in enumerate(zip(a.shape, b.shape, strict=True)):
            symbol = self.dims.get((i, d))
            if symbol is None:
                if m != n:
                    return False
            elif n < 2 or sizes.setdefault(symbol, n) != n:
                return False
        return True


class Families:
    """The families of one function."""

    def __init__(self, name: str, *, automatic: bool) -> None:
        self.name = name
        self.automatic = automatic  # whether dimensions seen to differ become dynamic
        self.families: list[Family] = []
        self.refused: set[Any] = set()
        self.notes: list[str] = []

    def find(self, key: Any, seen: Fingerprint) -> Program | None:
        """A program of a family there is, for a signature that has none yet."""
        for family in self.families:
            sizes = family.sizes(key)
            if sizes is None or family.fingerprint != seen or not family.scope.allow(sizes):
                continue
            return instance(family.template, family.scope.complete(sizes), family.static)
        return None

    def start(
        self, key: Any, known: Sequence[Any], leaves: Sequence[Any], record: Record
    ) -> Family | None:
        """A new family around a call, if some dimension of its arguments is dynamic."""
        dims = self._dims(key, known, leaves)
        if not dims or not _simple(key):
            return None
        refusal = (key[0], tuple(sorted(dims)))
        if refusal in self.refused:
            return None
        try:
            found = self._record(key, dims, leaves, record)
        except Exception as error:  # the ordinary way may still succeed, or say what is wrong
            found = f"recording it so failed: {type(error).__name__}: {error}"
        if isinstance(found, str):
            self._refuse(refusal, found)
            return None
        self.families.append(found)
        return found

    def _refuse(self, refusal: Any, reason: str) -> None:
        self.refused.add(refusal)
        note = f"compile: {self.name} is recorded for each size by itself: {reason}"
        self.notes.append(note)
        warnings.warn(note, stacklevel=7)

    def _record(self, key: Any, dims: Dims, leaves: Sequence[Any], record: Record) -> Family | str:
        """The family, or why there is none."""
        present = {symbol: key[1][i][0].shape[d] for (i, d), symbol in dims.items()}
        for step in (0, 1, 3, 5):  # at other sizes where the present ones equal fixed ones
            scope = Scope()
            sizes = {s: n + step * (i + 1) for i, (s, n) in enumerate(present.items())}
            extents = {s: Extent.symbol(s, n, scope) for s, n in sizes.items()}
            template = record(_stand_ins(leaves, dims, extents))
            other = _other_sizes(sizes, scope)
            if other is not None:
                break
        else:
            return "its sizes are fixed by what it does: " + "; ".join(_told(scope))
        if template.attributes:
            return "it assigns a tensor to an attribute"
        if any(ref.position is not None for ref, _ in template.grads):
            return "it sets the gradient of an argument"
        check = record(_stand_ins(leaves, dims, other))
        static: set[int] = set()
        found = difference(instance(template, scope.complete(other), static), check)
        if found is not None:
            return found
        return Family(key, dims, template, scope, None, static)

    def _dims(self, key: Any, known: Sequence[Any], leaves: Sequence[Any]) -> Dims:
        marked = {
            (i, d)
            for i, leaf in enumerate(leaves)
            if is_tensor(leaf)
            for d in getattr(leaf, "__dict__", {}).get(MARKS, ())
            if leaf.shape[d] >= 2
        }
        alike = [k[1] for k in known if _comparable(k, key)] + [key[1]]
        symbols: dict[Any, str] = {}
        dims: Dims = {}
        for i, part in enumerate(key[1]):
            if not isinstance(part[0], Spec):
                continue
            for d in range(len(part[0].shape)):
                seen = tuple([parts[i][0].shape[d] for parts in alike])
                large = {n for n in seen if n >= 2}  # one element is recorded by itself
                varies = self.automatic and seen[-1] >= 2 and len(large) > 1
                if varies or (i, d) in marked:
                    # Dimensions that have always been equal are taken for one.
                    dims[i, d] = symbols.setdefault(seen, f"s{len(symbols)}")
        return dims


def _comparable(a: Any, b: Any) -> bool:
    """Whether two signatures differ in sizes only."""
    return (
        a[0] == b[0]
        and a[2] == b[2]
        and all(
            (
                isinstance(q[0], Spec)
                and (p[0].dtype, p[0].device, len(p[0].shape), *p[2:])
                == (q[0].dtype, q[0].device, len(q[0].shape), *q[2:])
            )
            if isinstance(p[0], Spec)
            else p == q
            for p, q in zip(a[1], b[1], strict=True)
        )
    )


def _simple(key: Any) -> bool:
    """Whether every tensor is row-major and on memory of its own."""
    tensors = [p for p in key[1] if isinstance(p[0], Spec)]
    return len({p[3] for p in tensors}) == len(tensors) and all(
        p[1] == contiguous_strides(p[0].shape) for p in tensors
    )


def _stand_ins(leaves: Sequence[Any], dims: Dims, sizes: Sizes) -> list[Any]:
    """Specs in the place of tensors, with these sizes in dynamic dimensions."""
    found: list[Any] = []
    for i, leaf in enumerate(leaves):
        if not is_tensor(leaf):
            found.append(leaf)
            continue
        shape = tuple(sizes[dims[i, d]] if (i, d) in dims else n for d, n in enumerate(leaf.shape))
        found.append((Spec(shape, leaf.dtype, leaf.device), leaf.requires_grad))
    return found


def _other_sizes(present: Sizes, scope: Scope) -> dict[str, int] | None:
    """Sizes unlike the present ones that the decisions made so far allow."""
    for step in (1, 2, 3, 4, 8, 16, -1, -2):
        other = {s: n + step * (i + 1) for i, (s, n) in enumerate(present.items())}
        if min(other.values()) >= 2 and scope.allow(other):
            return other
    return None


def _told(scope: Scope) -> list[str]:
    """The decisions in words, the first few."""
    words = []
    for difference_, compare, outcome in list(scope.guards.values())[:4]:
        text = " + ".join("*".join([str(c), *mono]) for mono, c in difference_.items())
        words.append(f"{text} {compare.__name__} 0 is {outcome}")
    return words
