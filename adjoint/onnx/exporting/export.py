"""`export`: a model recorded, said in ONNX, checked, compared, and only then written."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice
from math import isqrt
from pathlib import Path
from typing import IO, Any

import numpy as np

import adjoint as ad
from adjoint.engine.core.availability.libraries import need
from adjoint.engine.core.files.atomic import atomic_write
from adjoint.engine.graph.sizes.extents import Extent
from adjoint.onnx.exporting import elementwise as elementwise  # these fill the table
from adjoint.onnx.exporting import flow as flow
from adjoint.onnx.exporting import layers as layers
from adjoint.onnx.exporting import order as order
from adjoint.onnx.exporting import quantized as quantized
from adjoint.onnx.exporting import resampling as resampling
from adjoint.onnx.exporting import rewrites as rewrites
from adjoint.onnx.exporting import shapes as shapes
from adjoint.onnx.exporting.comparing import compare
from adjoint.onnx.exporting.complexes import complex_outputs
from adjoint.onnx.exporting.dimensions import AUTO, dynamic_dims, without
from adjoint.onnx.exporting.recording import (
    CallForOnnx,
    Dims,
    ExampleArguments,
    Hint,
    arguments,
    deciding_nodes,
    difference,
    evaluating,
    record,
)
from adjoint.onnx.exporting.spelling import (
    TrainingMode,
    UnderWay,
    called,
    check_options,
    in_training,
)
from adjoint.onnx.exporting.writer import NodeWriter, Shared, real_parts
from adjoint.onnx.loading import load
from adjoint.onnx.types import ARRAYS, NUMBERS, OnnxError

OLDEST, NEWEST, USUAL = 18, 28, 20
LARGEST_INSIDE = (1 << 31) - (1 << 20)  # bytes that one message of ONNX can hold
SMALL = 1024  # bytes up to which a tensor stays in the model


@dataclass(frozen=True)
class OnnxProgram:
    """An exported model: its message, which is saved, run, or looked at."""

    model_proto: Any

    def optimize(self) -> None:
        """Nothing is left to do: a recording is written without detours."""

    def save(
        self,
        destination: str | os.PathLike[str],
        *,
        external_data: bool | None = None,
        include_initializers: bool = True,
        keep_initializers_as_inputs: bool = False,
    ) -> None:
        """Write the model; its weights lie in `NAME.data` if asked for, or if it is too large."""
        if not include_initializers or keep_initializers_as_inputs:
            raise NotImplementedError("onnx: a model is saved with its weights, and not as inputs.")
        write(self.model_proto, Path(destination), external_data)

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        return load(self.model_proto)(*inputs, **named)


def export(
    model: Any,
    args: Any = (),
    f: str | os.PathLike[str] | IO[bytes] | None = None,
    *,
    dynamic: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset_version: int | None = None,
    dynamic_axes: Any = None,
    dynamic_shapes: Any = None,
    dynamo: bool = True,
    external_data: bool | None = None,
    training: bool | TrainingMode = False,
    export_params: bool = True,
    do_constant_folding: bool = True,
    verify: bool = True,
    verbose: bool | None = None,
    **options: Any,
) -> OnnxProgram:
    """Write a model as ONNX, from a recording of a call.

    The result is checked by ONNX's checker and shape inference and, before anything is written,
    run and compared with the model at several sizes of each dynamic dimension: through
    onnxruntime where that is installed, else by `load`. An export that fails changes no file.

    Args:
        model: a module or a function of tensors.
        args: the arguments of the call that is recorded.
        f: the file, or what is open to be written to in bytes; None to write none.
        dynamic: dimensions that may have other sizes: `{"x": {0: "batch"}}`, `{"x": [0, 2]}`, or
            an entry to each input in order. PyTorch calls it `dynamic_axes` or `dynamic_shapes`.
        kwargs: further arguments by name.
        input_names: names of the inputs; those of the function's parameters otherwise.
        output_names: names of the outputs.
        opset_version: 18 to 28 (as far as the installed onnx goes); `Attention` is of 24 on.
        dynamo: taken as PyTorch has it; either way is the same here.
        external_data: whether weights go to a file beside the model; None: if they do not fit.
        training: whether to record the model in training mode; or PyTorch's `TrainingMode`.
        export_params: must be True: weights are part of the model.
        do_constant_folding: taken as PyTorch has it; a recording has no constants left to fold.
        verify: whether to run and compare.
        verbose: taken as PyTorch has it.
        options: what else PyTorch takes; refused where it asks for more than a model.
    """
    check_options(options)
    opset = USUAL if opset_version is None else opset_version
    if not OLDEST <= opset <= NEWEST:
        raise ValueError(f"onnx.export: opset_version {opset} is not one of {OLDEST} to {NEWEST}.")
    known = need("onnx", "onnx.export").defs.onnx_opset_version()
    if opset > known:
        raise ValueError(
            f"onnx.export: opset_version {opset} is newer than the installed onnx, which has "
            f"{known}."
        )
    if not export_params:
        raise NotImplementedError(
            "onnx.export: export_params=False is not supported; weights are part of the model."
        )
    said = [d for d in (dynamic, dynamic_axes, dynamic_shapes) if d]
    if len(said) > 1:
        raise ValueError("onnx.export: give one of dynamic, dynamic_axes and dynamic_shapes.")
    mode = in_training(training, model)
    model, args = called(model, args)
    given = arguments(model, args, kwargs, input_names)
    dims = dynamic_dims(said[0] if said else None, given)
    with evaluating(model, mode):
        message = holding(model, given, dims, opset, output_names, verify)
    program = OnnxProgram(message)
    if f is not None and not isinstance(f, (str, os.PathLike)):
        f.write(message.SerializeToString())
    elif f is not None:
        program.save(f, external_data=external_data)
    return program


def holding(
    model: Any,
    given: ExampleArguments,
    dims: Dims,
    opset: int,
    output_names: Sequence[str] | None,
    verify: bool,
) -> Any:
    """The model's message, which holds at every size that is tried.

    Where one recorded at the example's sizes does not, sizes that nothing divides are: what a
    model does when a size is a multiple of something is often less than it does at others.
    """
    _called_once(model, given)
    refusal = None
    for hints in (NEARBY, (prime,)) if dims else (NEARBY,):
        try:
            with UnderWay():
                recording, own = recorded(model, given, dims, hints)
                check_counts(model, given, own, recording, hints[0])
            message, draws = translated(recording, opset, output_names)
            _check(message)
            if verify and not draws:
                compare(model, given, own, recording, message)
            return message
        except OnnxError as error:
            refusal = refusal or error
        except (RuntimeError, ValueError, IndexError, TypeError):
            if refusal is None:
                raise
    assert refusal is not None
    raise refusal


def _called_once(model: Any, given: ExampleArguments) -> None:
    """Call the model: what it keeps for later calls, as tables of positions, is then there.

    A recording that made it would leave tensors without elements in the model.
    """
    args, kwargs = given.rebuilt(given.examples)
    with ad.no_grad(), ad.random.fork_rng():
        model(*args, **kwargs)


def _further(step: int) -> Hint:
    return lambda size, before: (size if size > 1 else 3) + step * (before + 1)


def prime(size: int, before: int) -> int:
    """A prime number above a size, another one for each that came before."""
    above = (n for n in count(size + 20) if all(n % k for k in range(2, isqrt(n) + 1)))
    return next(islice(above, before, None))


COUNTS = (13, 2, 1, 0)  # of elements that a mask picks, besides the usual one
NEARBY = (_further(0), _further(3), _further(7))


def recorded(
    model: Any,
    given: ExampleArguments,
    dims: Dims,
    hints: Sequence[Hint],
) -> tuple[CallForOnnx, Dims]:
    """A recording in which no dynamic dimension is bound to one size, and those dimensions."""
    call = record(model, given, dims, hints[0])
    for hint in (*hints[1:], hints[0]):
        fixed = call.scope.pinned() & call.symbols.keys()
        if not fixed:
            return call, dims
        try:
            call = record(model, given, dims, hint)
        except (RuntimeError, ValueError, IndexError, TypeError):
            break  # sizes that the model itself refuses
    optional = {call.labels[s] for s in fixed if call.labels[s].endswith(AUTO)}
    if optional:
        return recorded(model, given, without(dims, optional), hints)
    names = [
        f"{call.labels[s]!r} (dimension {call.symbols[s][1]} of {call.symbols[s][0]!r})"
        for s in sorted(fixed)
    ]
    raise OnnxError(
        f"onnx.export: the model holds for one size of {', '.join(names)}. Export it without, "
        "as a fixed size."
    )


def check_counts(
    model: Any, given: ExampleArguments, dims: Dims, call: CallForOnnx, hint: Hint
) -> None:
    """Refuse a model that does something else at other counts of what values decide.

    A model of ONNX has what was recorded at one count: so it is recorded at others, none and one
    among them. A count that the model itself refuses is left out.
    """
    if not call.counts:
        return
    fixed = call.scope.pinned().intersection(call.counts)
    place = None
    for picked in COUNTS:
        try:
            again = record(model, given, dims, hint, picked)
            place = difference(call, again, picked if picked < 2 else None)
        except (RuntimeError, ValueError, IndexError, TypeError) as error:
            place = str(error) if picked > 1 else None
        if place is not None:
            break
    if fixed or place is not None:
        raise OnnxError(
            "onnx.export: what the model does depends on how many elements a mask or `nonzero` "
            f"picks{'' if place is None else f' (with {picked} of them: {place})'}. Let it do the "
            "same for any number, or keep all elements: where(mask, x, 0)."
        )


def translated(
    recording: CallForOnnx, opset: int, output_names: Sequence[str] | None
) -> tuple[Any, bool]:
    """The model's message, and whether it draws at random."""
    onnx = need("onnx", "onnx.export")
    shared = Shared(opset, recording.symbols)
    shared.producers = {v: node for node in recording.nodes.nodes for v in node.outputs}
    shared.deciding = deciding_nodes(recording)
    shared.complex_outputs = complex_outputs
    _refuse_complex_ends(recording)
    w = NodeWriter(shared)
    taken = {name for name, _ in recording.inputs}
    for name, value in recording.inputs:
        w.names[value] = name
    weights = shared.weights
    for name, value, array in recording.state:
        while name in taken:
            name += "_"
        taken.add(name)
        w.names[value] = name
        weights[name] = np.array(
            real_parts(array.astype(ARRAYS[value.spec.dtype], copy=False)), order="C", copy=None
        )
    w.write(recording.nodes, recording.results)
    if shared.failures:
        raise OnnxError(_report(shared))
    outputs = []
    for k, value in enumerate(recording.results):
        name = (
            output_names[k]
            if output_names and k < len(output_names)
            else f"output_{k}"
            if len(recording.results) > 1
            else "output"
        )
        while name in taken:
            name += "_"
        taken.add(name)
        w.nodes.append(onnx.helper.make_node("Identity", [w.names[value]], [name]))
        outputs.append(_info(onnx, name, value, recording))
    inputs = [_info(onnx, name, value, recording) for name, value in recording.inputs]
    w.nodes = _live(w.nodes, [info.name for info in outputs])
    used = _used(w.nodes)
    tensors = [
        onnx.numpy_helper.from_array(array, name) for name, array in weights.items() if name in used
    ]
    tensors += [
        _in_halves(onnx, name, weights[source])
        for name, source in shared.halves.items()
        if name in used
    ]
    constants = [node for node in shared.stated if node.output[0] in used]
    graph = onnx.helper.make_graph([*constants, *w.nodes], "model", inputs, outputs, tensors)
    message = onnx.helper.make_model(
        graph,
        opset_imports=[onnx.helper.make_opsetid("", opset)],
        producer_name="adjoint",
        ir_version=onnx.helper.find_min_ir_version_for([onnx.helper.make_opsetid("", opset)]),
    )
    return message, shared.draws


