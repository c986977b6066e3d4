"""Names of kinds that mean the same in every process.

Note [kept kinds]
    A program is kept on disk under what was recorded. To record an operation takes little, but what
    records it takes as long to load as all that runs it (Note [loaded fragments]). A kind decides
    what is recorded (Note [fragments]), so where a kind can be named, a further entry on disk leads
    from its name to the program, and says which results it makes: a later process finds it without
    a recording, or that there is none. The name has the package's code and the machine in it, as
    programs' own names do.

    There is a name where all that a kind holds is plain (numbers, text, types, dtypes, devices),
    the tensors are NumPy's own arrays, and the operation, its rules and Tensor's methods, which
    those call, are functions of the engine's. All else is recorded. The program is the same one. A
    kind that is on disk is found there rather than planned for many sizes (Note [open kinds]): one
    that is filled in has the same bits. Who looks on, a profile say, asks what it
    is made of, so then it is recorded after all.
"""

from __future__ import annotations

import marshal
from collections.abc import Sequence
from typing import Any, Literal

from numpy import __version__ as numpy_version
from numpy import ndarray

from adjoint.engine.autodiff.tape.tape_plan import TapePlan
from adjoint.engine.core.device import Device
from adjoint.engine.core.dtype import DType, get_default_dtype
from adjoint.engine.core.operations.record import HOOKS, REGISTRY, Record, Rule
from adjoint.engine.core.ownership import REPLACED, is_written_here
from adjoint.engine.core.spec import Size, Spec
from adjoint.engine.core.state import switches
from adjoint.engine.core.tree import flatten
from adjoint.engine.graph.eager.fragment import Fragment, Result, Unfit
from adjoint.engine.tensor.tensor import Tensor

ENGINE = __name__.partition(".graph.")[0] + "."
PLAIN = frozenset({int, float, bool, str, complex, type(None)})  # marshal tells them apart
TYPES = frozenset({tuple, list, dict, int, float, bool, str, complex})
HOLDERS: dict[str, Any] = {"tuple": tuple, "list": list}


class Nameless(Exception):
    """Something that has no name of its content."""


def name_of(key: Any, tensors: Sequence[Tensor], numbers: Sequence[float]) -> bytes | None:
    """The name of a kind; None where it has none."""
    about = told_tensors(tensors, numbers)
    if about is None:
        return None
    try:
        owner, *rest = key
        told = (told_owner(owner), tuple([told_value(x) for x in rest]), about)
        # The second of marshal's formats writes equal values alike, whoever else holds them.
        return marshal.dumps(told, 2)
    except Nameless:
        return None


def told_tensors(tensors: Sequence[Tensor], numbers: Sequence[float]) -> Any:
    """All that a recording may look at besides the operation; None where it has no name."""
    if REPLACED:
        return None
    arrays = [t._array for t in tensors]
    if any(a.__class__ is not ndarray for a in arrays):
        return None
    names = [*map(id, tensors)]
    try:
        return (
            tuple(
                [
                    (t._spec.dtype.name, a.dtype.str, a.shape, a.strides)
                    for t, a in zip(tensors, arrays, strict=True)
                ]
            ),
            tuple(map(names.index, names)),
            tuple([type(x).__name__ for x in numbers]),
            get_default_dtype().name,
            numpy_version,  # how results lie is tried with it where that is in doubt
            tuple([told_value(x) for x in switches.computed_with]),
        )
    except Nameless:
        return None


def told_owner(owner: Any) -> Any:
    """An operation, or the rules of one, by name."""
    if owner.__class__ is TapePlan:
        return (b"rules", told_owner(owner.record), owner.tracked, owner.outputs)
    if owner.__class__ is not Record or not is_the_engines(owner):
        raise Nameless
    return (b"record", owner.name)


