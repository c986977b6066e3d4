"""What of a call a recording depends on: structure, specs and aliasing of arguments, modes."""

from __future__ import annotations

import enum
import re
import types
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import date, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePath
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np

from adjoint.engine.core import dtype as dtypes
from adjoint.engine.core.errors import users_line
from adjoint.engine.core.generated import function_of_text
from adjoint.engine.core.identity.number_key import number_key
from adjoint.engine.core.instances import ObjectParts
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.ownership import module_of
from adjoint.engine.core.state import switches
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.tree import DICTS, TreeDef
from adjoint.engine.tensor.tensor import Tensor

# Who looks at what the tape does: anomaly mode, and hooks on what it saves.
_PLAIN = (False, False)


def modes() -> tuple[Any, ...]:
    """The settings that operations consult: those of the thread, and precision switches."""
    context, switched = CONTEXT, switches.computed_with
    if context.plain:
        return (
            context.grad_enabled,
            False,
            None,
            context.device,
            dtypes._default,
            switched,
            _PLAIN,
        )
    return (
        context.grad_enabled,
        context.inference,
        context.autocast,
        context.device,
        dtypes._default,
        switched,
        (context.anomaly, bool(context.saved_hooks)),
    )


def share_counts(leaves: Sequence[Any]) -> Counter[int]:
    """How many arguments each storage stands behind, by its identity; expanded ones count twice.

    A write to one row of an expanded tensor is one to all, which its own elements do not show.
    """
    tensors = [leaf for leaf in leaves if is_tensor(leaf)]
    tensors += [leaf for leaf in tensors if is_expanded(leaf)]
    return Counter(leaf._storage.identity for leaf in tensors)


def is_expanded(tensor: Tensor) -> bool:
    """Whether several elements of a tensor lie at one place."""
    array = tensor._array
    return 0 in array.strides and any(
        not step and size > 1 for step, size in zip(array.strides, array.shape, strict=True)
    )


def is_of_inference(tensor: Tensor) -> bool:
    """Whether the tape refuses a tensor: it was made in inference mode, which is over."""
    return tensor._storage.version < 0 and not CONTEXT.inference


_VALUES = frozenset(
    {bool, int, float, complex, str, bytes, type(None), range, frozenset, type(...)}
)
_QUICK = frozenset({bool, int, float, str, type(None), np.float64})
_IMMUTABLE = (
    np.generic, np.dtype, Decimal, Fraction, date, time, timedelta, timezone, PurePath, UUID,
    re.Pattern, types.MethodType, types.BuiltinFunctionType, types.UnionType, types.GenericAlias,
)  # fmt: skip
ANY = "any"
_IS_LEAF, _IS_RESULT = "leaf", "result"


def may_be_free(leaf: Any) -> bool:
    """Whether a number may be read at each call: 0 and 1 say whether as often as how many."""
    return type(leaf) is float or (type(leaf) is int and not 0 <= leaf <= 1)


def signature(
    leaves: Sequence[Any], structure: TreeDef, free: frozenset[int] = frozenset()
) -> tuple[Any, ...]:
    """The key under which a program is kept: structure, specs, aliasing, statics and modes.

    Numbers at the places `free` are read at each call, so their values do not matter.
    """
    parts: list[Any] = []
    counts = share_counts(leaves)
    groups: dict[int, int] = {}
    for place, leaf in enumerate(leaves):
        if not is_tensor(leaf):
            if type(leaf) is slice:  # which has a hash from Python 3.12 on
                leaf = _Slice(leaf.start, leaf.stop, leaf.step)
            unbound = place in free and may_be_free(leaf)
            key = (type(leaf), ANY) if unbound else _static_key(leaf)
            _check_hashable(leaf, key, structure, place)
            parts.append(key)
            continue
        identity = leaf._storage.identity
        group = groups.setdefault(identity, len(groups))
        window: tuple[Any, ...] = ()
        if counts[identity] > 1:  # where in the storage matters only to those who share it
            first = next(i for i, other in enumerate(leaves) if other is leaf)
            window = (leaf.storage_offset(), tuple(leaf._storage.buffer.shape), first)
        flag = leaf.requires_grad and (_IS_LEAF if leaf.is_leaf else _IS_RESULT)
        kind = type(leaf), is_of_inference(leaf)
        parts.append((leaf._spec, leaf.stride(), flag, group, window, *kind))
    return (structure, tuple(parts), modes())


class _Slice(NamedTuple):
    """A slice among the arguments."""

    start: Any
    stop: Any
    step: Any


