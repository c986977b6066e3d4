"""The templates of functions computed element by element (Note [elements by themselves])."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

from adjoint.engine.backends.llvm.templates.elements import (
    attempts,
    draws,
    gamma_gradient,
    polynomials,
)
from adjoint.engine.backends.llvm.templates.elements.kernel import (
    Attempts,
    ElementForm,
    ElementWords,
    ElementWriter,
)
from adjoint.engine.backends.registers.vector import V
from adjoint.engine.compiler.lower.indexed import Fault
from adjoint.engine.compiler.memory.places import Place
from adjoint.engine.compiler.schedule.steps import (
    Address,
    Launch,
    Status,
    double_bits,
    sized,
    whole,
)
from adjoint.engine.compiler.target import LayoutOf, Setting, Template
from adjoint.engine.graph.ir import Node, Value
from adjoint.engine.graph.sizes.extents import is_extent
from adjoint.engine.ops.random.tensor_parameters import NEGATIVE_RATE

KINDS = {"float32": "f32", "float64": "f64", "int64": "i64"}
REAL = frozenset({"float32", "float64"})
SHARE = 32  # elements that are worth a worker


@dataclass(frozen=True, slots=True)
class Computed:
    """How a function is computed, and what an element costs in element operations."""

    write: Callable[[ElementWriter], V]
    cost: float
    fault: Fault | None = None
    lanes: int = 1  # elements computed together
    attempt: Attempts | None = None  # of several elements at a time


FUNCTIONS = {
    "poisson": Computed(
        draws.poisson, 200.0, Fault(RuntimeError, NEGATIVE_RATE), attempt=attempts.poisson
    ),
    "binomial": Computed(draws.binomial, 300.0, attempt=attempts.binomial),
    "standard_gamma": Computed(draws.standard_gamma, 200.0, attempt=attempts.standard_gamma),
    "standard_gamma_grad": Computed(gamma_gradient.standard_gamma_grad, 1500.0),
    **{name: Computed(write, 40.0, lanes=4) for name, write in polynomials.POLYNOMIALS.items()},
}


def is_known(x: Any) -> bool:
    """Whether an operand is a tensor on the CPU, of a dtype that is read and sizes that are known.

    It is not empty either.
    """
    return (
        isinstance(x, Value)
        and not x.host
        and x.spec.dtype.name in KINDS
        and x.spec.device.type == "cpu"
        and not any(map(is_extent, x.spec.shape))
        and 0 not in x.spec.shape
    )


def accepts(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Operands as large as the result, or of a single element."""
    out = node.outputs[0].spec
    return out.dtype.name in REAL and all(
        is_known(x) and (prod(x.spec.shape) == 1 or x.spec.shape == out.shape) for x in inputs
    )


def packed(layout: LayoutOf, inputs: tuple[Any, ...]) -> set[int]:
    """Operands are read in row-major order."""
    return {i for i, x in enumerate(inputs) if not layout(x).contiguous}


def steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """One launch; elements are dealt out among the workers."""
    name, spec = node.record.name, node.outputs[0].spec
    function, count = FUNCTIONS[name], prod(spec.shape)
    kinds = tuple(KINDS[x.spec.dtype.name] for x in node.inputs)
    single = tuple(prod(place.shape) < count for place in operands)
    kind = KINDS[spec.dtype.name]
    form = ElementForm(name, kinds, single, kind, function.write, function.lanes, function.attempt)
    words = ElementWords(address(results[0]), count)
    words.number = double_bits(float(node.params.get("order", 0)))
    if function.fault is not None:
        words.status, words.fault = Status(), function.fault
    return [
        Launch(
            function=form.function,
            text=form.text,
            words=[*words.listed(), *map(address, operands)],
            reads=tuple(whole(place.buffer) for place in operands),
            writes=(whole(results[0].buffer),),
            pieces=max(1, count // SHARE),
            cost=count * function.cost,
            label=sized(name, count),
        )
    ]


def address(place: Place) -> Address:
    """Where a place begins."""
    return Address(place.buffer, place.offset * place.buffer.dtype.itemsize)


TEMPLATES = dict.fromkeys(FUNCTIONS, Template(accepts, packed, steps))
