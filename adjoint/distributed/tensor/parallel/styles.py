"""How one layer is divided, and how its inputs and results lie.

A column plan divides a layer's outputs, a row plan its inputs. One after the other they need one
sum per pair: the first's results are parts, which are just the second's inputs. A style makes
parameters DTensors, and puts around the module what turns plain inputs into DTensors and results
back: the module's own forward then works by the rules for DTensors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from adjoint.distributed.device_mesh import DeviceMesh
from adjoint.distributed.tensor.create import replicate
from adjoint.distributed.tensor.dtensor import DTensor, distribute_tensor
from adjoint.distributed.tensor.placement import Placement, Replicate, Shard
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn.modules.embedding import Embedding
from adjoint.nn.modules.linear import Linear
from adjoint.nn.modules.module import Module
from adjoint.nn.parameter import Parameter

LAST = Shard(-1)


class ParallelStyle(ABC):
    """How a module is divided among the processes of a mesh."""

    src_data_rank: int | None = 0

    @abstractmethod
    def apply(self, module: Module, mesh: DeviceMesh) -> None:
        """Divide a module, in place."""

    def place(self, module: Module, name: str, mesh: DeviceMesh, placement: Placement) -> None:
        """Make a parameter a DTensor."""
        whole = module._parameters.get(name)
        if whole is None or isinstance(whole, DTensor):
            return
        part = distribute_tensor(
            whole.detach(), mesh, [placement], src_data_rank=self.src_data_rank
        )
        module.register_parameter(name, Parameter(part, whole.requires_grad))


def taken(x: Any, mesh: DeviceMesh, layout: Placement | None, desired: Placement | None) -> Any:
    """An input as a DTensor in the layout that is desired; what has no layout stays as it is."""
    if layout is None or not isinstance(x, Tensor):
        return x
    if not isinstance(x, DTensor):
        x = DTensor.from_local(x, mesh, [layout])
    if desired is not None and x.placements != (desired,):
        x = x.redistribute(placements=[desired])
    return x


def handed(out: Any, layout: Placement | None, local: bool) -> Any:
    """A result in the layout that is wanted, as a plain tensor if so."""
    if not isinstance(out, DTensor):
        return out
    if layout is not None:
        out = out.redistribute(placements=[layout])
    return out.to_local() if local else out


class _OneInput(ParallelStyle):
    """A style of a layer with one input and one result."""

    wanted_input: Placement

    def __init__(
        self, input_layouts: Placement, output_layouts: Placement, use_local_output: bool
    ) -> None:
        self.input_layouts = input_layouts
        self.output_layouts = output_layouts
        self.use_local_output = use_local_output

    def surround(self, module: Module, mesh: DeviceMesh, desired: Placement) -> None:
        """Convert the module's input and result."""
        module.register_forward_pre_hook(
            lambda _, given: (taken(given[0], mesh, self.input_layouts, desired), *given[1:])
        )
        module.register_forward_hook(
            lambda _, given, out: handed(out, self.output_layouts, self.use_local_output)
        )


