"""Large parameters: an update rule as one program that writes them and their state in place.

See Note [updates] in `graph/eager/updates.py`. What cannot be one (tensors among the options,
memory that is shared, not in rows, or not to be written) is updated by the rule as it is.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from types import BuiltinFunctionType, CodeType, FunctionType
from typing import Any

from numpy import ndarray

from adjoint.engine.backends.array.lists.apart import apart
from adjoint.engine.core.operations import large
from adjoint.engine.core.operations.record import HOOKS, is_tensor
from adjoint.engine.core.ownership import is_written_here, module_of
from adjoint.engine.core.state.loading import brought
from adjoint.engine.core.tree import flatten
from adjoint.engine.graph.ir import frozen
from adjoint.engine.tensor.tensor import Tensor, wrap
from adjoint.engine.tensor.watching import doubt
from adjoint.optim.stepping.groups import ParamGroup, is_number

State = dict[str, Any]
Rule = Callable[[Tensor, Tensor, State, Any], None]
FOLDER = __name__.rsplit(".", 2)[0] + "."  # of all optimizers
# What runs rules and states none.
RUNNING = frozenset({f"{FOLDER}stepping.rules", f"{FOLDER}optimizer"})
KNOWN = frozenset({__name__.partition(".")[0], "numpy"})  # besides Python's own


def is_of_this_package(owner: type) -> bool:
    """Whether an optimizer and all that its class can do is what files of `optim` say."""
    module = sys.modules.get(module_of(owner))
    if getattr(module, owner.__qualname__, None) is not owner:
        return False
    if not all(
        module_of(cls).startswith(FOLDER) and all(map(is_written_here, vars(cls).values()))
        for cls in owner.__mro__[:-1]
    ):
        return False
    stating = [cls for cls in owner.__mro__[:-1] if module_of(cls) not in RUNNING]
    return calls_known_functions(
        [part for cls in stating for name, part in vars(cls).items() if name[:2] != "__"]
    )


def calls_known_functions(parts: Iterable[Any]) -> bool:
    """Whether no function of another's is under a name that these, or those they call, look up."""
    pending = [part for part in parts if isinstance(part, FunctionType)]
    met = {*pending}
    while pending:
        fn = pending.pop()
        for name in names_in(fn.__code__):
            called = fn.__globals__.get(name)
            if not callable(called) or (isinstance(called, FunctionType) and called in met):
                continue
            if not isinstance(called, FunctionType | BuiltinFunctionType | type):
                return False  # an object of who knows whose
            module = module_of(called)
            if isinstance(called, FunctionType):
                module = called.__globals__.get("__name__") or ""  # which `wraps` does not change
                met.add(called)
                if module.startswith(FOLDER):
                    pending.append(called)
            top = module.partition(".")[0]
            if top not in KNOWN and top not in sys.stdlib_module_names:
                return False
            if isinstance(called, FunctionType) and top in KNOWN and not is_written_here(called):
                return False
    return True


def names_in(code: CodeType) -> Iterator[str]:
    """The names that a function, or one inside it, looks up."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from names_in(inner)


@cache
def code_of_rules() -> str:
    """A digest of the files of `optim`, which the engine's programs are not named by."""
    code = brought("adjoint.engine.backends.disk.package_code")
    optim = os.path.dirname(os.path.dirname(__file__))
    digest: str = code.digest_of(os.path.dirname(optim), [os.path.basename(optim)])
    return digest


