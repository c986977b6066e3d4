"""How CuPy's arrays are laid out, for native code that finds fragments (Note [met launches]).

Where that is not known (`array_layout`), Python finds all fragments.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from adjoint.engine.backends.array.devices import cupy
from adjoint.engine.backends.array.gpu.array_layout import (
    device_offset,
    offset_of,
    samples,
    vector_offset,
)
from adjoint.engine.backends.array.gpu.faults import BLOCKING, LATEST
from adjoint.engine.backends.triton.runtime.direct import direct_gpu
from adjoint.engine.core.operations.record import HOOKS


def layout_text(module: Any) -> str | None:
    """The functions that tell how an array lies; None where it is not known."""
    arrays = samples(module)
    pointers = [array.data for array in arrays]
    shape = vector_offset(arrays, lambda a: a.shape)
    steps = vector_offset(arrays, lambda a: a.strides)
    dtype = offset_of(arrays, lambda a: id(a.dtype))
    data = offset_of(arrays, lambda a: id(a.data))
    place = offset_of(pointers, lambda p: int(p.ptr))
    device = device_offset(module, arrays[0])
    if None in (shape, steps, dtype, data, place, device):
        return None
    assert shape is not None
    return f"""
define ptr @pointer_in(ptr %object, i64 %offset) alwaysinline {{
  %at = getelementptr i8, ptr %object, i64 %offset
  %pointer = load ptr, ptr %at
  ret ptr %pointer
}}
define ptr @sizes_of(ptr %array) alwaysinline {{
  %sizes = call ptr @pointer_in(ptr %array, i64 {shape})
  ret ptr %sizes
}}
define ptr @steps_of(ptr %array) alwaysinline {{
  %steps = call ptr @pointer_in(ptr %array, i64 {steps})
  ret ptr %steps
}}
define i64 @rank_of(ptr %array) alwaysinline {{
  %begin = call ptr @pointer_in(ptr %array, i64 {shape})
  %end = call ptr @pointer_in(ptr %array, i64 {shape + 8})
  %first = ptrtoint ptr %begin to i64
  %last = ptrtoint ptr %end to i64
  %bytes = sub i64 %last, %first
  %rank = ashr i64 %bytes, 3
  ret i64 %rank
}}
define i64 @dtype_of(ptr %array) alwaysinline {{
  %dtype = call ptr @pointer_in(ptr %array, i64 {dtype})
  %word = ptrtoint ptr %dtype to i64
  ret i64 %word
}}
define i64 @place_of(ptr %array) alwaysinline {{
  %data = call ptr @pointer_in(ptr %array, i64 {data})
  %place = call ptr @pointer_in(ptr %data, i64 {place})
  %word = ptrtoint ptr %place to i64
  ret i64 %word
}}
define i64 @device_of(ptr %array) alwaysinline {{
  %data = call ptr @pointer_in(ptr %array, i64 {data})
  %at = getelementptr i8, ptr %data, i64 {device}
  %number = load i32, ptr %at
  %word = sext i32 %number to i64
  ret i64 %word
}}
"""


@cache
def ready() -> bool:
    """Have native code find fragments, where it can; whether it does."""
    if BLOCKING:  # which looks for faults after each launch
        return False
    module = cupy()
    text = layout_text(module)
    found = None if text is None else HOOKS.meeting_on(module.ndarray, text)
    if found is None:
        return False
    meet, HOOKS.meet_straight, HOOKS.note_there, HOOKS.show_there = found
    HOOKS.meet_on_device, HOOKS.meet_into = with_stream(
        meet, module.cuda.runtime.getDevice, module.cuda.get_current_stream
    )
    return True


Meets = Callable[..., Any]


def with_stream(
    meet: Meets, device: Callable[[], int], stream: Callable[[], Any]
) -> tuple[Meets, Meets]:
    """What native code does on the current device and stream, and into an array that is there."""
    at_first = device()
    workspaces = direct_gpu(at_first).workspaces

    def room_on(index: int, current: int) -> int:
        rooms = workspaces if index == at_first else direct_gpu(index).workspaces
        return rooms.get(current, 0)

    def found(
        name: str, programs: Any, operands: Any, params: Any, rest: Any, record: Any = None
    ) -> Any:
        LATEST.append((name, None, 0))
        index, current = device(), stream().ptr
        room = workspaces.get(current, 0) if index == at_first else room_on(index, current)
        return meet(programs, operands, params, rest, index, current, room, record)

    def put(name: str, programs: Any, operands: Any, params: Any, rest: Any, into: Any) -> Any:
        LATEST.append((name, None, 0))
        index, current = device(), stream().ptr
        room = room_on(index, current)
        return meet(programs, operands, params, rest, index, current, room, None, into)

    return found, put