class ColwiseParallel(_OneInput):
    """Each process computes some of a Linear's outputs (or of an Embedding's columns).

    Args:
        input_layouts: how the input lies: whole unless given.
        output_layouts: how the result is to lie: parts of the last dimension unless given.
        use_local_output: whether the result is a plain tensor, this process's part.
    """

    def __init__(
        self, *, input_layouts: Placement | None = None, output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(input_layouts or Replicate(), output_layouts or LAST, use_local_output)

    def apply(self, module: Module, mesh: DeviceMesh) -> None:
        if isinstance(module, Linear):
            self.place(module, "weight", mesh, Shard(0))
            self.place(module, "bias", mesh, Shard(0))
        elif isinstance(module, Embedding):
            self.place(module, "weight", mesh, Shard(1))
        else:
            raise NotImplementedError(
                "ColwiseParallel currently only support nn.Linear and nn.Embedding! Received "
                f"{type(module).__name__}."
            )
        self.surround(module, mesh, Replicate())


class RowwiseParallel(_OneInput):
    """Each process has some of a Linear's inputs (or of an Embedding's rows); results are summed.

    Args:
        input_layouts: how the input lies: parts of the last dimension unless given.
        output_layouts: how the result is to lie: whole unless given.
        use_local_output: whether the result is a plain tensor, this process's part.
    """

    def __init__(
        self, *, input_layouts: Placement | None = None, output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(input_layouts or LAST, output_layouts or Replicate(), use_local_output)

    def apply(self, module: Module, mesh: DeviceMesh) -> None:
        if isinstance(module, Linear):
            self.place(module, "weight", mesh, Shard(1))
            self.place(module, "bias", mesh, Replicate())
            self.surround(module, mesh, LAST)
        elif isinstance(module, Embedding):
            self.place(module, "weight", mesh, Shard(0))
            self.surround(module, mesh, Replicate())
        else:
            raise NotImplementedError(
                "RowwiseParallel currently only support nn.Linear and nn.Embedding! Received "
                f"{type(module).__name__}."
            )


class SequenceParallel(_OneInput):
    """A layer that works on each position by itself (LayerNorm, RMSNorm, Dropout), divided by them.

    Args:
        sequence_dim: the dimension of positions.
        use_local_output: whether the result is a plain tensor, this process's part.
    """

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        super().__init__(Shard(sequence_dim), Shard(sequence_dim), use_local_output)

    def apply(self, module: Module, mesh: DeviceMesh) -> None:
        replicate(module, mesh)
        self.surround(module, mesh, self.input_layouts)


def _listed(layouts: Any) -> list[Any]:
    return [layouts] if isinstance(layouts, Placement) else list(layouts or ())


class PrepareModuleInput(ParallelStyle):
    """Converts the inputs of a module, whatever it is.

    Args:
        input_layouts: how each input lies; None for one that is left as it is.
        desired_input_layouts: how each is to lie.
        input_kwarg_layouts, desired_input_kwarg_layouts: the same for inputs by name.
        use_local_output: whether the module is given plain tensors, this process's parts.
    """

    def __init__(
        self, *, input_layouts: Any = None, desired_input_layouts: Any = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_output: bool = False,
    ) -> None:  # fmt: skip
        self.input_layouts = _listed(input_layouts)
        self.desired = _listed(desired_input_layouts)
        self.named, self.desired_named = (
            input_kwarg_layouts or {},
            desired_input_kwarg_layouts or {},
        )
        self.use_local_output = use_local_output
        if len(self.input_layouts) != len(self.desired):
            raise AssertionError("input_layouts and desired_input_layouts should have same length!")
        if self.named.keys() != self.desired_named.keys():
            raise AssertionError(
                "input_kwarg_layouts and desired_input_kwarg_layouts should have same keys!"
            )

    def apply(self, module: Module, mesh: DeviceMesh) -> None:
        def convert(_: Any, given: Sequence[Any], named: dict[str, Any]) -> Any:
            if self.input_layouts and len(given) != len(self.input_layouts):
                raise ValueError("module inputs and input_layouts should have same length!")
            plans = zip(self.input_layouts, self.desired, strict=True)
            pairs = zip(given, plans, strict=True) if self.input_layouts else ()
            converted = [self._one(x, mesh, *plan) for x, plan in pairs] or list(given)
            options = {
                k: self._one(v, mesh, self.named.get(k), self.desired_named.get(k))
                for k, v in named.items()
            }
            return tuple(converted), options

        module.register_forward_pre_hook(convert, with_kwargs=True)

    def _one(self, x: Any, mesh: DeviceMesh, layout: Any, desired: Any) -> Any:
        taken_input = taken(x, mesh, layout, desired)
        return (
            taken_input.to_local()
            if self.use_local_output and isinstance(taken_input, DTensor)
            else taken_input
        )


class PrepareModuleOutput(ParallelStyle):
    """Converts the results of a module, whatever it is.

    Args:
        output_layouts: how each result lies.
        desired_output_layouts: how each is to lie.
        use_local_output: whether they are plain tensors, this process's parts.
    """

    def __init__(
        self, *, output_layouts: Any, desired_output_layouts: Any, use_local_output: bool = True
    ) -> None:
        self.layouts, self.desired = _listed(output_layouts), _listed(desired_output_layouts)
        self.use_local_output = use_local_output
        if len(self.layouts) != len(self.desired):
            raise AssertionError(
                "output_layouts and desired_output_layouts should have same length!"
            )

    def apply(self, module: Module, mesh: DeviceMesh) -> None:
        def convert(_: Any, given: Any, out: Any) -> Any:
            results = out if isinstance(out, tuple) else (out,)
            if len(results) != len(self.layouts):
                raise ValueError("module outputs and output_layouts should have same length!")
            converted = tuple(
                handed(taken(x, mesh, a, None), b, self.use_local_output)
                for x, a, b in zip(results, self.layouts, self.desired, strict=True)
            )
            return converted if isinstance(out, tuple) else converted[0]

        module.register_forward_hook(convert)


class PrepareModuleInputOutput(ParallelStyle):
    """Both: the options of `PrepareModuleInput` and of `PrepareModuleOutput`."""

    def __init__(
        self, *, use_local_input: bool = False, output_layouts: Any, desired_output_layouts: Any,
        use_local_output: bool = True, **inputs: Any,
    ) -> None:  # fmt: skip
        self.before = PrepareModuleInput(**inputs, use_local_output=use_local_input)
        self.after = PrepareModuleOutput(
            output_layouts=output_layouts, desired_output_layouts=desired_output_layouts,
            use_local_output=use_local_output,
        )  # fmt: skip

    def apply(self, module: Module, mesh: DeviceMesh) -> None:
        self.before.apply(module, mesh)
        self.after.apply(module, mesh)
