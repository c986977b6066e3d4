"""Sizes that may change in exported programs: PyTorch's `torch.export.dynamic_shapes`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

from adjoint.engine.core.tree import flatten
from adjoint.engine.tensor.tensor import Tensor
from adjoint.export.errors import ExportError

NO_LIMIT = (1 << 63) - 1


class DimHint(Enum):
    """A dimension without a name."""

    AUTO = "may change if the program allows it"
    DYNAMIC = "may change"
    STATIC = "is fixed"


class Dim:
    """A size that may change, by name; equal names are equal sizes.

    Example:
        >>> batch = Dim("batch", min=2, max=64)
        >>> batch.__name__, batch.min, batch.max
        ('batch', 2, 64)
    """

    AUTO: ClassVar[DimHint] = DimHint.AUTO
    DYNAMIC: ClassVar[DimHint] = DimHint.DYNAMIC
    STATIC: ClassVar[DimHint] = DimHint.STATIC

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        if not isinstance(name, str) or not name.isidentifier():
            raise ValueError(f"Dim: a name is an identifier, received {name!r}.")
        self.__name__ = name
        self.min = 0 if min is None else min
        self.max = NO_LIMIT if max is None else max
        if not 0 <= self.min <= self.max:
            raise ValueError(f"Dim: there is no size from {min} to {max}.")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dim) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(self.__name__)

    def __repr__(self) -> str:
        return f"Dim({self.__name__!r}, min={self.min}, max={self.max})"


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """Several dimensions of one range."""
    return tuple(Dim(name, min=min, max=max) for name in names)


@dataclass(frozen=True, slots=True)
class ValueRanges:
    """The sizes that a symbol may have."""

    lower: int
    upper: int


@dataclass(frozen=True, slots=True)
class CallSize:
    """A size of the call: its name and range, where it is, and whether it may turn out fixed."""

    name: str
    low: int
    high: int
    places: tuple[tuple[int, int], ...]  # leaf and dimension
    optional: bool


def dynamic_sizes(dynamic_shapes: Any, args: Any, kwargs: Any, names: Sequence[str]) -> Any:
    """The sizes that may change, from what a user says of the arguments."""
    if dynamic_shapes is None:
        return []
    said: list[tuple[Any, Any]] = []
    if isinstance(dynamic_shapes, Mapping):
        by_name = dict(zip(names, args, strict=False)) | kwargs
        unknown = [name for name in dynamic_shapes if name not in by_name]
        if unknown:
            raise ExportError(
                f"export: dynamic_shapes has {unknown[0]!r}; the arguments are {list(by_name)}."
            )
        said = [(dynamic_shapes.get(name), value) for name, value in by_name.items()]
    else:
        values = [*args, *kwargs.values()]
        if len(dynamic_shapes) != len(values):
            raise ExportError(
                f"export: dynamic_shapes has {len(dynamic_shapes)} entries for {len(values)} "
                "arguments. Give one for each, None where nothing changes."
            )
        said = list(zip(dynamic_shapes, values, strict=True))
    collector = _Collector()
    for shape, value in said:
        collector.visit(shape, value)
    return collector.sizes()


class _Collector:
    """Walks over arguments and what is said of them, side by side."""

    def __init__(self) -> None:
        self.leaf = 0
        self.known: dict[str, tuple[Dim | None, list[tuple[int, int]], bool]] = {}

    def sizes(self) -> list[CallSize]:
        return [
            CallSize(
                name,
                0 if dim is None else dim.min,
                NO_LIMIT if dim is None else dim.max,
                tuple(places),
                optional,
            )
            for name, (dim, places, optional) in self.known.items()
        ]

    def visit(self, said: Any, value: Any) -> None:
        if isinstance(value, Tensor):
            self._tensor(said, value)
            self.leaf += 1
        elif isinstance(value, Mapping):
            for key, item in value.items():
                self.visit(None if said is None else said.get(key), item)
        elif isinstance(value, (list, tuple)):
            for k, item in enumerate(value):
                self.visit(None if said is None else said[k], item)
        elif said is not None and said is not DimHint.STATIC:
            raise ExportError(f"export: dynamic_shapes says {said!r} of {value!r}, no tensor.")
        else:
            self.leaf += len(flatten(value)[0])

    def _tensor(self, said: Any, tensor: Tensor) -> None:
        listed = said.items() if isinstance(said, Mapping) else enumerate(said or ())
        for d, size in listed:
            if size is None or size is DimHint.STATIC or isinstance(size, int):
                continue
            if not -tensor.ndim <= d < tensor.ndim:
                raise ExportError(f"export: dimension {d} of a tensor of {tensor.ndim}.")
            if not isinstance(size, (Dim, DimHint)):
                raise ExportError(
                    f"export: a dynamic size is a Dim or a hint, received {size!r}. Sizes computed "
                    "from others are found by themselves."
                )
            place = (self.leaf, d % tensor.ndim)
            name = size.__name__ if isinstance(size, Dim) else f"s{place[0]}_{place[1]}"
            dim = size if isinstance(size, Dim) else None
            entry = self.known.setdefault(name, (dim, [], size is DimHint.AUTO))
            if entry[0] != dim:
                raise ExportError(f"export: two ranges for the size {name!r}.")
            entry[1].append(place)
