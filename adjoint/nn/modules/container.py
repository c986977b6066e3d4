"""Containers of modules: Sequential, ModuleList, ModuleDict; those of parameters are found too."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Self, overload

from adjoint.nn.modules.module import Module, _addindent, type_name
from adjoint.nn.modules.parameter_container import ParameterDict as ParameterDict
from adjoint.nn.modules.parameter_container import ParameterList as ParameterList


class Container(Module):
    """The oldest container: modules by keyword. Sequential and ModuleDict replace it."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        for name, module in kwargs.items():
            self.add_module(name, module)


class Sequential(Module):
    """Modules called one after the other.

    Args:
        args: modules, or one `OrderedDict` of modules.

    Example:
        >>> import adjoint as ad
        >>> net = ad.nn.Sequential(ad.nn.Linear(2, 3), ad.nn.Identity())
        >>> net
        Sequential(
          (0): Linear(in_features=2, out_features=3, bias=True)
          (1): Identity()
        )
        >>> net(ad.ones(1, 2)).shape
        adjoint.Size([1, 3])
    """

    _modules: dict[str, Module]  # type: ignore[assignment]

    @overload
    def __init__(self, *args: Module) -> None: ...
    @overload
    def __init__(self, arg: OrderedDict[str, Module], /) -> None: ...
    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            items: Iterable[tuple[str, Any]] = args[0].items()
        else:
            items = ((str(i), module) for i, module in enumerate(args))
        for name, module in items:
            self.add_module(name, module)

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = module(input)
        return input

    def _name_at(self, index: Any) -> str:
        """The name of the module at a position, counted from either end."""
        return self._get_item_by_idx(self._modules, index)

    def _get_item_by_idx(self, iterator: Iterable[Any], idx: Any) -> Any:
        """What stands at a position, of a class of one's own that keeps modules in this order."""
        index, size = operator.index(idx), len(self)
        if not -size <= index < size:
            raise IndexError(f"index {index} is out of range")
        return list(iterator)[index % size]

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            return type(self)(OrderedDict(list(self._modules.items())[idx]))
        return self._modules[self._name_at(idx)]

    def __setitem__(self, idx: int, module: Module) -> None:
        setattr(self, self._name_at(idx), module)

    def __delitem__(self, idx: Any) -> None:
        names = list(self._modules)[idx] if isinstance(idx, slice) else [self._name_at(idx)]
        for name in names:
            delattr(self, name)
        self._renumber(list(self._modules.values()))

    def _renumber(self, modules: list[Module]) -> None:
        self._modules = {str(i): module for i, module in enumerate(modules)}

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def __add__(self, other: Sequential) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(
                "add operator supports only objects of Sequential class, but "
                f"{type(other)} is given."
            )
        return Sequential(*self, *other)

    def __iadd__(self, other: Sequential) -> Self:
        if not isinstance(other, Sequential):
            raise ValueError(
                "add operator supports only objects of Sequential class, but "
                f"{type(other)} is given."
            )
        return self.extend(other)

    def __mul__(self, other: int) -> Sequential:
        _check_factor(other)
        return Sequential(*(module for _ in range(other) for module in self))

    __rmul__ = __mul__

    def __imul__(self, other: int) -> Self:
        _check_factor(other)
        return self.extend(list(self) * (other - 1))

    def append(self, module: Module) -> Self:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Module) -> Self:
        """Put a module before the one at `index`."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        size = len(self)
        if not -size <= index <= size:
            raise IndexError(f"Index out of range: {index}")
        modules = list(self)
        modules.insert(index, module)
        self._renumber(modules)
        return self

    def extend(self, sequential: Iterable[Module]) -> Self:
        """Add modules at the end."""
        for module in list(sequential):
            self.append(module)
        return self

    def pop(self, key: Any) -> Module:
        """Remove a module and return it."""
        module: Module = self[key]
        del self[key]
        return module


def _check_factor(times: Any) -> None:
    if not isinstance(times, int):
        raise TypeError(f"unsupported operand type(s) for *: {Sequential} and {type(times)}")
    if times <= 0:
        raise ValueError(f"Non-positive multiplication factor {times} for {Sequential}")


class ModuleList(Module):
    """A list whose elements are registered as submodules.

    Args:
        modules: modules to begin with.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.ModuleList([ad.nn.Identity() for _ in range(3)])
        ModuleList(
          (0-2): 3 x Identity()
        )
    """

    _modules: dict[str, Module]  # type: ignore[assignment]

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self += modules

    def _get_abs_string_index(self, idx: Any) -> str:
        """The name of the module at a position, counted from either end."""
        index, size = operator.index(idx), len(self)
        if not -size <= index < size:
            raise IndexError(f"index {index} is out of range")
        return str(index % size)

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            return type(self)(list(self._modules.values())[idx])
        return self._modules[self._get_abs_string_index(idx)]

    def __setitem__(self, idx: int, module: Module) -> None:
        setattr(self, self._get_abs_string_index(idx), module)

    def __delitem__(self, idx: Any) -> None:
        modules = list(self._modules.values())
        if isinstance(idx, slice):
            del modules[idx]
        else:
            del modules[int(self._get_abs_string_index(idx))]
        self._renumber(modules)

    def _renumber(self, modules: list[Module]) -> None:
        self._modules = {str(i): module for i, module in enumerate(modules)}

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList(chain(self, other))

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def insert(self, index: int, module: Module) -> None:
        """Put a module before the one at `index`."""
        modules = list(self)
        modules.insert(index, module)
        self._renumber(modules)

    def pop(self, key: Any) -> Module:
        """Remove a module and return it."""
        module: Module = self[key]
        del self[key]
        return module

    def append(self, module: Module) -> Self:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add modules at the end."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                "ModuleList.extend should be called with an iterable, but got "
                + type(modules).__name__
            )
        for module in list(modules):
            self.append(module)
        return self

    def __repr__(self) -> str:
        if not len(self):
            return self._get_name() + "()"
        runs: list[tuple[int, int, str]] = []  # first, last, text: equal neighbours print once
        for i, text in enumerate(map(repr, self)):
            if runs and runs[-1][2] == text:
                runs[-1] = (runs[-1][0], i, text)
            else:
                runs.append((i, i, text))
        lines = []
        for first, last, text in runs:
            shown = _addindent(text, 2)
            if first == last:
                lines.append(f"({first}): {shown}")
            else:
                lines.append(f"({first}-{last}): {last - first + 1} x {shown}")
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"


class ModuleDict(Module):
    """A dictionary whose values are registered as submodules.

    Args:
        modules: a mapping or pairs to begin with.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.ModuleDict({"a": ad.nn.Identity()})["a"]
        Identity()
    """

    _modules: dict[str, Module]  # type: ignore[assignment]

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Remove every module."""
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """Remove a module and return it."""
        return self._modules.pop(key)

    def keys(self) -> Any:
        """The names."""
        return self._modules.keys()

    def items(self) -> Any:
        """The pairs of name and module."""
        return self._modules.items()

    def values(self) -> Any:
        """The modules."""
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Add modules from a mapping or pairs; those of the same name are replaced."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                "ModuleDict.update should be called with an iterable of key/value pairs, but got "
                + type(modules).__name__
            )
        if isinstance(modules, (Mapping, ModuleDict)):
            for key, module in modules.items():
                self[key] = module
            return
        for i, pair in enumerate(modules):
            if not isinstance(pair, Iterable):
                raise TypeError(
                    f"ModuleDict update sequence element #{i} should be Iterable; is "
                    + type_name(pair)
                )
            pair = tuple(pair)
            if len(pair) != 2:
                raise ValueError(
                    f"ModuleDict update sequence element #{i} has length {len(pair)}; 2 is required"
                )
            self[pair[0]] = pair[1]
