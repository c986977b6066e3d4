"""How a recording takes the methods that every layer goes through, instead of following them.

The same places are looked at as the methods look at, and when they do; instruction by instruction
that would be most of what recording a model takes. Whatever is out of the ordinary is followed.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

from adjoint.engine.capture.python import frames
from adjoint.engine.capture.python.c.functions import PYTHON
from adjoint.engine.capture.python.language import attributes, calls, items, iteration, operators
from adjoint.engine.capture.python.plain import MISSING
from adjoint.engine.capture.python.recorder import Recorder
from adjoint.engine.core.origins import MODULE_CALLS
from adjoint.engine.core.state.structure_version import TrackedDict
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn.modules.base.hooks import GLOBAL
from adjoint.nn.modules.base.naming import NAMED, name_layer
from adjoint.nn.modules.base.traversal import Traversal
from adjoint.nn.modules.module import MEMBERS, Module

_TABLES = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_GLOBAL_TABLES = ("backward_pre", "backward", "forward_pre", "forward")
_HOOKS_OF_ALL = "hooks of all modules"
_FIND: Any = Module.__getattr__
_CALL: Any = Module.__call__
_WALK: Any = Traversal.named_modules
_MEMBERS: Any = Traversal._named_members


def _lambda_in(method: Any) -> Any:
    """The code of the one lambda in a method."""
    (code,) = [x for x in method.__code__.co_consts if isinstance(x, types.CodeType)]
    return code


# By the code of what finds a module's own members, the table these are in.
_TABLE_OF: dict[Any, str] = {
    _lambda_in(Traversal.named_parameters): "_parameters",
    _lambda_in(Traversal.named_buffers): "_buffers",
}


def _find(recorder: Recorder, module: Any, name: str, /) -> Any:
    """`Module.__getattr__`."""
    own = recorder.attributes(module)
    for table in MEMBERS:
        members = MISSING if own is None else recorder.item(own, table)
        if type(members) is not TrackedDict or type(name) is not str:
            return calls.follow(recorder, _FIND, (module, name), {})
        value = recorder.item(members, name)
        if value is not MISSING:
            return value
    return _FIND(module, name)  # raises


def _call(recorder: Recorder, self: Any, /, *args: Any, **kwargs: Any) -> Any:
    """`Module.__call__`."""
    plain = attributes.get(recorder, self, "_compiled_call_impl") is None
    if not plain or _hooked(recorder, self):
        return calls.follow(recorder, _CALL, (self, *args), kwargs)
    # Nodes are told the module whose call is under way: by a frame, as if it were followed.
    recorder.frames.append(frames.Frame(recorder, _CALL.__code__, _CALL.__globals__, [self], _CALL))
    try:
        forward = attributes.get(recorder, self, "forward")
        return calls.call(recorder, forward, args, kwargs)
    except NAMED as error:
        calls.call(recorder, name_layer, (error, self, args, kwargs), {})
        raise
    finally:
        recorder.frames.pop()


def _hooked(recorder: Recorder, module: Any) -> bool:
    """Whether a call has hooks to run, or tables of hooks of another kind."""
    if any(_holds_hooks(recorder, module, name) for name in _TABLES):
        return True
    if _HOOKS_OF_ALL in recorder.shared:  # their tables are guarded, and only looked at again
        tables = [getattr(GLOBAL, name) for name in _GLOBAL_TABLES]
        return any(type(hooks) is not TrackedDict or hooks for hooks in tables)
    if any(_holds_hooks(recorder, GLOBAL, name) for name in _GLOBAL_TABLES):
        return True
    recorder.shared[_HOOKS_OF_ALL] = True
    return False


def _holds_hooks(recorder: Recorder, holder: Any, name: str) -> bool:
    hooks = attributes.get(recorder, holder, name)
    return type(hooks) is not TrackedDict or bool(recorder.length(hooks))


def _walk(
    recorder: Recorder,
    module: Any,
    memo: set[Any] | None = None,
    prefix: str = "",
    remove_duplicate: bool = True,
) -> Any:
    """`Traversal.named_modules`."""
    if memo is None and type(prefix) is str and type(remove_duplicate) is bool:
        return recorder.new(
            _modules(recorder, module, recorder.new(set()), prefix, remove_duplicate)
        )
    given = (module, memo, prefix, remove_duplicate)
    return calls.follow(recorder, _WALK, given, {})


def _modules(
    recorder: Recorder, module: Any, memo: set[Any], prefix: str, remove_duplicate: bool
) -> Iterator[tuple[str, Any]]:
    if _is_in(recorder, memo, module):
        return
    if remove_duplicate:
        memo.add(operators.hashable(recorder, module))
    yield prefix, module
    for name, part in _pairs(recorder, attributes.get(recorder, module, "_modules")):
        if part is not None:
            below = f"{prefix}.{name}" if prefix else name
            walk = attributes.get(recorder, part, "named_modules")
            if getattr(walk, "__func__", None) is _WALK:
                yield from _modules(recorder, part, memo, below, remove_duplicate)
            else:
                walker = calls.call(recorder, walk, (memo, below, remove_duplicate), {})
                yield from iteration.native(recorder, walker)


def _is_in(recorder: Recorder, seen: set[Any], one: Any) -> bool:
    """`one in seen`, a set of this recording: quick for what is told apart by identity."""
    lookup, cls = attributes.class_lookup, type(one)
    equal = lookup(recorder, cls, "__eq__")
    if equal is object.__eq__ and lookup(recorder, cls, "__hash__") is object.__hash__:
        return one in seen
    if equal is Tensor.__eq__ and lookup(recorder, cls, "__hash__") is Tensor.__hash__:
        return one in seen
    return bool(items.contains(recorder, seen, one))


def _pairs(recorder: Recorder, table: Any) -> Any:
    """What `for name, value in table.items()` goes through."""
    if type(table) is TrackedDict:
        recorder.contents(table)
        return table.items()
    listed = calls.call(recorder, attributes.get(recorder, table, "items"), (), {})
    return iteration.native(recorder, listed)


def _members(
    recorder: Recorder,
    module: Any,
    get_members_fn: Any,
    prefix: str = "",
    recurse: bool = True,
    remove_duplicate: bool = True,
) -> Any:
    """`Traversal._named_members`."""
    if type(prefix) is str and type(recurse) is bool and type(remove_duplicate) is bool:
        return recorder.new(
            _named(recorder, module, get_members_fn, prefix, recurse, remove_duplicate)
        )
    given = (module, get_members_fn, prefix, recurse, remove_duplicate)
    return calls.follow(recorder, _MEMBERS, given, {})


def _named(
    recorder: Recorder, module: Any, find: Any, prefix: str, recurse: bool, remove_duplicate: bool
) -> Iterator[tuple[str, Any]]:
    seen: set[Any] = recorder.new(set())
    owners: Any = [(prefix, module)]
    if recurse:
        walk = attributes.get(recorder, module, "named_modules")
        given = {"prefix": prefix, "remove_duplicate": remove_duplicate}
        owners = iteration.native(recorder, calls.call(recorder, walk, (), given))
    table = _TABLE_OF.get(getattr(find, "__code__", None))
    for path, owner in owners:
        if table is None:
            members = iteration.native(recorder, calls.call(recorder, find, (owner,), {}))
        else:
            members = _pairs(recorder, attributes.get(recorder, owner, table))
        for name, member in members:
            if member is None or _is_in(recorder, seen, member):
                continue
            if remove_duplicate:
                seen.add(operators.hashable(recorder, member))
            yield (f"{path}.{name}" if path else name), member


MODULE_CALLS[id(_call.__code__)] = _call.__code__
PYTHON[_WALK] = _walk
PYTHON[_MEMBERS] = _members
PYTHON[_FIND] = _find
PYTHON[_CALL] = _call
