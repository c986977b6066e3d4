"""What the recorder of Python is told about tensors: which code runs as it is, and what it reads.

User code and the layers of `nn` are followed; operations, optimizers and the rest of the framework
run natively and record into the trace. Objects of the framework that keep state of their own say
what a recording depends on (`capture_children`, `capture_watch`).

Note [callbacks]
    Functions handed to the framework's own (transforms, checkpoints, hooks) are replaced by ones
    that have them followed; so are those in the closures of the framework's functions. A function
    of the framework that is given a module is followed itself.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from adjoint.engine.autodiff.levels.function import Function
from adjoint.engine.autodiff.tape import reverse
from adjoint.engine.autodiff.tape.checkpoint import checkpoint
from adjoint.engine.autodiff.tape.node import BackwardNode
from adjoint.engine.capture.given import Path
from adjoint.engine.capture.python.calling import entered
from adjoint.engine.capture.python.engine import NoEngine, elements_of
from adjoint.engine.capture.python.errors import PlainCall
from adjoint.engine.capture.python.exposing import expose
from adjoint.engine.capture.python.language.attributes import class_lookup
from adjoint.engine.capture.python.language.calls import follow
from adjoint.engine.capture.python.language.operators import new_parts
from adjoint.engine.capture.python.plain import MISSING, ObjectIdentity, has, is_plain, same
from adjoint.engine.capture.python.recorder import DrawnNumber
from adjoint.engine.capture.tensors import arrays as arrays  # fills the tables of functions
from adjoint.engine.capture.tensors import late_arrays
from adjoint.engine.capture.tensors.array_memory import ArrayMemory
from adjoint.engine.capture.tensors.call_numbers import CallNumbers, is_drawn, with_sizes_read
from adjoint.engine.capture.tensors.callbacks import (
    PLAIN_CALLS,
    calls_hooks,
    clears_for_users,
    entry_to,
    goes_through,
    has_lists_of_users,
    has_user_cells,
    holds_users,
    is_captured,
    is_module,
    is_native,
    is_of_files,
    is_users,
    keeps_state,
    wraps_users,
)
from adjoint.engine.capture.tensors.executed_lines import ExecutedLines
from adjoint.engine.capture.tensors.handed import hand_over
from adjoint.engine.capture.tensors.late_arrays import holds_late, is_late, tensor_of
from adjoint.engine.capture.tensors.late_values import (
    LATE,
    is_late_value,
    late_text,
    late_value,
    text_of,
    with_elements,
)
from adjoint.engine.capture.tensors.leaving import CONTAINERS, holds_new, note_made
from adjoint.engine.capture.tensors.looks import LOOKS, Has, hook_tables, hooks_of
from adjoint.engine.capture.tensors.native_state import NativeState
from adjoint.engine.capture.tensors.optimizers import SteppedOptimizers, with_inner
from adjoint.engine.capture.tensors.overridden import check_overrides, may_be_overridden
from adjoint.engine.capture.tensors.placed_hooks import PlacedHooks
from adjoint.engine.capture.tensors.tags import tag_argument
from adjoint.engine.core.errors import CaptureError
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.origins import place_now
from adjoint.engine.core.ownership import module_of
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.host import HostScalar
from adjoint.engine.core.state.rng import Generator
from adjoint.engine.core.state.structure_version import StructureVersion, TrackedDict
from adjoint.engine.core.value import TensorBase

_ENGINE = __name__.partition(".")[0]
_OF_NODES = frozenset({"name", "__class__"})  # what a guard on a tensor's node covers
_PULLS = frozenset({"backward", "backward_method", "grad"})  # what may call hooks of tensors
_WRAPPERS = frozenset({"hooked", "moded"})  # of optimizers' steps, which may be a user's
_OF_FUNCTIONS = "forward setup_context backward vjp jvp vmap generate_vmap_rule".split()
_TAKES_ARRAYS = frozenset({"from_numpy", "as_tensor", "asarray", "tensor"})


class TensorEngine(CallNumbers):
    """One recording's dealings with tensors."""

    def __init__(self, trace: Any, symbols: bool = False) -> None:
        self.trace = trace
        self.recorder: Any = None  # set when it begins, as are the next
        self.memory: ArrayMemory
        self.optimizers: SteppedOptimizers
        self.hooks: PlacedHooks
        self.states: NativeState
        self.holders: dict[int, Any] = {}  # objects that declare what a recording depends on
        self.restores: list[Callable[[], None]] = []  # take back state they made
        self.restores_always: list[Callable[[], None]] = []  # hooks that were replaced meanwhile
        self.numbers = []
        self.functions: dict[Any, Any] = {}  # a user's autograd functions, followed
        self.tests_draws = False  # whether what is done depends on numbers that are drawn
        self.sized = False
        self.lines: ExecutedLines
        self.given_paths: dict[int, Path] = {}  # the ways to containers of the call's arguments
        self.given_states: dict[Any, Any] = {}  # containers at places that move, as arguments
        self.changed: frozenset[type] = frozenset()  # of objects that are such containers
        self.tagged: dict[int, Any] = {}  # tensors made inside that were given attributes
        self.late = []
        self.given_arrays: list[late_arrays.LateArray] = []  # arrays among the arguments

    def begin(self, recorder: Any) -> None:
        """An observation begins."""
        self.recorder = recorder
        self.memory = ArrayMemory(recorder, self.trace)
        self.optimizers = SteppedOptimizers(recorder, self.trace)
        self.hooks = PlacedHooks(recorder, self.restores)
        self.states = NativeState(recorder, self.restores)
        recorder.draws += [late.draw for late in self.given_arrays]
        self.trace.observed = True
        self.trace.assign, self.trace.has_assigned = recorder.put, recorder.has_put
        self.trace.follow, self.trace.item = self.follow, recorder.item
        self.trace.take_step = self.optimizers.take_step
        self.trace.before_host_guard = self._note_drawn
        self.lines = ExecutedLines(recorder)
        self.trace.locate = self.lines.locate

    def given_array(self, place: int, tensor: Any) -> late_arrays.LateArray:
        """What stands for an array among the arguments; `tensor` is on its memory."""
        slot = late_arrays.ArraySlot(place, tensor)
        late = slot.scalar = late_arrays.LateArray(
            self, DrawnNumber(slot.now, slot.now(), None), tensor, slot
        )
        self.given_arrays.append(late)
        return late

    def _note_drawn(self, test: HostScalar) -> None:
        """A test of a number that is drawn: whether a recording fits shows only after drawing."""
        self.tests_draws = self.tests_draws or is_drawn(test)

    # -- what runs natively -------------------------------------------------------------------

    def runs(self, fn: Any) -> bool:
        """Whether a callable is the framework's own."""
        if isinstance(fn, types.FunctionType):
            module = fn.__globals__.get("__name__") or ""
            return is_native(module) and fn.__name__ not in _WRAPPERS and not wraps_users(fn)
        if isinstance(fn, type):
            return is_native(module_of(fn)) and not issubclass(fn, BaseException)
        if is_captured(fn):
            return True
        return isinstance(fn, types.BuiltinFunctionType) and is_native(fn.__module__ or "")

    def call(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call one; what it reads of Python's state is guarded, callbacks are followed."""
        recorder = self.recorder
        if is_captured(fn):
            return entered(recorder, fn.fn)(*args, **kwargs)
        if args and is_captured(args[0]) and getattr(fn, "__name__", "") == "__get__":
            return fn(*args, **kwargs)  # binds to the object itself, though that may be callable
        if may_be_overridden(fn):
            check_overrides(recorder, fn, args, kwargs)
        args, kwargs = with_sizes_read(fn, args, kwargs)
        given = (*args, *kwargs.values())
        if args and (calls_hooks(fn, args[0]) or clears_for_users(fn, args[0])):
            return follow(recorder, fn, args, kwargs)
        if isinstance(fn, type) and (has(fn, "capture_children") or any(map(is_module, given))):
            raise self._is_made(fn)
        if any(map(is_late_value, given)):
            args, kwargs = with_elements(fn, args, kwargs)
            given = args
        if isinstance(fn, types.FunctionType) and holds_late(given) and not _is_of_late(fn):
            return self._call_with_tensors(fn, args, kwargs)
        if fn is checkpoint and args and is_module(args[0]):
            args = (self._entry(args[0]), *args[1:])  # backward calls it again
            given = (*args, *kwargs.values())
        if (
            isinstance(fn, types.FunctionType)
            and (any(map(holds_users, given)) or has_lists_of_users(fn))
            and not (fn.__name__.startswith("__") and is_module(args[0]))
        ):
            return follow(recorder, fn, args, kwargs)
        for value in given:
            self.declare(value)
        if args and is_tensor(args[0]) and getattr(fn, "__name__", "") in LOOKS:
            answer = self._look(args[0], fn.__name__)
            if answer is not MISSING:
                return answer
        stepped = args[0] if args else None
        # A scaler steps an optimizer that it is given, and takes that back where it overflowed.
        self._refuse(fn, given if getattr(fn, "__name__", "") == "step" else given[:1])
        self.hooks.before(fn, args)
        through = goes_through(fn)
        args = tuple([self._ready(x, through) for x in args])
        kwargs = {name: self._ready(x, through) for name, x in kwargs.items()}
        try:
            result = self._closed(fn)(*args, **kwargs)
            self.optimizers.has_run(getattr(fn, "__name__", ""), stepped)
            self.hooks.after(fn, args, result)
        except CaptureError as error:
            answer = self._later(fn, args, kwargs, error)
            if answer is None:
                raise
            return self._new_lists(answer)
        for value in given:
            if type(value) is np.ndarray:
                self._array_given(value, result)
        alone = sys.getrefcount(result) <= 2  # before it is an argument
        self._note_new(fn, result, alone)
        return result

    def _note_new(self, fn: Any, result: Any, alone: bool) -> None:
        """Note what a call made that is the function's own; `alone` if nobody else holds it."""
        recorder = self.recorder
        if isinstance(result, CONTAINERS) and (note_made(self, result) or alone):
            recorder.new(result)
            new_parts(recorder, result)
        elif (isinstance(result, types.FunctionType) and alone) or (
            has(type(result), "__next__") or (isinstance(fn, type) and keeps_state(module_of(fn)))
        ):
            recorder.new(result)
        elif has(type(result), "capture_made_again"):
            recorder.new(result)
            new_parts(recorder, vars(result))

    def _refuse(self, fn: Any, stepped: Sequence[Any]) -> None:
        """Raise for a call that no recording can stand for; `stepped` may be optimizers."""
        recorder = self.recorder
        name = getattr(fn, "__name__", "")
        if self.in_call and name == "materialize":
            raise self._left_to_python(
                f"materialize: a parameter is given its shape at {recorder.line()}, as it is once. "
                "Call the module once outside."
            )
        if name in _PULLS:
            self._follow_hooks()
            if CONTEXT.anomaly and fn.__module__ == reverse.__name__:
                raise recorder.refuse(
                    "backward in anomaly mode",
                    "each gradient that is computed is looked at, which a recording does not do",
                    "Turn the mode off, or leave such calls to Python (fullgraph=False).",
                )
        for one in stepped:
            hindrance = self.optimizers.hindrance(name, one)
            if hindrance is not None:
                raise recorder.refuse(
                    f"{type(one).__name__}.{name}", hindrance,
                    "Do that outside of the compiled function.",
                )  # fmt: skip
        if isinstance(fn, types.FunctionType) and is_of_files(fn.__module__ or ""):
            raise recorder.refuse(name, "files may change between calls", "Save and load outside.")

    def _new_lists(self, value: Any) -> Any:
        """A value, nested lists in which are the function's own."""
        if type(value) is list:
            self.recorder.new(value)
            for part in value:
                self._new_lists(part)
        return value

    def _later(
        self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any], error: CaptureError
    ) -> Any:
        """What stands for a tensor's value that was asked for and is known at a call's end."""
        if kwargs or not args or not is_tensor(args[0]) or CONTEXT.capture is not self.trace:
            return None
        text = text_of(fn)
        if text is not None:
            return late_text(text, args, error)
        name = getattr(fn, "__name__", "")
        return late_value(name, args[0], error) if name in LATE and len(args) == 1 else None

    def _call_with_tensors(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function of the framework with arrays of each call as tensors."""
        if fn.__name__ in _TAKES_ARRAYS:
            tensor = tensor_of(args[0])
            if fn.__name__ != "tensor":
                args = (tensor, *args[1:])
                return tensor if fn.__name__ == "from_numpy" else self.call(fn, args, kwargs)
            flag = kwargs.pop("requires_grad", False)
            tensor = tensor.to(kwargs.get("dtype") or tensor.dtype, copy=True)
            return tensor.requires_grad_() if flag else tensor
        args = tuple(tensor_of(x) if is_late(x) else x for x in args)
        kwargs = {key: tensor_of(x) if is_late(x) else x for key, x in kwargs.items()}
        if holds_late((*args, *kwargs.values())):
            raise self.recorder.refuse(
                "a list of NumPy arrays of the call", f"{fn.__name__} is given it",
                "Make a tensor of each.",
            )  # fmt: skip
        return self.call(fn, args, kwargs)

    def _ready(self, value: Any, through: bool) -> Any:
        """An argument for the framework: callbacks are followed, what is asked of it guarded."""
        kind = type(value)
        if kind in (int, float, str, bool) or value is None or is_tensor(value):
            return value
        if kind in PLAIN_CALLS or (
            callable(value) and not isinstance(value, type) and not self.owns(value)
            and not isinstance(value, types.BuiltinFunctionType)
        ):  # fmt: skip
            return self.follow(value)
        if isinstance(value, type):
            return self._function_class(value) if issubclass(value, Function) else value
        hand_over(self.recorder, value, through=through)
        return value

    def follow(self, fn: Any) -> Any:
        """A function that the framework calls; a user's, or one in its closure, is observed."""
        if self.runs(fn) and not has_user_cells(fn):
            return fn
        return self._entry(fn)

    def _entry(self, fn: Any) -> Any:
        """What has a function followed that the framework calls, with containers of its own."""
        return entry_to(self.recorder, fn, partial(note_made, self))

    def compared(self, left: Any, right: Any) -> None:
        """It was asked whether two objects are one: a gradient may be another one at each call."""
        if not (is_tensor(left) and is_tensor(right)):
            return
        trace = self.trace
        for holder, grad in trace.grads_seen.items():
            if grad is None or (grad is not left and grad is not right):
                continue
            if id(holder) in trace.positions:
                raise self.recorder.refuse(
                    "whether an argument's gradient is a certain tensor",
                    "it may be another one at each call",
                    "Compare outside, or keep the gradient in a variable of the function.",
                )
            trace.guard(
                lambda h=holder, g=grad: h._grad_meta.grad is g, "a gradient is the same one"
            )

    def length(self, value: Any) -> Any:
        """`len` of one of the framework's: of a tensor a size, which may be a symbol."""
        if is_tensor(value) and value.shape:
            return value.shape[0]
        return len(value)

    def _function_class(self, cls: Any) -> Any:
        """A class of the same name whose rules, if a user wrote them, are followed."""
        if cls not in self.functions:
            rules = {
                name: staticmethod(self._entry(rule))
                for name in _OF_FUNCTIONS
                if class_lookup(self.recorder, cls, name) is not MISSING
                and isinstance(rule := getattr(cls, name, None), types.FunctionType)
                and not is_native(rule.__globals__.get("__name__") or "")
            }
            body = {"__module__": module_of(cls), "__qualname__": cls.__qualname__, **rules}
            self.functions[cls] = type(cls)(cls.__name__, (cls,), body) if rules else cls
        return self.functions[cls]

    def _follow_hooks(self) -> None:
        """Have the hooks of tensors from outside followed while the recording lasts."""
        met = [guard.value for guard in self.recorder.guards.values()]
        for tensor in [*filter(is_tensor, met), *self.trace.arguments.values()]:
            if self.is_given(tensor):  # another call's argument may have others
                self.trace.look(tensor, hooks_of)
            for hooks in hook_tables(tensor):
                for key, hook in list(hooks.items()):
                    followed = hook if hasattr(hook, "followed") else self.follow(hook)
                    if followed is not hook:
                        hooks[key] = followed
                        self.restores_always.append(partial(self._hook_back, hooks, key, hook))

    def _hook_back(self, hooks: dict[int, Any], key: int, hook: Any) -> None:
        """Put a hook back where one that is followed stood for it, unless the call took it away."""
        if key in hooks or not self.hooks.has_placed(hooks, key):
            hooks[key] = hook

    def _array_given(self, array: Any, result: Any) -> None:
        """A NumPy array: read at each call if it became a tensor, else a constant."""
        backed = is_tensor(result) and isinstance(result._array, np.ndarray)
        if backed and np.shares_memory(result._array, array):
            return
        if not self.recorder.is_fresh(array):
            expose(self.recorder, array)

    def _closed(self, fn: Any) -> Any:
        """A function whose callbacks are followed (Note [callbacks])."""
        if not isinstance(fn, types.FunctionType) or not has_user_cells(fn):
            return fn
        cells = tuple(
            types.CellType(self._entry(cell.cell_contents)) if is_users(cell) else cell
            for cell in fn.__closure__ or ()
        )
        copy = types.FunctionType(fn.__code__, fn.__globals__, fn.__name__, fn.__defaults__, cells)
        copy.__kwdefaults__ = fn.__kwdefaults__
        return copy

    def declare(self, value: Any) -> None:
        """Have what an object says of itself be part of what the recording depends on."""
        declares = has(type(value), "capture_children") and not is_captured(value)
        self.states.meet(value)
        if not declares or id(value) in self.holders:
            return
        if self.recorder.is_fresh(value):
            raise self._is_made(type(value))
        self.holders[id(value)] = value
        self.restores += [optimizer.capture_keep() for optimizer in with_inner(value)]

    def _is_made(self, cls: type) -> PlainCall:
        """What is said where the function makes an object that says what depends on it."""
        return self._left_to_python(
            f"{cls.__name__}: it is made in the function, at {self.recorder.line()}, and its state "
            "is no part of a recording. Make it outside."
        )

    def _left_to_python(self, why: str) -> PlainCall:
        """What ends a recording, for Python to do this call."""
        refusal = self.recorder.refusal = PlainCall(why)
        return refusal

    # -- what objects are ---------------------------------------------------------------------

    def owns(self, value: Any) -> bool:
        """Whether a value is the framework's: tensors, dtypes, the context."""
        return issubclass(type(value), TensorBase) or self.owns_class(type(value))

    def owns_class(self, cls: type) -> bool:
        """Whether a class is the framework's and not followed."""
        if cls is StructureVersion:
            return True
        return (
            is_native(module_of(cls))
            and cls not in (HostScalar, ObjectIdentity)
            and not issubclass(cls, (dict, list, set))
        )

    def is_new(self, value: Any) -> bool:
        """Whether a tensor or generator was made in this recording."""
        if issubclass(type(value), TensorBase):
            return value._storage.trace is not None and id(value) not in self.trace.rebound_ids
        if is_late(value):
            return value.tensor is None
        return type(value) is Generator and value in self.trace.own

    def holds_new(self, value: Any) -> bool:
        """Whether an object of the framework's holds a tensor that was made in this recording."""
        fresh = self.recorder.is_fresh(value) and not isinstance(value, types.FunctionType)
        return not fresh and holds_new(self, value)

    def keeps(self, cls: type) -> bool:
        """Whether a class is the framework's: nobody changes these, but for layers."""
        return is_native(module_of(cls)) or cls is TrackedDict

    def keeps_function(self, fn: Any) -> bool:
        """Whether a function is the framework's."""
        return str(fn.__globals__.get("__name__", "")).partition(".")[0] == _ENGINE

    def attribute(self, recorder: Any, obj: Any, name: str) -> Any:
        """An attribute of one of the framework's objects."""
        if is_tensor(obj) and name in LOOKS:
            self._look(obj, name)
        earlier = isinstance(obj, BackwardNode) and obj.sequence <= self.trace.start
        if earlier and name not in _OF_NODES:
            raise recorder.refuse(
                f"{obj.name()}.{name}", "another call's operations may be others",
                "Look at the tape outside.",
            )  # fmt: skip
        stateful = not is_tensor(obj) and keeps_state(module_of(type(obj)))
        table = recorder.attributes(obj) if stateful else None
        if table is not None:
            on_class = has(type(obj), name)
            value = recorder.item(table, name) if name in table or not on_class else MISSING
            if value is not MISSING and not on_class:
                return value
        return getattr(obj, name)

    def _look(self, tensor: Any, name: str) -> Any:
        """Have the recording depend on what a tensor answers; an address, which is one."""
        self.trace.look(tensor, LOOKS[name])
        if name == "data_ptr" and self.trace.was_there(tensor):
            return LOOKS[name](tensor)
        return MISSING

    def lets_in(self, obj: Any) -> bool:
        """Whether an object may have attributes of the user's: tensors do."""
        return is_tensor(obj)

    def sets(self, recorder: Any, obj: Any, name: str, value: Any) -> bool:
        """Set an attribute of one of the framework's objects, if it is no ordinary one."""
        users = name in getattr(obj, "__dict__", {}) or not has(type(obj), name)
        if is_tensor(obj) and users:
            if self.is_given(obj):
                return tag_argument(self.recorder, self.trace, obj, name, value)
            if not self.trace.was_there(obj):
                self.tagged[id(obj)] = obj
            return False
        if users and not is_tensor(obj) and keeps_state(module_of(type(obj))):
            return False
        setattr(obj, name, value)
        return True

    def elements(self, value: Any) -> Any:
        """The elements of an array."""
        return elements_of(value)

    def same_answer(self, value: Any, again: Any) -> bool:
        """Whether an answer of C is the same when asked for again."""
        return value is again or (is_plain(value) and same(value, again))

    def change(self, recorder: Any, owner: Any, do: Any, args: tuple[Any, ...]) -> Any:
        """A change to something of C's: arrays are put back and changed again."""
        return self.memory.change(owner, do, args)

    def guard_elements(self, recorder: Any, value: Any) -> None:
        """Have what is in an array guarded."""
        self.memory.guard_elements(value)

    def is_changed(self, value: Any) -> bool:
        """Whether the function wrote to the elements of an array."""
        return self.memory.is_changed(value)

    def shares(self, value: Any) -> bool:
        """Whether a result of NumPy's shows the memory of an array from outside."""
        return self.memory.shares(value)

    # -- arguments, and the end ---------------------------------------------------------------

    def is_given(self, value: Any) -> bool:
        """Whether a tensor is an argument of the call."""
        return is_tensor(value) and id(value) in self.trace.positions

    def identified(self, recorder: Any, value: Any) -> None:
        """Something depends on which object an argument is: that becomes a guard."""
        if not self.is_given(value):
            NoEngine.identified(NoEngine(), recorder, value)
        self.trace.look(value, id)

    def lacks(self, value: Any, name: str) -> None:
        """An argument was found to have no such attribute of the user's: that becomes a guard."""
        self.trace.look(value, Has(name))

    def given_at(self, place: Any, value: Any) -> Any:
        """What stands for a tensor or a container of them that is given to each call."""
        if is_tensor(value):
            return value if id(value) in self.trace.arguments else MISSING
        return self.given_states.get(place, MISSING)

    def forget(self) -> None:
        """Let go of the objects that were met; nobody shall have to look for them as garbage."""
        trace = self.trace
        trace.before_host_guard, trace.locate = None, place_now
        trace.assign = trace.has_assigned = trace.follow = trace.item = None
        trace.take_step = None
        self.lines.forget()
        self.given_arrays.clear()

    def over(self) -> None:
        """The function has run: hooks are the user's again."""
        for restore in self.restores_always:
            restore()
        self.restores_always.clear()


def _is_of_late(fn: Any) -> bool:
    """Whether a function is a method of arrays of each call."""
    return fn.__globals__.get("__name__") == late_arrays.__name__
