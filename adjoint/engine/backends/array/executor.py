"""Eager execution: from a record and tensors to kernels on arrays, and back to tensors.

`run` is the path every eager CPU operation takes, so it does its work inline: collect arrays and
the dtype pattern, look up the plan for that pattern, call the kernel, wrap, record on the tape.
"""

from __future__ import annotations

from itertools import zip_longest
from math import prod
from typing import Any

import numpy as np
from numpy import ndarray

from adjoint.engine.backends.array.casting import (
    LARGE,
    arrays_as_specs,
    cast_operand,
    make_plan,
)
from adjoint.engine.backends.array.devices import active, cupy, full_device, library
from adjoint.engine.backends.array.gpu import faults
from adjoint.engine.backends.array.gpu.transfers import transfer
from adjoint.engine.backends.array.kernels.elementwise.layouts import as_first
from adjoint.engine.backends.array.libraries.prepared import prepared_call
from adjoint.engine.backends.array.quiet import QUIET, restore, silence
from adjoint.engine.backends.array.table import kernel_for
from adjoint.engine.core.device import CPU, Device
from adjoint.engine.core.errors import OutOfMemoryError, raised_outside
from adjoint.engine.core.operations.dispatch import PLAIN, bind_composite, with_plain_numbers
from adjoint.engine.core.operations.families import device_of
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS, HALF_DTYPES, HALVES
from adjoint.engine.core.operations.record import HOOKS, Record, is_tensor
from adjoint.engine.core.operations.small_calls import KERNEL, is_sighted
from adjoint.engine.core.promotion import check_whole_numbers
from adjoint.engine.core.spec import UnknownShapeError
from adjoint.engine.core.state import switches
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.host import HostScalar
from adjoint.engine.core.state.timeline import LISTENERS
from adjoint.engine.core.value import TensorBase
from adjoint.engine.tensor import holders
from adjoint.engine.tensor.holders import holders_text, largest_storages
from adjoint.engine.tensor.meta import asked_for_meta, infer_only
from adjoint.engine.tensor.storage import Window
from adjoint.engine.tensor.tensor import Tensor, mark_view, window, wrap
from adjoint.engine.tensor.writing.mutation import leak_message

Array = Any


def call(
    record: Record, kernel: Any, arrays: list[Any], key: tuple[Any, ...], params: dict[str, Any]
) -> Any:
    """Promote, run the kernel, and give the result the dtype `infer` states."""
    token = silence[QUIET]  # conversions overflow quietly too
    try:
        if record.promotion is None:
            return kernel(*arrays, **params)
        plan = record.plans.get(key)
        if plan is None:
            plan = record.plans[key] = make_plan(record, arrays, params)
        for i in plan.whole:
            if not -LARGE <= arrays[i] < LARGE:
                promoted = arrays[record.promotes_from :]
                check_whole_numbers(record.promotion, arrays_as_specs(promoted))
        given = arrays  # which say how a result lies
        if plan.casts is not None:
            arrays = [cast_operand(a, c) for a, c in zip(arrays, plan.casts, strict=True)]
        out = kernel(*arrays, **params)
        if out.dtype != plan.result:
            out = out.astype(plan.result)
        if plan.keeps_layout:
            # NumPy puts such dimensions where it likes, and CuPy gives rows.
            if 1 in out.shape or out.__class__ in DEVICE_LAYOUTS:
                out = as_first(out, given)
            else:  # it lays out row by row where operands differ or repeat
                for a in given:
                    if (
                        a.__class__ is ndarray
                        and not a.flags.c_contiguous
                        and (plan.several or 0 in a.strides)
                    ):
                        out = as_first(out, given)
                        break
        return out
    finally:
        restore(token)


