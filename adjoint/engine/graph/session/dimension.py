"""`Dimension`: an unknown size as code that builds a graph has it (Note [unknown sizes])."""

from __future__ import annotations

from collections.abc import Callable
from keyword import iskeyword
from typing import Any

from adjoint.engine.core.spec import Size
from adjoint.engine.graph.sizes.extents import Extent, ExtentFloat, SizeScope, is_extent
from adjoint.engine.graph.sizes.unknown_sizes import UnknownSizes


class Dimension:
    """An unknown size as the code that builds a graph has it; each run says what it is.

    Example:
        >>> import adjoint as ad
        >>> with ad.Graph() as g:
        ...     x = ad.placeholder(("batch", 3), name="x")
        ...     y = g.name(x.sum(0) / x.shape[0], "y")
        >>> x.shape[0] * 2 + 1
        2*batch + 1
        >>> ad.Session(g).run(y, {"x": ad.ones(5, 3)})
        tensor([1., 1., 1.])
    """

    __slots__ = ("extent",)

    def __init__(self, extent: Extent | ExtentFloat) -> None:
        self.extent = extent

    def __repr__(self) -> str:
        return repr(self.extent) if isinstance(self.extent, Extent) else "a quotient of sizes"

    def _refuse(self, *_: Any) -> Any:
        raise TypeError(
            f"Graph: {self!r} is an unknown size, which is no number until the graph runs. Sums, "
            "products, quotients and comparisons of it can be had, and functions of tensors take "
            "it; give the placeholder a size where a number is needed."
        )

    __index__ = __int__ = __float__ = __complex__ = __round__ = __trunc__ = _refuse
    __floor__ = __ceil__ = __hash__ = _refuse

    def _beside(self, others: tuple[Any, ...]) -> Any:
        """Operands as numbers and extents of the same graph."""
        scope = getattr(self.extent, "scope", None)
        given = tuple([plain(x, scope) for x in others])
        return given if all(isinstance(x, (int, float)) for x in given) else NotImplemented

    def __bool__(self) -> bool:
        return bool(self.extent) if isinstance(self.extent, Extent) else self._refuse()


def _operation(name: str) -> Callable[..., Any]:
    def method(self: Dimension, *others: Any) -> Any:
        given = self._beside(others)
        return given if given is NotImplemented else shown(getattr(self.extent, name)(*given))

    return method


def _comparison(name: str) -> Callable[..., Any]:
    def method(self: Dimension, other: Any) -> Any:
        given = self._beside((other,))
        if given is NotImplemented:
            return given
        if isinstance(given[0], float) or isinstance(self.extent, float):
            return self._refuse()
        return getattr(self.extent, name)(*given)

    return method


for _name in "add sub mul truediv floordiv mod pow divmod".split():
    setattr(Dimension, f"__{_name}__", _operation(f"__{_name}__"))
    setattr(Dimension, f"__r{_name}__", _operation(f"__r{_name}__"))
for _name in "neg pos abs".split():
    setattr(Dimension, f"__{_name}__", _operation(f"__{_name}__"))
for _name in "lt le gt ge eq ne".split():
    setattr(Dimension, f"__{_name}__", _comparison(f"__{_name}__"))


def shown(x: Any) -> Any:
    """What the building code sees of a result: dimensions in the place of extents."""
    if is_extent(x):
        return Dimension(x)
    if isinstance(x, Size):
        return Size([shown(n) for n in x])
    return tuple([shown(n) for n in x]) if type(x) is tuple else x


def plain(x: Any, scope: SizeScope | None) -> Any:
    """What an operation is given: extents, of the graph's sizes, in the place of dimensions."""
    kind = type(x)
    if kind is Dimension:
        own = getattr(x.extent, "scope", None)
        if scope is not None and own is not None and own is not scope:
            raise ValueError(f"Graph: the unknown size {x!r} is one of another graph.")
        return x.extent
    if isinstance(x, (tuple, list)):
        items = [plain(v, scope) for v in x]
        return x if all(a is b for a, b in zip(items, x, strict=True)) else kind(items)
    if kind is dict:
        return {k: plain(v, scope) for k, v in x.items()}
    if kind is slice:
        return slice(*[plain(v, scope) for v in (x.start, x.stop, x.step)])
    return x


def size_of(given: Any, sizes: UnknownSizes, default: str) -> int:
    """One size of a placeholder: a number, None (any), or a name (any, equal to its others)."""
    if given is None:
        return sizes.symbol(default)
    if isinstance(given, str):
        if not given.isidentifier() or iskeyword(given):
            raise ValueError(f"placeholder: a size's name must be an identifier, not {given!r}")
        return sizes.symbol(given)
    if type(given) is Dimension and isinstance(given.extent, Extent):
        return plain(given, sizes.scope)
    if not isinstance(given, int) or given < 0:
        raise ValueError(
            f"placeholder: received {given!r} as a size. Give whole numbers, None for a size that "
            "each run says, or a name for one that several placeholders share."
        )
    return given
