"""Walking a tree of modules: children, parameters, buffers, and finding one by its path."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn.parameter import Parameter

if TYPE_CHECKING:
    from adjoint.nn.modules.module import Module


class Traversal:
    """The part of Module that looks through the tree below it."""

    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]

    # -- modules ------------------------------------------------------------------------------

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Direct submodules with their names, each once."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        """Direct submodules, each once."""
        for _, module in self.named_children():
            yield module

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """This module and all below it, with dotted names.

        Args:
            memo: modules to leave out; those found are added.
            prefix: put in front of every name.
            remove_duplicate: whether a module reached by two names appears once.

        Example:
            >>> import adjoint as ad
            >>> [n for n, _ in ad.nn.Sequential(ad.nn.Identity()).named_modules()]
            ['', '0']
        """
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                below = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, below, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Any]:
        """This module and all below it, each once unless duplicates are asked for."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    # -- tensors ------------------------------------------------------------------------------

    def _named_members(
        self,
        get_members_fn: Callable[[Any], Any],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        """What `get_members_fn` finds in each module, with dotted names."""
        seen: set[Any] = set()
        owners = (
            self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
            if recurse
            else [(prefix, self)]
        )
        for path, owner in owners:
            for name, member in get_members_fn(owner):
                if member is None or member in seen:
                    continue
                if remove_duplicate:
                    seen.add(member)
                yield (f"{path}.{name}" if path else name), member

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Parameters with dotted names.

        Args:
            prefix: put in front of every name.
            recurse: whether to include those of submodules.
            remove_duplicate: whether a shared parameter appears once.

        Example:
            >>> import adjoint as ad
            >>> [name for name, _ in ad.nn.Linear(2, 3).named_parameters()]
            ['weight', 'bias']
        """
        yield from self._named_members(
            lambda module: module._parameters.items(), prefix, recurse, remove_duplicate
        )

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Parameters, each once: what an optimizer takes."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Buffers with dotted names; arguments as for `named_parameters`."""
        yield from self._named_members(
            lambda module: module._buffers.items(), prefix, recurse, remove_duplicate
        )

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Buffers, each once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    # -- by path ------------------------------------------------------------------------------

    def get_submodule(self, target: str) -> Any:
        """The module at a dotted path.

        Example:
            >>> import adjoint as ad
            >>> ad.nn.Sequential(ad.nn.Identity()).get_submodule("0")
            Identity()
        """
        module: Any = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, Traversal):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put a module at a dotted path.

        Args:
            target: the path; all but its last part must exist.
            module: the module to put there.
            strict: whether there must be one already, to be replaced.
        """
        if not target:
            raise ValueError("Cannot set the submodule without a target name!")
        above, _, name = target.rpartition(".")
        if not isinstance(module, Traversal):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        parent = self.get_submodule(above)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Traversal):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a dotted path."""
        above, _, name = target.rpartition(".")
        owner = self.get_submodule(above)
        if not hasattr(owner, name):
            raise AttributeError(f"{owner._get_name()} has no attribute `{name}`")
        parameter = getattr(owner, name)
        if not isinstance(parameter, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return parameter

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a dotted path."""
        above, _, name = target.rpartition(".")
        owner = self.get_submodule(above)
        if not hasattr(owner, name):
            raise AttributeError(f"{owner._get_name()} has no attribute `{name}`")
        if name not in owner._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        buffer: Tensor = getattr(owner, name)
        return buffer
