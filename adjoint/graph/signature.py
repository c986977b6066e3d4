"""What of a call a recording depends on: structure, specs and aliasing of arguments, modes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from adjoint.core import dtype as dtypes
from adjoint.core.context import CONTEXT
from adjoint.core.record import is_tensor
from adjoint.core.tree import TreeDef
from adjoint.tensor.tensor import Tensor


def modes() -> tuple[Any, ...]:
    """The settings of the thread that operations consult."""
    context = CONTEXT
    if context.plain:
        return (context.grad_enabled, False, None, context.device, dtypes._default)
    return (
        context.grad_enabled,
        context.inference,
        context.autocast,
        context.device,
        dtypes._default,
    )


def share_counts(leaves: Sequence[Any]) -> Counter[int]:
    """How many arguments each storage stands behind, by its identity."""
    return Counter(leaf._storage.identity for leaf in leaves if is_tensor(leaf))


ANY = "any"


def signature(
    leaves: Sequence[Any], structure: TreeDef, free: frozenset[int] = frozenset()
) -> tuple[Any, ...]:
    """The key under which a program is kept: structure, specs, aliasing, statics and modes.

    Floats at the places `free` are read at each call, so their values do not matter.
    """
    parts: list[Any] = []
    counts = share_counts(leaves)
    groups: dict[int, int] = {}
    for place, leaf in enumerate(leaves):
        if not is_tensor(leaf):
            _check_hashable(leaf, structure, place)
            if type(leaf) is not float:
                parts.append((type(leaf), leaf))
            elif place in free:
                parts.append((float, ANY))
            else:  # 0.0 == -0.0, and a NaN is unlike itself
                parts.append((float, leaf if leaf and leaf == leaf else repr(leaf)))
            continue
        identity = leaf._storage.identity
        group = groups.setdefault(identity, len(groups))
        window: tuple[Any, ...] = ()
        if counts[identity] > 1:  # where in the storage matters only to those who share it
            window = (leaf.storage_offset(), tuple(leaf._storage.buffer.shape))
        parts.append((leaf._spec, leaf.stride(), leaf.requires_grad, group, window))
    return (structure, tuple(parts), modes())


def _check_hashable(leaf: Any, structure: TreeDef, place: int) -> None:
    try:
        hash(leaf)
    except TypeError as error:
        raise TypeError(
            f"compile: {argument_name(structure, place)} is a {type(leaf).__name__}, which cannot "
            f"be hashed, so calls with it cannot be told apart: {_short(leaf)}. Pass tensors, or "
            "plain values (numbers, strings, tuples, lists and dicts of them) that can serve as "
            "static arguments; an array becomes a tensor with adjoint.as_tensor."
        ) from error


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."


def argument_names(structure: TreeDef, names: Sequence[str] = ()) -> list[str]:
    """A name for every leaf of a call's `(args, kwargs)`: `x`, `args[0]['image']`, `scale`."""
    args, kwargs = structure.children
    found: list[str] = []
    for i, child in enumerate(args.children):
        found += _paths(child, names[i] if i < len(names) else f"args[{i}]")
    for key, child in zip(kwargs.keys, kwargs.children, strict=True):
        found += _paths(child, str(key))
    return found


def _paths(node: TreeDef, prefix: str) -> Iterator[str]:
    if node.kind is None:
        yield prefix
        return
    keyed = isinstance(node.kind, type) and issubclass(node.kind, dict)
    for i, child in enumerate(node.children):
        key = node.keys[i] if node.keys else i
        step = f"[{key!r}]" if keyed or not node.keys else f".{key}"
        yield from _paths(child, prefix + step)


def argument_name(structure: TreeDef, place: int) -> str:
    """The name of one leaf, for a message."""
    return f"argument {argument_names(structure)[place]}"


class Arguments:
    """A quick test that arguments are like those a program was recorded for.

    It says yes only to arguments that are all tensors or plain numbers and strings, each tensor on
    memory of its own; anything else goes the long way round.
    """

    __slots__ = ("modes", "states", "structure", "tensors", "wanted")

    def __init__(
        self,
        args: Sequence[Any],
        structure: TreeDef | None,
        states: frozenset[int],
        free: frozenset[int],
    ) -> None:
        self.structure = structure  # None: the arguments themselves, all by position
        self.modes = modes()
        self.states = states  # identities of storages the program reaches by itself
        self.wanted: list[tuple[Any, ...]] = []
        self.tensors = [i for i, x in enumerate(args) if is_tensor(x)]
        for i, x in enumerate(args):
            if is_tensor(x):
                a = x._array
                fields = (a.shape, a.strides, a.dtype, x.requires_grad, type(a))
                self.wanted.append((type(x), *fields))
            else:
                self.wanted.append((float if i in free else None, x, None, None, None, None))

    @staticmethod
    def simple(args: Sequence[Any]) -> bool:
        """Whether these are arguments the quick test can be made for."""
        identities = [x._storage.identity for x in args if isinstance(x, Tensor)]
        return len(set(identities)) == len(identities) and all(
            isinstance(x, (Tensor, bool, int, float, str, type(None))) for x in args
        )

    def fit(self, args: Sequence[Any]) -> bool:
        """Whether these arguments are like those."""
        if len(args) != len(self.wanted):
            return False
        states, met = self.states, 0
        for x, (kind, shape, strides, dtype, flag, on) in zip(args, self.wanted, strict=True):
            if kind is None:
                # A zero may differ from an equal one in its sign.
                if x is not shape and (type(x) is not type(shape) or not x or x != shape):
                    return False
                continue
            if x.__class__ is not kind:
                return False
            if kind is float:
                continue
            a = x._array
            if a.shape != shape or a.strides != strides or a.__class__ is not on:
                return False  # arrays of another class are on another device
            if a.dtype is not dtype and a.dtype != dtype:
                return False
            if (x._requires_grad if x._base is None else x.requires_grad) is not flag:
                return False
            identity = id(x._storage.buffer)
            if identity == met or identity in states:
                return False
            met = identity
        if len(self.tensors) > 2:
            identities = {id(args[i]._storage.buffer) for i in self.tensors}
            return len(identities) == len(self.tensors)
        return True