def is_the_engines(record: Record) -> bool:
    """Whether all that a recording of an operation calls is in the package's code."""
    if record.opaque or REGISTRY.get(record.name) is not record:
        return False
    rules = [*record.rules, record.joint]
    called: list[Any] = [rule.fn for rule in rules if isinstance(rule, Rule)]
    called += [record.infer, record.compose, record.decompose, record.by_channels]
    return all(
        fn is None
        or ((getattr(fn, "__module__", None) or "").startswith(ENGINE) and is_written_here(fn))
        for fn in called
    )


def told_value(x: Any) -> Any:
    """A value as marshal knows it; tags are bytes, which no value is."""
    kind = type(x)  # a host's number says it is of another class
    if kind in PLAIN:
        return x
    if kind is tuple:
        return tuple([told_value(v) for v in x])
    if kind is type and x in TYPES:
        return (b"type", x.__name__)
    if kind is DType:
        return (b"dtype", x.name)
    if kind is Device:
        return (b"device", str(x))
    if kind is Spec or kind is Size:
        return (kind.__name__.encode(), *[told_value(v) for v in x])
    raise Nameless


def found(name: bytes, shared: dict[str, Any]) -> Fragment | Literal[False] | None:
    """The fragment of a kind, if its program is on disk under its name; False: it has none."""
    there = HOOKS.find_operation(name, shared)
    if there is None:
        return None
    executable, about = there
    if executable is None:
        return False
    try:
        return rebuilt(executable, about)
    except (KeyError, TypeError, ValueError):
        return None  # not what `keep` writes: it is recorded, and written again


def rebuilt(executable: Any, about: dict[str, Any]) -> Fragment:
    """A fragment from what was told of it."""
    places = tuple([int(k) for k in about["places"]])
    results = tuple([None if r is None else read_result(*r) for r in about["results"]])
    made = {r.output for r in results if r is not None}
    if not made <= {k for k, _, _ in executable.image.results}:
        raise ValueError("a result that the program does not make")
    structure, built = read_holder(about["holder"], len(results))
    if structure is None and (not results or results[0] is None):
        raise ValueError("no result")
    in_order, flops = bool(about["in_order"]), int(about["flops"])
    what = str(about["what"])
    return Fragment(executable, places, results, structure, what, built, in_order, flops, True)


def told_holder(structure: Any, built: Any, count: int) -> str | None:
    """What holds so many results, by name; None: they are one."""
    if structure is None:
        return None
    name: str = structure.kind.__name__ if structure.kind else ""
    known = HOLDERS.get(name)
    if known is None or known is not built or flatten(known([0] * count))[1] != structure:
        raise Nameless
    return name


def read_holder(name: str | None, count: int) -> tuple[Any, Any]:
    """The structure of so many results and what makes it, by its name."""
    if name is None:
        return None, tuple
    built = HOLDERS[name]
    return flatten(built([0] * count))[1], built


def read_result(output: Any, order: Any, shape: Any) -> Result:
    """A result from what was told of it."""
    return Result(
        int(output),
        None if order is None else tuple(order),
        None if shape is None else tuple(shape),
    )


def keep_unfit(name: bytes, unfit: Unfit) -> None:
    """Have it found that a kind is none for a program, if the kind decides that.

    Rules that hand on what they are given are such. What an error says may be another one the next
    time: it came too deep in calls, or while memory was short.
    """
    if unfit.__cause__ is None:
        HOOKS.keep_operation(name, None, {})


def keep(name: bytes, fragment: Fragment) -> None:
    """Have a fragment found by its kind's name, if what it gives can be told."""
    results = fragment.results
    try:
        holder = told_holder(fragment.structure, fragment.built, len(results))
    except Nameless:
        return
    about = {
        "places": fragment.places,
        "results": [None if r is None else [r.output, r.order, r.shape] for r in results],
        "holder": holder,
        "what": fragment.what,
        "in_order": fragment.in_order,
        "flops": fragment.flops,
    }
    HOOKS.keep_operation(name, fragment.executable, about)
