"""Loads and stores of variables, and what moves values on the stack."""

from __future__ import annotations

import sys
import types
from typing import Any

from adjoint.engine.capture.python.calling import call
from adjoint.engine.capture.python.frames import Frame
from adjoint.engine.capture.python.language import attributes
from adjoint.engine.capture.python.plain import MISSING

_AROUND = (enumerate, zip, map, filter)  # iterators that hold others, perhaps generators


def _references(value: Any) -> int:
    return sys.getrefcount(value)


def _counted_with_one_holder() -> int:
    """What `_references` gives of what was popped, which the recorder alone holds besides."""
    stack: list[Any] = [object()]
    holder = {id(stack[-1]): stack[-1]}
    value = stack.pop()
    return _references(value) if holder else 0


_ONE_HOLDER = _counted_with_one_holder()
NULL: Any = type("Null", (), {"__repr__": lambda self: "NULL", "__slots__": ()})()


def nothing(frame: Frame, operand: Any) -> None:
    pass


def pop_top(frame: Frame, operand: Any) -> None:
    value = frame.stack.pop()
    if type(value) in _AROUND and _references(value) == _ONE_HOLDER:
        frame.recorder.let_go(value)  # as Python does, which closes generators in it


def push_null(frame: Frame, operand: Any) -> None:
    frame.stack.append(NULL)


def copy(frame: Frame, depth: int) -> None:
    frame.stack.append(frame.stack[-depth])


def swap(frame: Frame, depth: int) -> None:
    stack = frame.stack
    stack[-1], stack[-depth] = stack[-depth], stack[-1]


def load_const(frame: Frame, value: Any) -> None:
    frame.stack.append(value)


def load_fast(frame: Frame, index: int) -> None:
    value = frame.fast[index]
    if value is MISSING:
        raise _unbound(frame, index)
    frame.stack.append(value)


def load_fast_and_clear(frame: Frame, index: int) -> None:
    frame.stack.append(frame.fast[index])
    frame.fast[index] = MISSING


def load_fast_load_fast(frame: Frame, indices: tuple[int, int]) -> None:
    load_fast(frame, indices[0])
    load_fast(frame, indices[1])


def store_fast(frame: Frame, index: int) -> None:
    frame.fast[index] = frame.stack.pop()


def store_fast_load_fast(frame: Frame, indices: tuple[int, int]) -> None:
    frame.fast[indices[0]] = frame.stack.pop()
    load_fast(frame, indices[1])


def store_fast_store_fast(frame: Frame, indices: tuple[int, int]) -> None:
    frame.fast[indices[0]] = frame.stack.pop()
    frame.fast[indices[1]] = frame.stack.pop()


def delete_fast(frame: Frame, index: int) -> None:
    if frame.fast[index] is MISSING:
        raise _unbound(frame, index)
    frame.fast[index] = MISSING


def variable_name(code: types.CodeType, index: int) -> str:
    """The name of a variable by its place in a frame."""
    local = code.co_varnames
    if index < len(local):
        return local[index]
    cells = [name for name in code.co_cellvars if name not in local]
    rest = index - len(local)
    return cells[rest] if rest < len(cells) else code.co_freevars[rest - len(cells)]


def _unbound(frame: Frame, index: int) -> UnboundLocalError:
    name = variable_name(frame.code, index)
    return UnboundLocalError(
        f"cannot access local variable '{name}' where it is not associated with a value"
    )


# -- cells ------------------------------------------------------------------------------------


def make_cell(frame: Frame, index: int) -> None:
    value = frame.fast[index]
    cell = types.CellType() if value is MISSING else types.CellType(value)
    frame.fast[index] = frame.recorder.new(cell)


def copy_free_vars(frame: Frame, count: int) -> None:
    frame.fast[-count:] = frame.function.__closure__


def load_closure(frame: Frame, index: int) -> None:
    frame.stack.append(frame.fast[index])


def load_deref(frame: Frame, index: int) -> None:
    name = variable_name(frame.code, index)
    value = frame.recorder.cell(frame.fast[index], name)
    if value is MISSING:
        raise _unbound_cell(frame, index)
    frame.stack.append(value)


def _unbound_cell(frame: Frame, index: int) -> NameError:
    name = variable_name(frame.code, index)
    if name in frame.code.co_freevars:
        return NameError(
            f"cannot access free variable '{name}' where it is not associated with a value in "
            "enclosing scope"
        )
    return _unbound(frame, index)


def store_deref(frame: Frame, index: int) -> None:
    frame.recorder.put_cell(frame.fast[index], frame.stack.pop())


def delete_deref(frame: Frame, index: int) -> None:
    cell = frame.fast[index]
    if frame.recorder.cell(cell, variable_name(frame.code, index)) is MISSING:
        raise _unbound_cell(frame, index)
    frame.recorder.put_cell(cell, MISSING)


# -- globals and names ------------------------------------------------------------------------


def global_value(frame: Frame, name: str) -> Any:
    """A global variable, or one of the builtins."""
    recorder = frame.recorder
    value = recorder.item(frame.globals, name)
    if value is MISSING:
        value = recorder.item(builtins_of(frame), name)
        if value is MISSING:
            raise NameError(f"name '{name}' is not defined", name=name)
    return value


