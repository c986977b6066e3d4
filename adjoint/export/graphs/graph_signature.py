"""What inputs and outputs of exported graphs are: PyTorch's `torch.export.graph_signature`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any


class InputKind(Enum):
    """What an input is."""

    USER_INPUT = "user input"
    PARAMETER = "parameter"
    BUFFER = "buffer"
    CONSTANT_TENSOR = "constant tensor"


class OutputKind(Enum):
    """What an output is."""

    USER_OUTPUT = "user output"
    BUFFER_MUTATION = "buffer mutation"
    USER_INPUT_MUTATION = "user input mutation"


@dataclass(frozen=True)
class TensorArgument:
    """A tensor, by the name of its node."""

    name: str


@dataclass(frozen=True)
class ConstantArgument:
    """A value that is fixed."""

    name: str
    value: Any


@dataclass(frozen=True)
class InputSpec:
    """One input: what it is, its node, and the attribute it is of the module."""

    kind: InputKind
    arg: TensorArgument | ConstantArgument
    target: str | None
    persistent: bool | None = None


@dataclass(frozen=True)
class OutputSpec:
    """One output: what it is, its node, and what it is written into."""

    kind: OutputKind
    arg: TensorArgument | ConstantArgument
    target: str | None


@dataclass(frozen=True)
class ExportGraphSignature:
    """All inputs and outputs of an exported graph, in their order."""

    input_specs: list[InputSpec]
    output_specs: list[OutputSpec]

    def _targets(self, kind: InputKind) -> dict[str, str]:
        return {s.arg.name: str(s.target) for s in self.input_specs if s.kind is kind}

    @property
    def inputs_to_parameters(self) -> Mapping[str, str]:
        """Nodes that stand for parameters, and which."""
        return self._targets(InputKind.PARAMETER)

    @property
    def inputs_to_buffers(self) -> Mapping[str, str]:
        """Nodes that stand for buffers, and which."""
        return self._targets(InputKind.BUFFER)

    @property
    def inputs_to_lifted_tensor_constants(self) -> Mapping[str, str]:
        """Nodes that stand for other tensors of the module, and which."""
        return self._targets(InputKind.CONSTANT_TENSOR)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of parameters, in the order of the inputs."""
        return tuple(self.inputs_to_parameters.values())

    @property
    def buffers(self) -> tuple[str, ...]:
        """Names of buffers."""
        return tuple(self.inputs_to_buffers.values())

    @property
    def lifted_tensor_constants(self) -> tuple[str, ...]:
        """Names of other tensors."""
        return tuple(self.inputs_to_lifted_tensor_constants.values())

    @property
    def user_inputs(self) -> tuple[Any, ...]:
        """Nodes of the arguments; the value itself of what is fixed."""
        arguments = [s.arg for s in self.input_specs if s.kind is InputKind.USER_INPUT]
        return tuple(a.value if isinstance(a, ConstantArgument) else a.name for a in arguments)

    @property
    def user_outputs(self) -> tuple[Any, ...]:
        """Nodes of the results; the value itself of what is fixed."""
        arguments = [s.arg for s in self.output_specs if s.kind is OutputKind.USER_OUTPUT]
        return tuple(a.value if isinstance(a, ConstantArgument) else a.name for a in arguments)

    def _written(self, kind: OutputKind) -> dict[str, str]:
        return {s.arg.name: str(s.target) for s in self.output_specs if s.kind is kind}

    @property
    def buffers_to_mutate(self) -> Mapping[str, str]:
        """Nodes whose values buffers take, and which."""
        return self._written(OutputKind.BUFFER_MUTATION)

    @property
    def user_inputs_to_mutate(self) -> Mapping[str, str]:
        """Nodes whose values arguments take, and which."""
        return self._written(OutputKind.USER_INPUT_MUTATION)