class _ByIdentity:
    """An argument that is told apart by identity."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByIdentity) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def _static_key(leaf: Any) -> Any:
    """What tells an argument that is no tensor apart from others.

    A recording reads attributes of the very object it was given. One that merely says that it is
    equal may have others, unless its class is known to be of values.
    """
    cls = type(leaf)
    if (
        cls in _VALUES
        or cls is _Slice
        or vars(object)["__eq__"] is getattr(cls, "__eq__", None)
        or module_of(cls).startswith("adjoint.")
    ):
        return number_key(leaf)
    value = isinstance(leaf, _IMMUTABLE) and not cls.__dictoffset__
    return number_key(leaf) if value or isinstance(leaf, enum.Enum) else (cls, _ByIdentity(leaf))


def _check_hashable(leaf: Any, key: Any, structure: TreeDef, place: int) -> None:
    try:
        if type(leaf).__hash__ is None:
            raise TypeError(f"unhashable type: {type(leaf).__name__!r}")
        hash(key)  # of an object that is told apart by identity, its own methods are not called
    except TypeError as error:
        raise TypeError(
            f"compile: {argument_name(structure, place)} is a {type(leaf).__name__}, which cannot "
            f"be hashed, so calls with it, as at {users_line()}, cannot be told apart: "
            f"{_short(leaf)}. Pass tensors, or plain values (numbers, strings, tuples, lists and "
            "dicts of them) that can serve as static arguments; an array becomes a tensor with "
            "adjoint.as_tensor."
        ) from error


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."


def argument_names(structure: TreeDef, names: Sequence[str] = ()) -> list[str]:
    """A name for every leaf of a call's `(args, kwargs)`: `x`, `args[0]['image']`, `scale`."""
    args, kwargs = structure.children
    leaf_names: list[str] = []
    for i, child in enumerate(args.children):
        leaf_names += _paths(child, names[i] if i < len(names) else f"args[{i}]")
    for key, child in zip(kwargs.keys, kwargs.children, strict=True):
        leaf_names += _paths(child, str(key))
    return leaf_names


def _paths(node: TreeDef, prefix: str) -> Iterator[str]:
    if node.kind is None:
        yield prefix
        return
    keyed = len(node.children) if node.kind in DICTS or not node.keys else 0
    if type(node.extra) is ObjectParts:
        keyed = node.extra.items
    for i, child in enumerate(node.children):
        key = node.keys[i] if node.keys else i
        step = f"[{key!r}]" if i < keyed else f".{key}"
        yield from _paths(child, prefix + step)


def argument_name(structure: TreeDef, place: int) -> str:
    """The name of one leaf, for a message."""
    return f"argument {argument_names(structure)[place]}"


class Arguments:
    """A quick test that arguments are like those a program was recorded for.

    It says yes only to arguments that are all tensors or plain numbers and strings, each tensor on
    memory of its own; anything else goes the long way round.
    """

    __slots__ = ("fit", "modes", "states", "structure", "tensors", "wanted")

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
                flag = x.requires_grad and (_IS_LEAF if x.is_leaf else _IS_RESULT)
                self.wanted.append((type(x), a.shape, a.strides, a.dtype, flag, type(a)))
            else:
                kind = type(x) if i in free and may_be_free(x) else None
                self.wanted.append((kind, x, None, None, None, None))
        self.fit = self._written()

    @staticmethod
    def simple(args: Sequence[Any]) -> bool:
        """Whether these are arguments the quick test can be made for."""
        identities = [x._storage.identity for x in args if isinstance(x, Tensor)]
        return len(set(identities)) == len(identities) and all(
            type(x) in _QUICK
            or (isinstance(x, Tensor) and not is_expanded(x) and not is_of_inference(x))
            for x in args
        )

    def _written(self) -> Callable[[Sequence[Any]], bool]:
        """Whether arguments are like those, as a function made for them.

        Generated, because a loop over descriptions would take longer than the look itself.
        """
        scope: dict[str, Any] = {"states": self.states, "own": _own_flag}
        tests = [f"len(args) == {len(self.wanted)}"]
        for i, (kind, shape, strides, dtype, flag, on) in enumerate(self.wanted):
            if kind is None:  # a zero may differ from an equal one in its sign
                scope |= {f"v{i}": shape, f"k{i}": type(shape)}
                alike = f"x.__class__ is k{i} and x and x == v{i}"
                tests.append(f"((x := args[{i}]) is v{i} or ({alike}))")
                continue
            scope[f"k{i}"] = kind
            tests.append(f"(x := args[{i}]).__class__ is k{i}")
            if kind is int:
                tests.append("not 0 <= x <= 1")
            if kind in (int, float):
                continue
            scope |= {f"s{i}": shape, f"t{i}": strides, f"d{i}": dtype, f"o{i}": on}
            if flag:
                tests.append(f"x.is_leaf is {flag is _IS_LEAF}")
            tests += [
                f"(a := x._array).shape == s{i}",
                f"a.strides == t{i}",
                f"a.__class__ is o{i}",  # arrays of another class are on another device
                f"(a.dtype is d{i} or a.dtype == d{i})",
                f"(x._requires_grad if x._base is None else own(x)) is {bool(flag)}",
                f"(b{i} := id((m := x._storage).buffer)) not in states",
            ]
            if not self.modes[1]:  # inference mode takes tensors that were made in it
                tests.append("m.version >= 0")
            tests += [f"b{i} != b{j}" for j in self.tensors if j < i and len(self.tensors) <= 4]
        if len(self.tensors) > 4:
            memories = ", ".join(f"b{i}" for i in self.tensors)
            tests.append(f"len({{{memories}}}) == {len(self.tensors)}")
        given = "".join(f", {name}={name}" for name in scope)
        text = f"def fit(args{given}):\n    return ({' and '.join(tests)})\n"
        return function_of_text(text, "fit", "<arguments>", scope)


def _own_flag(view: Tensor) -> bool:
    return view.requires_grad