def builtins_of(frame: Frame) -> dict[str, Any]:
    """The builtins a frame sees."""
    if frame.builtins is None:
        module = frame.globals.get("__builtins__", __builtins__)
        frame.builtins = vars(module) if isinstance(module, types.ModuleType) else module
    table: dict[str, Any] = frame.builtins
    return table


def load_global(frame: Frame, operand: tuple[str, int]) -> None:
    name, null = operand
    if null:
        frame.stack.append(NULL)
    frame.stack.append(global_value(frame, name))


def load_global_null_after(frame: Frame, operand: tuple[str, int]) -> None:
    name, null = operand
    frame.stack.append(global_value(frame, name))
    if null:
        frame.stack.append(NULL)


def store_global(frame: Frame, name: str) -> None:
    frame.recorder.put(frame.globals, name, frame.stack.pop())


def delete_global(frame: Frame, name: str) -> None:
    if frame.recorder.item(frame.globals, name) is MISSING:
        raise NameError(f"name '{name}' is not defined", name=name)
    frame.recorder.drop(frame.globals, name)


def load_name(frame: Frame, name: str) -> None:
    if frame.names is not None:
        try:
            frame.stack.append(frame.names[name])
        except KeyError:
            pass
        else:
            return
    frame.stack.append(global_value(frame, name))


def load_from_dict_or_globals(frame: Frame, name: str) -> None:
    names = frame.stack.pop()
    frame.stack.append(names[name] if name in names else global_value(frame, name))


def load_from_dict_or_deref(frame: Frame, index: int) -> None:
    names, name = frame.stack.pop(), variable_name(frame.code, index)
    if name in names:
        frame.stack.append(names[name])
    else:
        load_deref(frame, index)


def load_class_deref(frame: Frame, index: int) -> None:
    frame.stack.append(frame.names)
    load_from_dict_or_deref(frame, index)


def load_locals(frame: Frame, operand: Any) -> None:
    frame.stack.append(frame.names)


def store_name(frame: Frame, name: str) -> None:
    frame.names[name] = frame.stack.pop()


def delete_name(frame: Frame, name: str) -> None:
    try:
        del frame.names[name]
    except KeyError:
        raise NameError(f"name '{name}' is not defined", name=name) from None


def setup_annotations(frame: Frame, operand: Any) -> None:
    frame.names.setdefault("__annotations__", frame.recorder.new({}))


# -- attributes -------------------------------------------------------------------------------


def load_attr(frame: Frame, name: str) -> None:
    stack = frame.stack
    stack[-1] = attributes.get(frame.recorder, stack[-1], name)


def load_method(frame: Frame, name: str) -> None:
    """As 3.11 has it: nothing, then what is called."""
    stack = frame.stack
    method = attributes.get(frame.recorder, stack[-1], name)
    stack[-1] = NULL
    stack.append(method)


def load_attr_or_method(frame: Frame, operand: tuple[str, int]) -> None:
    """As 3.12 has it: nothing first where it will be called."""
    name, called = operand
    (load_method if called else load_attr)(frame, name)


def load_attr_null_after(frame: Frame, operand: tuple[str, int]) -> None:
    """As 3.13 has it: nothing last where it will be called."""
    name, called = operand
    load_attr(frame, name)
    if called:
        frame.stack.append(NULL)


def store_attr(frame: Frame, name: str) -> None:
    owner, value = frame.stack.pop(), frame.stack.pop()
    attributes.put(frame.recorder, owner, name, value)


def delete_attr(frame: Frame, name: str) -> None:
    attributes.drop(frame.recorder, frame.stack.pop(), name)


_TWO_ARGUMENTS = 2  # the flag of `super(a, b)`; `super()` of another name is given none


def _super_attribute(frame: Frame, name: str, flags: int) -> Any:
    stack = frame.stack
    owner, cls, maker = stack.pop(), stack.pop(), stack.pop()
    if maker is not super:
        given = (cls, owner) if flags & _TWO_ARGUMENTS else ()
        view = call(frame.recorder, maker, given, {})
        return attributes.get(frame.recorder, view, name)
    return attributes.get(frame.recorder, frame.recorder.new(super(cls, owner)), name)


def load_super_attr(frame: Frame, operand: tuple[str, int]) -> None:
    name, flags = operand
    attribute = _super_attribute(frame, name, flags)
    if flags & 1:
        frame.stack.append(NULL)
    frame.stack.append(attribute)


def load_super_attr_null_after(frame: Frame, operand: tuple[str, int]) -> None:
    name, flags = operand
    frame.stack.append(_super_attribute(frame, name, flags))
    if flags & 1:
        frame.stack.append(NULL)


def import_name(frame: Frame, name: str) -> None:
    stack = frame.stack
    from_list, level = stack.pop(), stack.pop()
    stack.append(attributes.imported(frame.recorder, frame.globals, name, from_list, level))


def import_from(frame: Frame, name: str) -> None:
    frame.stack.append(attributes.import_from(frame.recorder, frame.stack[-1], name))
