"""Arguments of control flow as lists of tensors, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from adjoint.engine.core.operations.public import PUBLIC
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.spec import Spec
from adjoint.engine.core.state.host import HostScalar
from adjoint.engine.core.tree import TreeDef, flatten, unflatten


class TreeShape(NamedTuple):
    """A tree with its tensors taken out; None stays in it."""

    structure: TreeDef
    present: tuple[bool, ...]  # which leaves are tensors, the rest None

    def fill(self, tensors: Sequence[Any]) -> Any:
        """The tree holding the given tensors."""
        supply = iter(tensors)
        return unflatten(self.structure, [next(supply) if p else None for p in self.present])


def take_apart(what: str, tree: Any) -> tuple[list[Any], TreeShape]:
    """The tensors of a tree (numbers become 0-d tensors) and its shape."""
    leaves, structure = flatten(tree)
    tensors: list[Any] = []
    for leaf in leaves:
        if leaf is None:
            continue
        if isinstance(leaf, (bool, int, float, complex)):
            leaf = PUBLIC["", "full"].fn((), leaf)
        if not is_tensor(leaf):
            kind = "a host number" if isinstance(leaf, HostScalar) else type(leaf).__name__
            raise TypeError(
                f"{what}: expected tensors, numbers and None in nested tuples, lists and dicts, "
                f"received {kind}. Close over anything else."
            )
        tensors.append(leaf)
    return tensors, TreeShape(structure, tuple(leaf is not None for leaf in leaves))


def check_same(what: str, have: TreeShape, wanted: TreeShape, *pairs: tuple[Any, Any]) -> None:
    """Refuse values that do not look as they did before."""
    if have != wanted:
        raise TypeError(
            f"{what} has another structure than it had: {_shown(have)} and before {_shown(wanted)}."
        )
    for i, (new, old) in enumerate(pairs):
        a, b = spec_of(new), spec_of(old)
        if a != b:
            raise TypeError(
                f"{what} must keep shape, dtype and device: its leaf {i} is {a}, and was {b}. "
                "Convert the first value or the result: .to(...), .reshape(...), .expand(...)."
            )


def _shown(shape: TreeShape) -> str:
    return repr(shape.fill(["*"] * sum(shape.present)))


def spec_of(x: Any) -> Spec:
    """The spec of a tensor, or the spec itself."""
    return x if isinstance(x, Spec) else x._spec


def check_unwritten(name: str, given: list[Any], before: list[int]) -> None:
    """Refuse a body that wrote to its arguments: a captured one could not."""
    if any(t._storage.version != v for t, v in zip(given, before, strict=True)):
        raise RuntimeError(
            f"{name}: an in-place write to an argument of the body. Work on a clone, and carry the "
            "new value or return it."
        )