def run(record: Record, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Execute and record on the tape, in a plain context."""
    if record.window is not None:
        return run_view(record, operands[0], params)
    if record.small and not LISTENERS and (record.one_node or may_be_whole(record, True, operands)):
        try:
            if HOOKS.meet_noted is None:
                outputs = HOOKS.meet(record.small, operands, params, None)
            else:
                plans = record.tape if CONTEXT.grad_enabled else None
                outputs = HOOKS.meet_noted(record.small, operands, params, plans)
                if outputs.__class__ is Tensor:
                    return outputs
        except MemoryError as error:
            raise explain(record, operands, params, error) from error
        if outputs is not None:
            out = wrap(outputs[0]) if len(outputs) == 1 else tuple([wrap(a) for a in outputs])
            return attached(record, operands, params, out)
    arrays: list[Any] = []
    key: list[Any] = []  # `pattern`, inline
    tracked = numbered = False
    whole = 0  # elements of the largest operand that is large
    large = record.large
    for x in operands:
        if isinstance(x, TensorBase):
            array = x._array
            if array.__class__ is not ndarray:
                if array.__class__ in DEVICE_LAYOUTS:
                    if record.on_device:
                        return run_on_device(record, operands, params)
                    if record.by_library:
                        return run_by_library(record, operands, params)
                    return run_by_table(record, operands, params)
                return run_general(record, operands, params)
            arrays.append(array)
            least = HALVES if array.size < large and array.dtype in HALF_DTYPES else large
            if array.size >= least and array.size > whole:
                whole = array.size
            key.append(array.dtype if array.ndim else (array.dtype,))
            if x._requires_grad or x._base is not None:
                tracked = True
        else:
            if type(x) is HostScalar:  # its class is its number's
                x = x.get()
            if x.__class__ not in PLAIN:
                numbers = with_plain_numbers(operands)
                if numbers is not operands:
                    return run(record, numbers, params)
            arrays.append(x)
            key.append(x.__class__)
            numbered = True
    if large and record.creates:
        device, shape = params["device"], params["shape"]
        if device.__class__ is Device and device.type == "cuda":
            return run_on_device(record, operands, params)
        if device is CPU:
            whole = prod(shape) >= large or (record.draws and drawn_often(shape))
    elif large and record.draws and not whole and arrays[0].size:
        whole = drawn_often(arrays[0].shape)  # words are the first operand
    if record.creates and not record.draws:
        device = params["device"]
        if device.__class__ is Device and device.type == "cuda":
            return create_on_device(record, operands, params)
    if large and not (whole or numbered) and len(arrays) > 1 and record.family == "elementwise":
        whole = is_spread(arrays, large)
    if record.much is not None and large and not whole and arrays:
        shapes = [a.shape for a in arrays if a.__class__ is ndarray]
        whole = record.much(shapes, params)
    if whole and large and may_be_whole(record, tracked, operands):
        try:
            out = HOOKS.fragments.forward(record, operands, params)
        except MemoryError as error:
            raise explain(record, operands, params, error) from error
        if out is not None:
            if tracked and CONTEXT.grad_enabled:
                HOOKS.attach(record, operands, params, out)
            return out
    if (
        record.in_steps
        or (tracked and is_sighted(record, arrays))
        or (record.compose is not None and arrays and is_composed(record, tracked, operands))
    ):
        out = HOOKS.straight.forward(record, operands, params)
        if out is not None:
            if tracked and CONTEXT.grad_enabled:
                HOOKS.attach(record, operands, params, out)
            return out
    kernel = record.plans.get(KERNEL) or find_kernel(record)
    if kernel is None or ("device" in params and params["device"] is not CPU):
        return run_general(record, operands, params)
    try:
        if not record.native_check:
            check(record, operands, params)
        result = call(record, kernel, arrays, tuple(key), params)
    except Exception as error:
        if raised_outside(error):
            raise
        raise explain(record, operands, params, error) from error
    out = wrap(result) if result.__class__ is ndarray else wrap_results(result, np)
    if tracked and CONTEXT.grad_enabled:
        HOOKS.attach(record, operands, params, out)
    return out


def attached(record: Record, operands: Any, params: dict[str, Any], out: Any) -> Any:
    """A result, on the tape if some operand may be followed."""
    tensors = [x for x in operands if isinstance(x, TensorBase)]
    if CONTEXT.grad_enabled and any(x._requires_grad or x._base is not None for x in tensors):
        HOOKS.attach(record, operands, params, out)
    return out


def is_spread(arrays: list[Any], large: int) -> bool:
    """Whether operands that are small themselves have a large result together."""
    if len(arrays) == 2 and arrays[0].shape == arrays[1].shape:
        return False
    most_of_all = 1
    for a in arrays:
        if a.__class__ is ndarray:
            most_of_all *= a.size
    if most_of_all < large:
        return False
    shapes = [a.shape for a in arrays if a.__class__ is ndarray and a.size > 1]
    if len(shapes) < 2:
        return False
    total = 1  # `numpy.broadcast_shapes` takes longer than a program does
    for sizes in zip_longest(*[shape[::-1] for shape in shapes], fillvalue=1):
        size = max(sizes)
        for n in sizes:
            if n != size and n != 1:
                return False  # the kernel says what is wrong
        total *= size
    return total >= large and total > max(map(prod, shapes))


# Drawing few numbers takes NumPy as long as drawing a hundred. After so many calls of one shape
# that was as long as it takes to load a compiler, whose fragments draw the same bits.
DRAWN = 512
IF_LOADED = 16  # after so many where one is loaded
_drawn: dict[tuple[int, ...], int] = {}


def drawn_often(shape: tuple[int, ...]) -> bool:
    """Whether so few numbers were drawn so often that a fragment is worth it."""
    count = _drawn.get(shape, 0)
    if count < DRAWN:
        if len(_drawn) > DRAWN:
            _drawn.clear()
        _drawn[shape] = count + 1
    return count >= DRAWN or (HOOKS.native_loaded and count >= IF_LOADED)


def run_on_device(record: Record, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """`run` where the first tensor is on a GPU: as a fragment, if all are there."""
    if record.met and not LISTENERS and (record.one_node or may_be_whole(record, True, operands)):
        rest, taped = switches.computed_with, record if CONTEXT.grad_enabled else None
        try:
            out = HOOKS.meet_on_device(record.name, record.met, operands, params, rest, taped)
        except MemoryError:  # Python's way tries again, and says what is wrong
            out = None
        if out is not None:
            return out
    if record.by_table is not None and record.by_table(operands, params):
        return run_by_table(record, operands, params)
    if faults.BLOCKING:
        faults.note(record.name)
    else:  # to find the line would take as long as the rest
        faults.LATEST.append((record.name, None, 0))
    try:
        out = HOOKS.fragments.forward_on_device(record, operands, params)
        if faults.BLOCKING:
            faults.guarded(cupy().cuda.get_current_stream().synchronize, waited_for=True)
    except MemoryError as error:
        raise explain(record, operands, params, error) from error
    if out is None:
        return run_by_table(record, operands, params)
    if CONTEXT.grad_enabled:
        HOOKS.attach(record, operands, params, out)
    return out


def run_by_table(record: Record, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """`run` of what the eager table does on a GPU: at once, where nobody looks on.

    So where all operands are tensors of the current GPU, or numbers.
    """
    kernel = record.plans.get(DEVICE_KERNEL) or find_device_kernel(record)
    if faults.BLOCKING or LISTENERS or kernel is None or "device" in params:
        return run_general(record, operands, params)
    arrays: list[Any] = []
    key: list[Any] = []  # `pattern`, inline
    current = cupy().cuda.runtime.getDevice()
    followed = False
    for x in operands:
        if isinstance(x, TensorBase):
            a = x._array
            here = a.__class__ in DEVICE_LAYOUTS and a.data.device_id == current
            if not here or a.dtype.names is not None:
                return run_general(record, operands, params)
            followed = followed or (CONTEXT.grad_enabled and x.requires_grad)  # type: ignore[attr-defined]
            key.append(a.dtype if a.ndim else (a.dtype,))
        elif x.__class__ in NUMBERS:
            a = x
            key.append(x.__class__)
        else:
            return run_general(record, operands, params)
        arrays.append(a)
    if followed and not record.differentiable:
        return run_general(record, operands, params)
    faults.LATEST.append((record.name, None, 0))
    try:
        if not record.native_check and record.compose is None:
            check(record, operands, params)
        result = call(record, kernel, arrays, tuple(key), params)
    except Exception as error:
        if raised_outside(error):
            raise
        return run_general(record, operands, params)  # which says what is wrong
    out = wrap_results(result, cupy())
    if followed:
        HOOKS.attach(record, operands, params, out)
    return out


def create_on_device(record: Record, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """`run` of what makes a tensor on the GPU that is the current one, of nothing."""
    if faults.BLOCKING or LISTENERS:
        return run_general(record, operands, params)
    if params["device"].index != cupy().cuda.runtime.getDevice():
        return run_general(record, operands, params)
    if operands and type(operands[0]) in (int, float) and operands[0] == 1:  # as for gradients
        return run_on_device(record, operands, params)
    kernel = record.plans.get(DEVICE_KERNEL) or find_device_kernel(record)
    faults.LATEST.append((record.name, None, 0))
    try:
        if not record.native_check:
            check(record, operands, params)
        result = call(record, kernel, [raw(x) for x in operands], (), params)
    except Exception as error:
        if raised_outside(error):
            raise
        return run_general(record, operands, params)  # which says what is wrong
    return wrap(result)


def run_by_library(record: Record, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """`run` of what libraries do on a GPU: convolutions at once, if such were met before."""
    if record.compose is not None:
        return run_whole(record, operands, params)
    x, y = operands[0], operands[-1]
    two = len(operands) == 2 and is_tensor(y) and y._array.__class__ in DEVICE_LAYOUTS
    if not two or record.draws:
        return run_by_table(record, operands, params)
    if faults.BLOCKING:
        return run_general(record, operands, params)
    faults.LATEST.append((record.name, None, 0))
    try:
        result = prepared_call(record, x._array, y._array, params)
    except MemoryError as error:
        raise explain(record, operands, params, error) from error
    if result is None:
        return run_general(record, operands, params)
    out = wrap(result)
    if CONTEXT.grad_enabled:
        HOOKS.attach(record, operands, params, out)
    return out


def run_whole(record: Record, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """`run` of tensors whose composition a library does at once, if all are on the current GPU."""
    arrays = [x._array for x in operands]
    one, index = arrays[0].__class__, cupy().cuda.runtime.getDevice()
    here = all(a.__class__ is one and a.data.device_id == index for a in arrays)
    taped = CONTEXT.grad_enabled and any(x.requires_grad for x in operands)
    kernel = record.plans.get(DEVICE_KERNEL) or find_device_kernel(record)
    composed = kernel is None or not here or (taped and not record.differentiable)
    if composed or faults.BLOCKING or LISTENERS:
        return run_general(record, operands, params)
    faults.LATEST.append((record.name, None, 0))
    try:
        found = kernel(*arrays, **params)
        outs = wrap(found) if found.__class__ is one else tuple([wrap(a) for a in found])
    except Exception as error:
        if faults.is_fault(error):
            raise faults.reported(error) from error
        raise explain(record, operands, params, error) from error
    if taped:
        HOOKS.attach(record, operands, params, outs)
    return outs


def may_be_whole(record: Record, tracked: bool, operands: tuple[Any, ...]) -> bool:
    """Whether an operation is one node of the tape, not differentiated part by part."""
    if record.one_node or not (tracked and CONTEXT.grad_enabled):
        return True
    return not any(x.requires_grad for x in operands if is_tensor(x))


def is_composed(record: Record, tracked: bool, operands: tuple[Any, ...]) -> bool:
    """Whether a composite runs by its composition, and is one node of the tape."""
    composed = record.plans.get(COMPOSED)
    if composed is None:
        composed = record.plans[COMPOSED] = kernel_for(record) is None
    return composed and may_be_whole(record, tracked, operands)


COMPOSED = "composed"  # where they keep whether a composite has no kernel of its own
DEVICE_KERNEL = "device"  # where a record's plans keep a GPU's kernel
NUMBERS = frozenset({int, float, bool, complex})  # of Python's own, which any device takes


def find_kernel(record: Record) -> Any:
    """The CPU kernel `run` may call; None where the record's composition may be needed instead.

    A composite qualifies if all its derivatives are stated and its function checks its arguments.
    """
    stated = record.joint is not None or (record.vjp and None not in record.vjp)
    composed = record.compose is not None and not (record.native_check and stated)
    kernel = None if composed else kernel_for(record)
    if kernel is not None:
        record.plans[KERNEL] = kernel
    return kernel


def find_device_kernel(record: Record) -> Any:
    """The kernel for arrays of CuPy's."""
    kernel = record.plans[DEVICE_KERNEL] = kernel_for(record, cupy())
    return kernel


def run_view(record: Record, source: Any, params: dict[str, Any]) -> Any:
    """`run` for views: the result is a window on the operand's storage."""
    array = seen_through(record, source, params)
    if array is None:
        return run_general(record, (source,), params)
    return view_of(source, array, record, params)


def seen_through(record: Record, source: Any, params: dict[str, Any]) -> Any:
    """The array that a view of a tensor shows; None where it is of another kind of device."""
    array = source._array
    if array.__class__ is ndarray:
        kernel = record.plans.get(KERNEL) or find_kernel(record)
    elif array.__class__ in DEVICE_LAYOUTS:
        # A view needs no device to be the current one.
        kernel = record.plans.get(DEVICE_KERNEL) or find_device_kernel(record)
    else:
        return None
    if kernel is None:
        return None
    try:
        if not record.native_check:
            check(record, (source,), params)
        return kernel(array, **params)
    except Exception as error:
        if raised_outside(error):
            raise
        raise explain(record, (source,), params, error) from error


def view_of(source: Any, array: Any, record: Record, params: dict[str, Any]) -> Any:
    """A view of a tensor, on the tape if that is followed, in a plain context."""
    show = HOOKS.show if array.__class__ is ndarray else HOOKS.show_there
    if show is not None:
        plans = record.tape if CONTEXT.grad_enabled else None
        if (out := show(source, array, record, params, plans)) is not None:
            return out
    out = window(source, array, record, params)
    mark_view(out, source)
    if (source._requires_grad or source._base is not None) and CONTEXT.grad_enabled:
        HOOKS.attach(record, (source,), params, out)
    return out


def wrap_results(result: Any, xp: Any) -> Any:
    """Kernel results as tensors: scalars become 0-d arrays, tuples go element by element."""
    if result.__class__ is xp.ndarray:
        return wrap(result)
    if isinstance(result, tuple):
        return tuple([wrap(xp.asarray(r)) for r in result])
    return wrap(xp.asarray(result))


def check(record: Record, operands: tuple[Any, ...], params: dict[str, Any]) -> None:
    """Let `infer` refuse bad operands."""
    record.infer(*[x._spec if is_tensor(x) else x for x in operands], **params)


def explain(record: Record, operands: Any, params: dict[str, Any], error: Exception) -> Exception:
    """The error `infer` states for these operands, else the kernel's own, named."""
    if record.opaque:
        return error
    if isinstance(error, MemoryError):
        shown = ", ".join(str(x._spec) if is_tensor(x) else repr(x)[:40] for x in operands)
        if isinstance(error, OutOfMemoryError):  # a GPU's, which tells who holds its memory
            return OutOfMemoryError(f"{record.name}({shown}): {error}")
        largest = holders_text(largest_storages(), 8)
        limit = "" if holders.LIMIT_TOLD is None else holders.LIMIT_TOLD()
        return OutOfMemoryError(
            f"{record.name}({shown}): {error}. {limit}{largest}\nTake a smaller batch, let go of "
            "what is not needed, or compile with options={'remat': 'memory'}."
        )
    if record.compose is None:
        try:
            check(record, operands, params)
        except UnknownShapeError:  # says nothing about these operands
            pass
        except (RuntimeError, IndexError, TypeError, ValueError) as better:
            return better
    meant = params.get("error") == type(error).__name__  # as `require` says; others are NumPy's
    if meant or not isinstance(error, ValueError):
        return error
    shown = ", ".join(str(x._spec) if is_tensor(x) else repr(x) for x in operands)
    return RuntimeError(f"{record.name}: {error} (received {shown})")


def run_general(record: Record, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """`run` for what the fast path leaves: other devices, no operands, composites, sparse ones."""
    if HOOKS.sparse is not None and HOOKS.sparse.among(operands):
        return HOOKS.sparse.process(record, operands, params)
    if HOOKS.wrappers is not None and HOOKS.wrappers.among(operands):
        return HOOKS.wrappers.process(record, operands, params)
    if record.compose is not None:
        tracked = CONTEXT.grad_enabled and any(x.requires_grad for x in operands if is_tensor(x))
        if tracked and not record.differentiable:
            return record.compose(*operands, **params)
        return bind_composite(record, operands, params)
    outs = execute(record, operands, params)
    if CONTEXT.grad_enabled and any(x.requires_grad for x in operands if is_tensor(x)):
        HOOKS.attach(record, operands, params, outs)
    return outs


def execute(record: Record, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Execute without the tape, on whatever device the operands are."""
    tensors = [x for x in operands if is_tensor(x)]
    if asked_for_meta(tensors, params):
        return infer_only(record, operands, params)
    if any(type(x._array) is Window for x in tensors):
        raise RuntimeError(leak_message())
    device = place(record, tensors, params)
    xp = library(device)
    kernel = kernel_for(record, xp)
    fallback = record.compose or record.decompose
    if kernel is None and fallback is None:  # perhaps in a module that waits for first use
        HOOKS.load_rest()
        kernel = kernel_for(record, xp)
    if kernel is None:
        if fallback is None:
            raise NotImplementedError(f"{record.name}: not implemented for {device.type}")
        return fallback(*operands, **params)
    try:
        if not record.native_check and record.compose is None:
            check(record, operands, params)
        arrays = [raw(x) for x in operands]
        if device is not CPU:  # 0-d CPU tensors may take part on any device
            arrays = [transfer(a, device) if isinstance(a, ndarray) else a for a in arrays]
        if device.type == "cuda":
            faults.note(record.name)
        with active(device):
            result = call(record, kernel, arrays, pattern(arrays), params)
            if faults.BLOCKING and device.type == "cuda":
                xp.cuda.runtime.deviceSynchronize()
    except Exception as error:
        if faults.is_fault(error):
            raise faults.reported(error, waited_for=faults.BLOCKING) from error
        raise explain(record, operands, params, error) from error
    if record.window is not None:
        out = window(operands[0], result, record, params)
        mark_view(out, operands[0])
        return out
    return wrap_results(result, xp if "device" not in params else library(params["device"]))


def raw(x: Any) -> Any:
    """An operand as kernels take it."""
    if is_tensor(x):
        return x._array
    return x.get() if isinstance(x, HostScalar) else x


def pattern(arrays: list[Any]) -> tuple[Any, ...]:
    """The key a plan is cached under: dtypes, with 0-d arrays and scalars told apart."""
    return tuple(
        [
            (a.dtype if a.shape else (a.dtype,)) if hasattr(a, "dtype") else a.__class__
            for a in arrays
        ]
    )


def place(record: Record, tensors: list[Any], params: dict[str, Any]) -> Device:
    """The device an operation runs on: its operands', or the one it is asked to fill."""
    if not tensors:
        return full_device(params.get("device"))
    return device_of(record.name, [x._spec for x in tensors])


HOOKS.run = run
HOOKS.execute = execute
