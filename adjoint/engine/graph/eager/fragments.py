"""Fragments: large eager operations run as compiled programs.

Note [fragments]
    An eager operation on large tensors spends its time in memory and arithmetic, not in Python. So
    where it is large, what the operation is made of (a composite's own composition, a rule of the
    tape) is recorded once for each kind of operands, compiled by the target as `compile` would
    compile it, and run as one program: fused, on every core, nothing between its parts in memory.
    There is then no second, hand-fused implementation of anything.

    A kind is decided by all that a recording may look at: the operation, its parameters, and of
    each tensor dtype, shape and strides. A fragment is made where a kind is met first, so a program
    gives the same bits every time it runs. Machine code is shared by kinds that differ in sizes
    alone (on a GPU: Note [open numbers]), but each costs some milliseconds of planning. Those that
    an operation goes on to meet mostly cost less (Note [open kinds]); where each is planned by
    itself, it gets them for the first `SHAPES`.

    Operations stay as they were where somebody looks on (transforms, recordings, observers), and
    where a recording draws, reads an element, or calls the eager table in its middle.

Note [rules ahead]
    A kernel takes a GPU's compiler tenths of a second, and a backward would wait for the kernels of
    one fragment after the other. So where the forward met kinds on a GPU that were new, the
    backward begins by making the fragments of these nodes' rules, the last node's first, without
    waiting for their kernels, which are compiled side by side. What a rule is given is what its
    node saved, and a cotangent that is expected to lie as the result did; where another one comes,
    its fragment is made then. All of that hangs on what the program does, not on what is on disk:
    kinds are met in the same order with and without it, and give the same bits.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, TypeVar

from numpy import complex64, ndarray

from adjoint.engine.autodiff.tape.tape import RecordNode
from adjoint.engine.core.dtype import DEFAULT_LISTENERS
from adjoint.engine.core.errors import raised_outside, warn_user
from adjoint.engine.core.operations.large import (
    COMPUTED,
    DEVICE_LAYOUTS,
    EXPECTED,
    NEW_ON_DEVICE,
    SEVERAL,
)
from adjoint.engine.core.operations.record import HOOKS, Record, is_tensor
from adjoint.engine.core.state import switches
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.host import HostScalar
from adjoint.engine.core.state.loading import brought
from adjoint.engine.core.state.timeline import LISTENERS
from adjoint.engine.graph.eager import kept_kinds
from adjoint.engine.graph.eager.complex_sums import (
    PARTED,
    as_parts,
    is_left_to_numpy,
    summed_as_reals,
)
from adjoint.engine.graph.eager.enlisted import Owned, forget
from adjoint.engine.graph.eager.fragment import Fragment, Unfit, Work, put_workers_first
from adjoint.engine.graph.eager.many_sizes.open_kinds import Looked, OpenKinds
from adjoint.engine.graph.eager.moved_words import MOVING, as_device_words, as_words
from adjoint.engine.graph.eager.quick_keys import add_operands, add_params, given_kind
from adjoint.engine.graph.eager.sightings import Sightings
from adjoint.engine.graph.ir import frozen
from adjoint.engine.ops.create.creation import empty_strided
from adjoint.engine.tensor.tensor import DEVICE_OF, Tensor, wrap

FEW_NEW = 16  # operations to which a kind was new, whose nodes are not made yet
KEPT = 1 << 12  # kinds, the one used last at the end; each takes some dozens of kilobytes
Made = TypeVar("Made")
# Shapes of one operation that get fragments: each costs some milliseconds to plan. Of one on few
# elements that are not many operations' each (`SEVERAL`), which gains less by it; of one that is
# given positions, which are as many as elements were chosen.
SHAPES, FEW_SHAPES, CHOSEN_SHAPES = 1 << 9, 1 << 7, 1 << 5


def fitting(name: str, tensors: Sequence[Tensor], make: Callable[[], Made]) -> Made | None:
    """What `make` compiles; None where that runs by the table, which is told unless expected."""
    try:
        return make()
    except Unfit:
        return None
    except MemoryError:  # the table would take as much
        raise
    except Exception as error:
        if not isinstance(error.__cause__, Exception | None):
            raise error.__cause__ from None  # an interrupt: Python 3.11 wraps those of a class body
        warn_user(
            f"{name}: could not be compiled for tensors of {[t._spec for t in tensors]} and "
            f"runs by the eager table, which is slower. {type(error).__name__}: {error}"
        )
        return None


def name_of(key: Any) -> str:
    """The operation of a key, which may be of its derivative."""
    name: str = getattr(key[0], "record", key[0]).name
    return name


def most_shapes(owner: Any, tensors: Sequence[Tensor]) -> int:
    """How many shapes of an operation, or of its derivative, get fragments."""
    record: Record = getattr(owner, "record", owner)
    if record.indexed:
        return CHOSEN_SHAPES
    few = record.large == COMPUTED and not any(t._array.size >= SEVERAL for t in tensors)
    return FEW_SHAPES if few else SHAPES


def of_any_shape(key: Any, tensors: Sequence[Tensor]) -> tuple[Any, ...]:
    """What kinds have in common that differ in shapes alone."""
    return (key[0], *[(t._array.dtype, t.ndim) for t in tensors])


def no_fragment() -> None:
    """What is kept of a kind that is not asked for."""


class Fragments:
    """The fragments of this process, by kind; None for kinds that run as they are."""

    def __init__(self) -> None:
        self.by_kind: OrderedDict[Any, Fragment | None] = OrderedDict()
        self.shapes: dict[Any, int] = {}  # how many kinds differ only in them
        # Kinds that came after so many; apart, since ever new ones must not push fragments out.
        self.beyond: set[Any] = set()
        self.shared: dict[str, Any] = {}  # one runs at a time, in the same memory
        self.quick: dict[Any, Fragment | None] = {}
        self.given: dict[Record, type] = {}
        self.sightings = Sightings()
        self.open = OpenKinds()

    def run(
        self,
        key: Any,
        tensors: Sequence[Tensor],
        rule: Callable[[], Any],
        quick: Any,
        call: Callable[[Sequence[Tensor], Any], Any],
    ) -> Any:
        """What `rule()` gives, which is decided by `key` and these tensors; None: call it.

        The key begins with a plan; `call` does the same with other tensors and the rest of a key.
        """
        looked = Looked(key[1:], lambda others, rest, _: call(others, rest))
        return self.find(frozen(key)[1:], tensors, (), lambda _: rule(), looked, quick)

    def find(
        self,
        key: Any,
        tensors: Sequence[Tensor],
        numbers: Sequence[float],
        fn: Work,
        looked: Looked,
        quick: Any = None,
    ) -> Any:
        """What `fn(numbers)` gives, decided by `key` and the tensors; None: do it as it is.

        What is found is kept under `quick` too (Note [quick keys]).
        """
        kind = (key, *layout(tensors))
        try:
            fragment = self.by_kind[kind]
            self.by_kind.move_to_end(kind)
            if LISTENERS and fragment is not None and fragment.is_unrecorded:
                fragment = self.by_kind[kind] = self.make(key, tensors, numbers, fn)
            if fragment is not None and fragment.is_ahead and not CONTEXT.ahead:
                fragment = self.by_kind[kind] = fitting(name_of(key), tensors, fragment.ready)
        except KeyError:
            fragment = None
            if kind not in self.beyond:
                fragment = self.opened(key, tensors, numbers, looked)
                if fragment is None and self.is_among_first(key, tensors, kind):
                    fragment = self.make(key, tensors, numbers, fn)
            if kind not in self.beyond:
                self.by_kind[kind] = fragment
            if fragment is not None and tensors and tensors[0]._array.__class__ in DEVICE_LAYOUTS:
                del NEW_ON_DEVICE[: -FEW_NEW + 1]
                NEW_ON_DEVICE.append(key[0])
        except TypeError:  # something in it has no hash
            return None
        if CONTEXT.ahead:
            return None
        if quick is not None:
            if len(self.quick) >= KEPT:
                self.quick.clear()
            self.quick[quick] = fragment
        if fragment is None:
            return None
        try:
            return fragment(tensors, numbers)
        except MemoryError:
            raise
        except (RuntimeError, IndexError):
            # The operation as it is says what is wrong with its operands, in its own words. If it
            # finds nothing wrong, the fragment is at fault (`validate` says so), which is told.
            with CONTEXT.having(grad_enabled=False, reference=True, autocast=None):
                fn(numbers)
            raise

    def is_among_first(self, key: Any, tensors: Sequence[Tensor], kind: Any) -> bool:
        """Whether a new kind is one of as many shapes of its operation as get fragments."""
        family = of_any_shape(key, tensors)
        count = self.shapes[family] = self.shapes.get(family, 0) + 1
        if count <= most_shapes(key[0], tensors):
            return True
        if len(self.beyond) >= KEPT:
            self.beyond.clear()
        self.beyond.add(kind)
        return False

    def opened(
        self, key: Any, tensors: Sequence[Tensor], numbers: Sequence[float], looked: Looked
    ) -> Fragment | None:
        """A fragment that is one of many (Note [open kinds])."""
        while len(self.by_kind) >= KEPT:
            self.by_kind.popitem(last=False)
        count = self.shapes.get(of_any_shape(key, tensors), 0)
        # Beyond, the disk must not decide which kinds have fragments.
        by_itself = count < most_shapes(key[0], tensors)
        kept = partial(self.kept, key, tensors, numbers) if by_itself else no_fragment
        try:
            return self.open.find(key[0], looked, tensors, numbers, self.shared, kept)
        except Unfit:
            return None
        except MemoryError:
            raise
        except Exception as error:
            if raised_outside(error):
                raise
            warn_user(
                f"{name_of(key)}: could not be compiled for many sizes, and is for each by itself, "
                f"which is slower. {type(error).__name__}: {error}"
            )
            return None

    def kept(
        self, key: Any, tensors: Sequence[Tensor], numbers: Sequence[float]
    ) -> Fragment | None:
        """The fragment of a kind that is on disk; `Unfit` where it is known to have none."""
        name = None if LISTENERS else kept_kinds.name_of(key, tensors, numbers)
        if name is None:
            return None
        known = fitting(name_of(key), tensors, lambda: kept_kinds.found(name, self.shared))
        if known is False:
            raise Unfit
        if known is not None:
            put_workers_first(self.shared)
        return known

    def make(
        self, key: Any, tensors: Sequence[Tensor], numbers: Sequence[float], fn: Work
    ) -> Fragment | None:
        """A fragment, if the operation can be one: from disk, where its kind has a name there."""
        try:
            known = self.kept(key, tensors, numbers)
        except Unfit:
            return None
        if known is not None:
            return known
        name = kept_kinds.name_of(key, tensors, numbers)

        def recorded() -> Fragment:
            compiled = brought("adjoint.engine.graph.eager.recorded").compiled
            try:
                fragment: Fragment = compiled(tensors, numbers, fn, self.shared)
                return fragment
            except Unfit as unfit:
                if name is not None:
                    kept_kinds.keep_unfit(name, unfit)
                raise

        with HOOKS.keep_together():
            made = fitting(name_of(key), tensors, recorded)
            if name is not None and made is not None:
                kept_kinds.keep(name, made)
        return made

    def expect_rules(self, record: Record, out: Any) -> None:
        """Note the node that made a result, if a kind on a GPU was new to its operation."""
        is_new = any(known is record for known in NEW_ON_DEVICE)
        NEW_ON_DEVICE.clear()
        node = out._node
        array = out._array
        if not is_new or array.__class__ not in DEVICE_LAYOUTS or len(EXPECTED) >= KEPT:
            return
        if isinstance(node, RecordNode):
            like = array.shape, array.strides, out._spec
            EXPECTED.append((weakref.ref(node), *like))

    def make_expected(self) -> None:
        """Make the fragments of noted nodes' rules (Note [rules ahead])."""
        expected = EXPECTED[:]
        EXPECTED.clear()
        with CONTEXT.having(ahead=True):
            for known, shape, steps, spec in reversed(expected):
                node = known()
                if node is None:
                    continue
                item = spec.dtype.itemsize
                strides = [step // item for step in steps]
                try:
                    g = empty_strided(shape, strides, dtype=spec.dtype, device=spec.device)
                    node.expect(g)
                except Exception as error:  # whatever it is, the backward meets it
                    if raised_outside(error):
                        raise
        NEW_ON_DEVICE.clear()

    def forget(self) -> None:
        """Make every fragment anew."""
        EXPECTED.clear()
        self.by_kind.clear()
        self.shapes.clear()
        self.beyond.clear()
        self.quick.clear()
        self.sightings.counts.clear()
        self.open.forget()
        forget()

    def forward_on_device(
        self, record: Record, operands: tuple[Any, ...], params: dict[str, Any]
    ) -> Any:
        """`forward` on a GPU (Note [quick keys])."""
        if record.selects or record.name in MOVING:
            words = as_device_words(record, operands)
            if words is not None:
                out = self.forward_on_device(record, words, params)
                return None if out is None else wrap(out._array.view(complex64))
        # A composite that is differentiated part by part is a fragment only off the tape.
        if not record.one_node and CONTEXT.grad_enabled and is_tracked(operands):
            return None
        key: list[Any] = [record, switches.computed_with]
        tensors: list[Tensor] = []
        numbers: list[float] = []
        given = self.given.get(record) or self.given.setdefault(record, given_kind(record))
        if not add_operands(key, operands, given, tensors, numbers) or (
            params and not add_params(key, params)
        ):
            return (
                self.described(record, operands, params) if fits(record, operands, params) else None
            )
        quick = tuple(key)
        try:
            fragment = self.quick[quick]
        except KeyError:
            if not fits(record, operands, params):
                return None
            parts = record.compose if record.of_rows else None
            return self.described(record, operands, params, quick, parts)
        if fragment is None:
            return None
        if not fragment.is_settled:
            fragment.settle_on_device(given, (record, operands, params, switches.computed_with))
        try:
            return fragment(tensors, numbers)
        except MemoryError:
            raise
        except (RuntimeError, IndexError):
            return self.described(record, operands, params)  # which says what is wrong

    def compute_into(self, record: Record, target: Tensor, *others: Any) -> bool:
        """record(target, ...) in the memory of `target` on a GPU, if its fragment can do that.

        Each of its elements is read before it is written, by the same thread.
        """
        key: list[Any] = [record, switches.computed_with]
        tensors: list[Tensor] = []
        numbers: list[float] = []
        given = self.given.get(record) or self.given.setdefault(record, given_kind(record))
        if not add_operands(key, (target, *others), given, tensors, numbers):
            return False
        fragment = self.quick.get(tuple(key))
        if fragment is None:
            return False
        if not fragment.is_settled:
            owned: Any = (record, (target, *others), {}, switches.computed_with)
            fragment.settle_on_device(given, owned)
        return fragment.compute_into(target._array, tensors, numbers)

    def run_quickly(
        self,
        key: tuple[Any, ...],
        values: Sequence[Any],
        again: Callable[[Any], Any],
        owned: Owned,
    ) -> Any:
        """The rules of a node, decided by `key` and `values`; None: call them.

        The key begins with a plan, specs and which results are needed, then has parameters by name.
        """
        *first, params = key
        quick_key: list[Any] = [*first, switches.computed_with]
        tensors: list[Tensor] = []
        if not add_operands(quick_key, values, type(Ellipsis), tensors, []) or (
            params and not add_params(quick_key, params)
        ):
            return again(None)
        quick = tuple(quick_key)
        try:
            fragment = self.quick[quick]
        except KeyError:
            return again(quick)
        except TypeError:  # something in it has no hash
            return again(None)
        if fragment is None:
            return None
        if LISTENERS and fragment.is_unrecorded:
            return again(quick)
        if not fragment.is_settled:
            if tensors[0]._array.__class__ is ndarray:
                fragment.settle((), owned)
            elif fragment.structure is not None:
                plan, given, own, rest = owned
                whole = (plan, given, own, (switches.computed_with, *rest))
                fragment.settle_on_device(type(Ellipsis), whole)
        try:
            return fragment(tensors, ())
        except MemoryError:
            raise
        except (RuntimeError, IndexError):
            return again(None)

    def forward(self, record: Record, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """The results of a large operation, without the tape; None where it runs as it is.

        All of its tensors are the CPU's.
        """
        if record.selects or record.name in MOVING:
            words = as_words(record, operands)
            if words is not None:
                out = self.forward(record, words, params)
                return None if out is None else wrap(out._array.view(complex64))
        elif record.name in PARTED:
            parts = as_parts(operands)
            if parts is not None:
                out = self.forward(record, parts, params)
                kind = operands[0]._array.dtype
                return None if out is None else wrap(out._array.view(kind)[..., 0])
        elif record.name == "sum":
            out = summed_as_reals(record, operands[0], **params)
            if out is not None or is_left_to_numpy(operands[0]):
                return out
        key: list[Any] = [record]
        tensors: list[Tensor] = []
        numbers: list[float] = []
        given = self.given.get(record) or self.given.setdefault(record, given_kind(record))
        if not add_operands(key, operands, given, tensors, numbers) or (
            params and not add_params(key, params)
        ):
            if record.family == "elementwise" and any(x.__class__ is complex for x in operands):
                return None  # as of tensors of them: NumPy is quicker
            return self.described(record, operands, params)
        quick = tuple(key)
        try:
            fragment = self.quick[quick]
        except KeyError:
            if self.sightings.waits(record, quick, tensors, params):
                return None
            return self.described(record, operands, params, quick)
        if fragment is None:
            return None
        if LISTENERS and fragment.is_unrecorded:
            return self.described(record, operands, params, quick)
        if not fragment.is_settled:
            fragment.settle(numbers, (record, operands, params, None))
        try:
            return fragment(tensors, numbers)
        except MemoryError:
            raise
        except (RuntimeError, IndexError):
            return self.described(record, operands, params)  # which says what is wrong

    def described(
        self,
        record: Record,
        operands: tuple[Any, ...],
        params: dict[str, Any],
        quick: Any = None,
        call: Callable[..., Any] | None = None,
    ) -> Any:
        """`forward`, by all that may be looked at; `call` is what is recorded, if not `record`."""
        given = given_kind(record)
        tensors: list[Tensor] = []
        numbers: list[Any] = []
        literals: list[Any] = []  # what stands in the place of each operand
        for x in operands:
            if isinstance(x, Tensor):
                tensors.append(x)
                literals.append(None)
            elif type(x) is given:
                numbers.append(x)
                literals.append(float)  # to be given
            else:
                literals.append((frozen(x),))
        key = (record, *literals, frozen(params)) if params else (record, *literals)

        def work(others: Sequence[Tensor], rest: Any, hosts: Sequence[Any]) -> Any:
            left, tensors_left = iter(hosts), iter(others)
            known, own = rest
            given = [
                next(left) if literal is float else next(tensors_left) if literal is None else x
                for literal, x in zip(literals, known, strict=True)
            ]
            return (call or record)(*given, **own)

        rest = [
            "a number" if literal is float else None if literal is None else x
            for literal, x in zip(literals, operands, strict=True)
        ]
        looked = Looked((rest, params), work)
        return self.find(
            key, tensors, numbers, lambda hosts: work(tensors, looked.leaves, hosts), looked, quick
        )


def is_tracked(operands: tuple[Any, ...]) -> bool:
    """Whether the tape is to know of an operation."""
    return any(x.requires_grad for x in operands if is_tensor(x))


def fits(record: Record, operands: tuple[Any, ...], params: dict[str, Any]) -> bool:
    """Whether an operation on a GPU may be a fragment: all of it is there."""
    most = prod(params["shape"]) if record.creates else 0
    for x in operands:
        if is_tensor(x):
            array = x._array
            if array.__class__ not in DEVICE_LAYOUTS:
                return False  # on the host
            if array.dtype.names is not None and not record.reads_float8:
                return False  # of float8
            most = max(most, array.size)
        elif type(x) is HostScalar:
            return False
    if record.by_table is not None and record.by_table(operands, params):
        return False
    return record.on_device <= most


def layout(tensors: Sequence[Tensor]) -> list[Any]:
    """How tensors lie: all that a recording may look at, and which of them are the same."""
    description = kinds(tensors)
    if len(tensors) > 1:
        names = [*map(id, tensors)]
        description += map(names.index, names)
    return description


def kinds(tensors: Sequence[Tensor]) -> list[Any]:
    """How each tensor lies, whichever tensor it is."""
    arrays = [t._array for t in tensors]
    description = [
        (a.dtype, a.shape, a.strides) if a.__class__ is ndarray else elsewhere(a) for a in arrays
    ]
    if arrays and arrays[0].__class__ is not ndarray:
        description.append(switches.computed_with)
    return description


def elsewhere(array: Any) -> tuple[Any, ...]:
    """How an array lies that is not the CPU's."""
    if array.__class__ in DEVICE_LAYOUTS:
        return array.dtype, array.shape, array.strides, *DEVICE_LAYOUTS[array.__class__](array)
    return array.dtype, array.shape, array.strides, DEVICE_OF[array.__class__](array)


FRAGMENTS = Fragments()
DEFAULT_LISTENERS.append(FRAGMENTS.forget)  # recordings depend on the default dtype
HOOKS.fragments = FRAGMENTS