def _refuse_complex_ends(recording: CallForOnnx) -> None:
    """Complex numbers may be between inputs and outputs, as pairs, but not at the ends."""
    ends = [*recording.inputs, *(("an output", value) for value in recording.results)]
    names = [repr(name) for name, value in ends if value.spec.dtype.is_complex]
    if names:
        raise OnnxError(
            f"onnx.export: {', '.join(names)} would be complex, which has no form in ONNX that "
            "runtimes take. Give and return pairs: view_as_real(x), view_as_complex(x)."
        )


def _in_halves(onnx: Any, name: str, array: Any) -> Any:
    """A tensor of 4 bits from the bytes that hold two of its elements each, the lower first."""
    shape = (*array.shape[:-1], 2 * array.shape[-1])
    kind = onnx.TensorProto.UINT4
    return onnx.helper.make_tensor(name, kind, shape, array.tobytes(), raw=True)


def _report(shared: Shared) -> str:
    """Every operation without a form at once, each with its line."""
    lines: dict[str, None] = {}
    for node, why in shared.failures:
        where = "" if node.where is None else f" at {node.where[0]}:{node.where[1]}"
        lines[f"  {node.record.name}{where}: {why}"] = None
    return "onnx.export: these operations have no form in ONNX:\n" + "\n".join(lines)


