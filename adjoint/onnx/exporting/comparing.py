"""An exported model run beside its source, at several sizes of each dynamic dimension."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.engine.core.availability.libraries import find, need
from adjoint.engine.core.tree import flatten
from adjoint.engine.graph.sizes.extents import SizeScope, evaluate
from adjoint.engine.tensor.tensor import Tensor
from adjoint.onnx.exporting.recording import CallForOnnx, Dims, ExampleArguments
from adjoint.onnx.loading import load
from adjoint.onnx.types import OnnxError, array_of, value_of

# Of a result's largest element: what sums in another order may differ by.
TOLERANCE = {"float16": 1e-2, "bfloat16": 5e-2, "float32": 1e-4, "float64": 1e-6}
# The same where numbers are rounded to 8 bits on the way: a sum between two steps may go to either.
ROUNDED = 2e-2
ROUNDING = frozenset({"quantize_affine", "fake_quantize"})
# Sizes up to so many above the example's are looked at for decisions that come out otherwise.
SCANNED = 64
BFLOAT16 = 16  # ONNX's number for it
LARGEST = 1 << 22  # elements of an input that such sizes may come to
Run = Callable[[dict[str, Any]], list[Any]]


def runner(message: Any) -> tuple[str, Run]:
    """What runs an exported model: onnxruntime, or our own reading of it."""
    runtime = find("onnxruntime")
    ends = (*message.graph.input, *message.graph.output)
    # onnxruntime has no arrays of bfloat16 to take or to give.
    wide = any(end.type.tensor_type.elem_type == BFLOAT16 for end in ends)
    if runtime is None or wide or message.ByteSize() >= 1 << 31:
        module = load(message)
        return "adjoint.onnx.load", lambda feeds: [array_of(v) for v in module.evaluate(feeds)]
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = runtime.InferenceSession(
            message.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:
        lacks = "NOT_IMPLEMENTED" in str(error) or "NotImplemented" in type(error).__name__
        if not lacks and _knows(runtime, message):
            raise OnnxError(f"onnx.export: onnxruntime refuses the model: {error}") from error
        module = load(message)
        return "adjoint.onnx.load", lambda feeds: [array_of(v) for v in module.evaluate(feeds)]
    names = {i.name for i in session.get_inputs()}
    return "onnxruntime", lambda feeds: session.run(
        None, {n: array_of(v) for n, v in feeds.items() if n in names}
    )


def _knows(runtime: Any, message: Any) -> bool:
    """Whether a runtime takes models of this one's opset at all, such as one that does nothing."""
    onnx = need("onnx", "onnx.export")
    ends = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in ("x", "y")
    ]
    node = onnx.helper.make_node("Identity", ["x"], ["y"])
    graph = onnx.helper.make_graph([node], "nothing", ends[:1], ends[1:])
    plain = onnx.helper.make_model(
        graph, opset_imports=message.opset_import, ir_version=message.ir_version
    )
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    try:
        runtime.InferenceSession(
            plain.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception:
        return False
    return True


def trials(given: ExampleArguments, dims: Dims, recording: CallForOnnx) -> list[dict[str, int]]:
    """Sizes to compare at: the example's, and others of each dynamic dimension by itself.

    Others are few, and those at which a decision about sizes comes out otherwise.
    """
    usual = {
        label: int(given.examples[position].shape[dim])
        for position, entries in dims.items()
        for dim, label in entries.items()
    }
    trials = [usual]
    for label, size in usual.items():
        trials += [
            {**usual, label: other} for other in (1, 2, size + 1, 2 * size + 1) if other != size
        ]
    if len(usual) > 1:
        trials.append({label: 2 * size + k for k, (label, size) in enumerate(usual.items())})
    # Multiples too: a model may take no others, as one that cuts an image into windows.
    multiples = [{**usual, label: k * size} for label, size in usual.items() for k in (2, 3)]
    for sizes in (*deciding(usual, recording), *multiples):
        if sizes not in trials and _elements(given, dims, sizes) <= LARGEST:
            trials.append(sizes)
    return trials


def _elements(given: ExampleArguments, dims: Dims, sizes: dict[str, int]) -> int:
    """How many elements the largest of the resized inputs has."""
    shapes = [
        [sizes[dims[k][d]] if d in dims[k] else int(n) for d, n in enumerate(x.shape)]
        for k, x in enumerate(given.examples)
        if k in dims
    ]
    return max(map(math.prod, shapes), default=0)


def deciding(usual: dict[str, int], recording: CallForOnnx) -> list[dict[str, int]]:
    """For each decision that a recording's sizes came to, sizes nearby that would not."""
    scope, choices = recording.scope, []
    roots = {abs(poly.get((), 0)) for poly, _, _ in scope.guards.values()}
    near = {size + k for root in roots for size in (root, *_halves(root)) for k in (-1, 0, 1)}
    known = _symbols(recording, usual)
    for symbol, label in recording.labels.items():
        size = usual[label]
        others = sorted({*range(1, size + SCANNED), *near}, key=lambda n: abs(n - size))
        reached = [(n, _decisions(scope, {**known, symbol: n})) for n in others if n > 0]
        now = _decisions(scope, known)
        for k, outcome in enumerate(now or ()):
            other = next((n for n, then in reached if then and then[k] is not outcome), None)
            if other is not None:
                choices.append({**usual, label: other})
    return choices


def _symbols(recording: CallForOnnx, sizes: dict[str, int]) -> dict[str, int]:
    """The symbols of a recording at some sizes; those that values decide as they were recorded."""
    own = {symbol: sizes[label] for symbol, label in recording.labels.items()}
    return own | {symbol: recording.sample[symbol] for symbol in recording.counts}


def _halves(root: int) -> list[int]:
    return [root // k for k in range(2, 9)]


def _decisions(scope: SizeScope, sizes: dict[str, int]) -> list[bool] | None:
    """How the decisions come out, None where a size is divided by that is zero."""
    try:
        known = scope.complete(sizes)
    except ZeroDivisionError:
        return None
    return [bool(compares(evaluate(poly, known), 0)) for poly, compares, _ in scope.guards.values()]


def sized(example: Tensor, entries: dict[int, str], sizes: dict[str, int]) -> Tensor:
    """An example with other sizes: its own elements again, which stay ones that make sense.

    Floats are made a little smaller each time, along each dimension by another amount: of equal
    ones either may be the largest.
    """
    array = array_of(example)
    for dim, label in entries.items():
        rounds, places = np.divmod(np.arange(sizes[label]), array.shape[dim])
        array = np.take(array, places, axis=dim)
        if example.dtype.is_floating_point and rounds.any():
            along = [-1 if d == dim else 1 for d in range(array.ndim)]
            smaller = 1 - rounds / (8 * (1 + rounds.max()) + dim)
            array = (array * smaller.reshape(along)).astype(array.dtype)
    return value_of(np.array(array, order="C"))  # ascontiguousarray makes a number a row


def _as_is(x: Tensor) -> Tensor:
    return x


def _opposite(x: Tensor) -> Tensor:
    if x.dtype is ad.bool:
        return ~x
    return -x if x.dtype.is_floating_point else x


# Other values for a model in which values decide sizes: other elements are picked, all, none.
VARIANTS: tuple[Callable[[Tensor], Tensor], ...] = (_as_is, _opposite, ad.zeros_like, ad.ones_like)


OF_BOXES = frozenset({"torchvision::nms", "torchvision::roi_align"})


def compare(
    model: Any, given: ExampleArguments, dims: Dims, recording: CallForOnnx, message: Any
) -> None:
    """Raise unless the exported model gives what its source gives."""
    name, run = runner(message)
    rounds = any(node.record.name in ROUNDING for node in recording.nodes.nodes)
    tried = trials(given, dims, recording)
    variants = VARIANTS if recording.counts else VARIANTS[:1]
    if any(node.record.name in OF_BOXES for node in recording.nodes.nodes):
        # A box with its corners exchanged is none; runtimes exchange them back.
        variants = tuple(variant for variant in variants if variant is not _opposite)
    for sizes, variant in product(tried, variants):
        tensors = [variant(sized(x, dims.get(k, {}), sizes)) for k, x in enumerate(given.examples)]
        args, kwargs = given.rebuilt(tensors)
        example = sizes == tried[0] and variant is VARIANTS[0]
        try:
            with ad.no_grad():
                wanted = [array_of(t) for t in flatten(model(*args, **kwargs))[0]]
        except (RuntimeError, ValueError, IndexError, TypeError):
            if example:
                raise
            continue  # sizes that the model itself refuses
        own = _symbols(recording, sizes)
        try:
            results = run(dict(zip(given.names, tensors, strict=True)))
        except Exception as error:
            if not example and not recording.scope.allow(own):
                continue  # outside what the recording holds for, and refused
            raise OnnxError(f"onnx.export: {name} fails at sizes {sizes}: {error}") from error
        _close(wanted, results, name, sizes, rounds)


def _close(
    wanted: list[Any], results: list[Any], name: str, sizes: dict[str, int], rounds: bool
) -> None:
    for k, (a, b) in enumerate(zip(wanted, results, strict=True)):
        where = f"onnx.export: output {k} through {name}{f' at sizes {sizes}' if sizes else ''}"
        if a.shape != b.shape or a.dtype != b.dtype:
            raise OnnxError(
                f"{where} is {b.dtype}{list(b.shape)}; the model gives {a.dtype}{list(a.shape)}."
            )
        if a.dtype.name not in TOLERANCE:
            same = np.array_equal(a, b)
            error = None
        else:
            left, right = a.astype(np.float64), b.astype(np.float64)
            near = ROUNDED if rounds else TOLERANCE[a.dtype.name]
            scale = max(np.max(np.abs(left[np.isfinite(left)]), initial=0.0), 1e-3)
            same = np.allclose(
                left,
                right,
                rtol=near,
                atol=near * scale,
                equal_nan=True,
            )
            with np.errstate(invalid="ignore"):  # of two infinities
                error = np.max(np.abs(left - right), initial=0.0)
        if not same:
            raise OnnxError(
                f"{where} differs from the "
                f"model's{'' if error is None else f' by up to {error:.3g}'}. Nothing was written."
            )