class LargeParameters:
    """A group's rule for its large parameters, as long as the group has the same options."""

    def __init__(self, owner: type, rule: Rule, group: ParamGroup, *, elementwise: bool) -> None:
        self.owner, self.rule = owner, rule
        self.elementwise = elementwise  # whether it does the same to tensors of every shape
        self.options = {k: v for k, v in group.items() if not is_number(k, v)}
        for name in ("params", "param_names"):
            self.options.pop(name, None)
        self.lengths = {  # of tuples of numbers; None: a number
            k: len(v) if isinstance(v, tuple) else None for k, v in group.items() if is_number(k, v)
        }
        self.numbers: list[float] = []
        self.remembered: Any = None  # of parameters on a GPU (`optim/stepping/on_device.py`)
        self.key: Any = None  # None: for any parameter the rule runs as it is
        if not any(map(is_tensor, flatten(self.options)[0])):
            try:
                key = (owner.__name__, owner, frozen(self.options), *self.lengths.items())
                hash(key)
                self.key = key
            except TypeError:  # an option of the user's own, without a hash
                pass

    def read(self, group: ParamGroup) -> bool:
        """Take the numbers of this step; False where other options have changed."""
        if any(group.get(k) is not v for k, v in self.options.items()):
            return False
        self.numbers = []
        for name, length in self.lengths.items():
            value = group.get(name)
            if not is_number(name, value):
                return False
            if length is None and not isinstance(value, tuple):
                self.numbers.append(float(value))
            elif isinstance(value, tuple) and len(value) == length:
                self.numbers += map(float, value)
            else:
                return False
        return len(group) == len(self.options) + len(self.lengths) + sum(
            name in group for name in ("params", "param_names")
        )

    def update(self, p: Tensor, grad: Tensor, state: State) -> bool:
        """Apply the rule, and say so; False: nothing was done."""
        if not 0 < large.UPDATED <= p._array.size or self.key is None:
            return False
        state_tensors = list(state.values())
        if not all(map(is_tensor, state_tensors)):
            return False
        tensors = self.laid_flat([p, grad, *state_tensors])
        if tensors is None:
            return False
        arrays = [t._array for t in tensors]
        if not apart([arrays[0], *arrays[2:]], arrays[1:2]):
            return False
        places = [k for k, a in enumerate(arrays) if not a.shape]
        counters = {k: len(self.numbers) + i for i, k in enumerate(places)}
        counts = [arrays[k].item() for k in places]
        names = tuple(state)
        key = (*self.key, *names)
        try:
            done = HOOKS.updates.run(
                key,
                tensors,
                [*self.numbers, *counts],
                counters,
                self.on_stand_ins(names),
                None,
                lambda: self.told(names),
            )
            if done:
                for tensor in (p, *state_tensors):
                    tensor._storage.version += 1
        except BaseException:
            doubt()
            raise
        return bool(done)

    def told(self, names: Sequence[str]) -> Any:
        """What decides what the rule does, for its name on disk; None where that is not known."""
        owner = self.owner
        if not is_of_this_package(owner):
            return None
        options = tuple(self.options.items())
        rest = (tuple(self.lengths.items()), tuple(names), self.elementwise)
        return (code_of_rules(), module_of(owner), owner.__qualname__, options, *rest)

    def laid_flat(self, tensors: Sequence[Tensor]) -> list[Tensor] | None:
        """The tensors as rows of elements one after the other; None where they are not."""
        arrays = [t._array for t in tensors]
        if any(a.__class__ is not ndarray for a in arrays):
            return None
        flags = [a.flags for a in arrays]
        if not all(f.writeable for f in (flags[0], *flags[2:])):
            return None
        if any(t._storage.version < 0 for t in tensors):
            return None
        if not self.elementwise:
            return [*tensors] if all(f.c_contiguous for f in flags) else None
        shape = arrays[0].shape
        if any(a.shape not in (shape, ()) for a in arrays):
            return None
        if not all(f.c_contiguous for f in flags):  # but perhaps of another order of dimensions
            order = sorted(range(len(shape)), key=lambda d: -arrays[0].strides[d])
            arrays = [a.transpose(order) if a.shape else a for a in arrays]
            if not all(a.flags.c_contiguous for a in arrays):
                return None
        return [wrap(a.reshape(-1) if a.shape else a) for a in arrays]

    def on_stand_ins(self, names: Sequence[str]) -> Any:
        """The rule as a function of tensors and numbers."""

        def rule(tensors: Sequence[Tensor], numbers: Sequence[Any]) -> None:
            given = iter(numbers)
            group = dict(self.options)
            for name, length in self.lengths.items():
                if length is None:
                    group[name] = next(given)
                else:
                    group[name] = tuple([next(given) for _ in range(length)])
            p, grad, *state_tensors = tensors
            state = dict(zip(names, state_tensors, strict=True))
            self.rule(p, grad, state, group)
            if [*map(id, state.values())] != [*map(id, state_tensors)]:
                raise RuntimeError("the rule put something else into the state")

        return rule