def _info(onnx: Any, name: str, value: Any, recording: CallForOnnx) -> Any:
    """What an input or output looks like; a dynamic size under its name."""
    sizes: list[Any] = []
    for n in value.spec.shape:
        symbol = None
        if isinstance(n, Extent):
            terms = list(n.poly.items())
            plain = len(terms) == 1 and terms[0][1] == 1 and len(terms[0][0]) == 1
            label = recording.labels.get(terms[0][0][0]) if plain else None
            symbol = label and label.removesuffix(AUTO)
        sizes.append(symbol if isinstance(n, Extent) else int(n))
    return onnx.helper.make_tensor_value_info(name, NUMBERS[ARRAYS[value.spec.dtype]], sizes)


def _live(nodes: Sequence[Any], outputs: Sequence[str]) -> list[Any]:
    """The nodes that outputs need; a layer that took its product's operands leaves that unread."""
    wanted, live = set(outputs), []
    for node in reversed(nodes):
        if wanted.intersection(node.output):
            live.append(node)
            wanted |= _used([node])
    return live[::-1]


def _used(nodes: Sequence[Any]) -> set[str]:
    """The names that nodes read, those in graphs inside them too."""
    names: set[str] = set()
    for node in nodes:
        names.update(node.input)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                names |= _used(attribute.g.node)
    return names


