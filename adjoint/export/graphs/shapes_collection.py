"""Sizes that may change, said of tensors or found from further examples instead of by name."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from adjoint.engine.core.tree import flatten
from adjoint.engine.tensor.tensor import Tensor
from adjoint.export.errors import ExportError
from adjoint.export.graphs.dynamic_shapes import Dim


def _by_name(m: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None) -> dict[str, Any]:
    """The arguments of a call under the names that `forward` gives them."""
    forward = m.forward if hasattr(m, "forward") else m
    bound = inspect.signature(forward).bind(*args, **(kwargs or {}))
    return dict(bound.arguments)


def _said(value: Any, of: Any) -> Any:
    """What `of` says of each tensor in a structure, in the same structure."""
    if isinstance(value, Tensor):
        return of(value)
    if isinstance(value, Mapping):
        return {key: _said(item, of) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        parts = [_said(item, of) for item in value]
        return parts if isinstance(value, list) else tuple(parts)
    return of(value)


class ShapesCollection:
    """What may change, said of the example tensors themselves.

    Example:
        >>> import adjoint as ad
        >>> x = ad.zeros(4, 3)
        >>> shapes = ShapesCollection()
        >>> shapes[x] = {0: ad.export.Dim("batch", max=64)}
        >>> program = ad.export.export(ad.nn.Linear(3, 2), (x,), dynamic_shapes=shapes)
        >>> program.module()(ad.zeros(7, 3)).shape
        adjoint.Size([7, 2])
    """

    def __init__(self) -> None:
        self._shapes: dict[int, tuple[Any, Any]] = {}  # by identity, with what has it

    def __setitem__(self, t: Any, shape: Any) -> None:
        if not isinstance(t, Tensor):
            raise TypeError(f"Cannot assign shape to non-tensor type {type(t)}")
        known = self._shapes.get(id(t))
        if known is not None and known[1] != shape:
            raise AssertionError(f"Shapes assigned to input is a mismatch: {known[1]}, {shape}")
        self._shapes[id(t)] = (t, shape)

    def __getitem__(self, t: Any) -> Any:
        if id(t) not in self._shapes:
            self[t] = {}
        return self._shapes[id(t)][1]

    def __len__(self) -> int:
        return len(self._shapes)

    def dynamic_shapes(
        self, m: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The same by the names of arguments, as `export(dynamic_shapes=...)` takes it."""
        met: set[int] = set()

        def of(value: Any) -> Any:
            met.add(id(value))
            entry = self._shapes.get(id(value))
            return None if entry is None else entry[1]

        said = {name: _said(value, of) for name, value in _by_name(m, args, kwargs).items()}
        if missing := [shape for key, (_, shape) in self._shapes.items() if key not in met]:
            raise ValueError(
                f"ShapesCollection: {len(missing)} tensors with shapes are not among the arguments"
            )
        return said


class AdditionalInputs:
    """Further examples: a size that differs between them may change.

    Example:
        >>> import adjoint as ad
        >>> more = AdditionalInputs()
        >>> more.add((ad.zeros(5, 3),))
        >>> net = ad.nn.Linear(3, 2)
        >>> program = ad.export.export(net, (ad.zeros(4, 3),), dynamic_shapes=more)
        >>> program.module()(ad.zeros(9, 3)).shape
        adjoint.Size([9, 2])
    """

    def __init__(self) -> None:
        self._examples: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def add(self, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None) -> None:
        """One more example of a call."""
        if not isinstance(args, tuple):
            raise TypeError(f"Representative args {args} must be a tuple")
        if kwargs is not None and not isinstance(kwargs, Mapping):
            raise TypeError(f"Representative kwargs {kwargs} must be None or a dict")
        self._examples.append((args, dict(kwargs or {})))

    def dynamic_shapes(
        self, m: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """What differs between the examples and a call, by the names of arguments."""
        calls = [_by_name(m, args, kwargs)]
        calls += [_by_name(m, *example) for example in self._examples]
        leaves = [flatten(call)[0] for call in calls]
        if any(len(found) != len(leaves[0]) for found in leaves) or any(
            list(call) != list(calls[0]) for call in calls
        ):
            raise ValueError("AdditionalInputs: the examples differ in the arguments they have")
        columns = iter(zip(*leaves, strict=True))

        def of(value: Any) -> Any:
            column = next(columns)
            if not isinstance(value, Tensor):
                if any(other != value for other in column):
                    raise ExportError(
                        f"export: {value!r} differs between examples; only sizes of tensors may "
                        "change"
                    )
                return None
            if any(other.ndim != value.ndim for other in column):
                raise ValueError("AdditionalInputs: a tensor's number of dimensions is fixed")
            sizes = zip(*[other.shape for other in column], strict=True)
            return tuple([None if len({*found}) == 1 else Dim.DYNAMIC for found in sizes])

        return {name: _said(value, of) for name, value in calls[0].items()}

    def verify(self, ep: Any) -> None:
        """Run a program on each of the examples."""
        module = ep.module()
        for args, kwargs in self._examples:
            module(*args, **kwargs)