def _check(message: Any) -> None:
    """ONNX's own checks, with shape inference, where the message is not too large for them."""
    onnx = need("onnx", "onnx.export")
    if message.ByteSize() > LARGEST_INSIDE:
        return
    try:
        onnx.checker.check_model(message, full_check=True)
    except Exception as error:
        raise OnnxError(
            f"onnx.export: what was made is not a valid model, which is a fault of Adjoint: {error}"
        ) from error


def write(message: Any, path: Path, external: bool | None) -> None:
    """Write a model, its data first, so that a model never names data that is not there."""
    onnx = need("onnx", "onnx.export")
    large = message.ByteSize() > LARGEST_INSIDE
    if external is False and large:
        raise OnnxError(
            f"onnx.export: {message.ByteSize()} bytes do not fit in one file of ONNX; give "
            "external_data=True."
        )
    if not (external or large):
        with atomic_write(path, "onnx.export") as file:
            file.write(message.SerializeToString())
        return
    data = path.with_name(path.name + ".data")
    lean = onnx.ModelProto()
    lean.CopyFrom(message)
    with atomic_write(data, "onnx.export") as file:
        offset = 0
        for tensor in lean.graph.initializer:
            if len(tensor.raw_data) <= SMALL:
                continue
            start = -(-offset // 4096) * 4096  # pages: what maps the file can share it
            file.write(bytes(start - offset))
            file.write(tensor.raw_data)
            for key, value in (
                ("location", data.name),
                ("offset", start),
                ("length", len(tensor.raw_data)),
            ):
                tensor.external_data.add(key=key, value=str(value))
            offset = start + len(tensor.raw_data)
            tensor.data_location = onnx.TensorProto.EXTERNAL
            tensor.ClearField("raw_data")
    with atomic_write(path, "onnx.export") as file:
        file.write(lean.SerializeToString())
