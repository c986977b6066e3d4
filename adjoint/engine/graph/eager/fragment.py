"""One fragment: a compiled operation, and when native code is to find it (Note [fragments])."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.errors import raised_outside
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.state.timeline import LISTENERS
from adjoint.engine.graph.eager.enlisted import Owned, enlist, enlist_on_device
from adjoint.engine.tensor.tensor import Tensor, wrap

if TYPE_CHECKING:
    from adjoint.engine.graph.execution import Executable

Work = Callable[[Sequence[Any]], Any]  # an operation, given the host's numbers
OFTEN = 8  # calls after which native code finds a small one
AGAIN = 4  # calls after which it finds one on a GPU, which is not tried first


class Unfit(Exception):
    """An operation that gains nothing by being compiled, or cannot be."""


def put_workers_first(shared: dict[str, Any]) -> None:
    """Leave the cores to the workers of programs, from the first fragment on."""
    if not shared.get("workers"):
        shared["workers"] = True
        HOOKS.put_workers_first()


class Result:
    """Which output a result is, and how its dimensions lie in it."""

    # Neither a named tuple nor a dataclass: see `Fragment`.
    __slots__ = ("order", "output", "shape")

    def __init__(
        self,
        output: int,
        order: tuple[int, ...] | None,
        shape: tuple[int, ...] | None = None,
    ) -> None:
        self.output = output
        self.order = order  # None: as they come
        self.shape = shape  # None: as it is

    @property
    def as_made(self) -> bool:
        """Whether it is an output just as the program makes it."""
        return self.order is None and self.shape is None

    def of(self, arrays: Sequence[Any]) -> Tensor:
        array = arrays[self.output]
        if self.shape is not None:
            array = array.reshape(self.shape)
        return wrap(array if self.order is None else array.transpose(self.order))


def at_sizes(results: Sequence[Result | None], numbers: Iterator[int]) -> tuple[Result | None, ...]:
    """Results that have shapes, with these numbers in the place of their sizes."""
    return tuple(
        [
            r if r is None or r.shape is None
            else Result(r.output, r.order, tuple([next(numbers) for _ in r.shape]))
            for r in results
        ]
    )  # fmt: skip


class Fragment:
    """A compiled operation for operands of one kind."""

    # No dataclass: to write one takes as long as to load some modules (Note [loaded fragments]).
    __slots__ = (
        "built", "calls", "executable", "flops", "in_order", "is_settled", "is_unrecorded",
        "places", "results", "structure", "what",
    )  # fmt: skip

    def __init__(
        self,
        executable: Executable,
        places: tuple[int, ...],
        results: tuple[Result | None, ...],
        structure: Any,
        what: str,
        built: Callable[[list[Any]], Any],
        in_order: bool,
        flops: int,
        is_unrecorded: bool = False,
    ) -> None:
        self.executable = executable
        self.places = places  # which of the tensors and, after them, numbers are its inputs
        self.results = results
        self.structure = structure  # None: the first result alone
        self.what = what  # the operations it is made of, for people
        self.built = built  # what holds several results
        self.in_order = in_order  # whether the inputs are just the tensors and numbers
        self.flops = flops
        self.calls = 0  # while it is not decided whether native code is to find it
        self.is_settled = False  # that is decided
        self.is_unrecorded = is_unrecorded  # found by its kind's name (Note [kept kinds])

    def __call__(self, tensors: Sequence[Tensor], numbers: Sequence[float]) -> Any:
        given = [t._array for t in tensors]
        if numbers:
            given += numbers
        for listener in LISTENERS:
            listener.computed(self.flops)
        arrays = self.executable(given if self.in_order else [given[k] for k in self.places], [])
        if self.structure is None:
            return self.results[0].of(arrays)  # type: ignore[union-attr]
        results = [None if result is None else result.of(arrays) for result in self.results]
        return self.built(results)

    @property
    def is_ahead(self) -> bool:
        """Whether what it launches was asked for and is not there yet (Note [rules ahead])."""
        return bool(getattr(self.executable, "is_ahead", False))

    def ready(self) -> Fragment:
        """The same once what it launches is there."""
        self.executable.ready()  # type: ignore[attr-defined]
        return self

    def compute_into(self, array: Any, tensors: Sequence[Tensor], numbers: Sequence[float]) -> bool:
        """Put the only result into memory that is there, if it lies as the program makes it."""
        fits = getattr(self.executable, "fits", None)
        if fits is None or self.structure is not None or not fits(array):
            return False
        if not self.results[0].as_made:  # type: ignore[union-attr]
            return False
        given = [t._array for t in tensors]
        given += numbers
        self.executable(given if self.in_order else [given[k] for k in self.places], [array])
        return True

    def settle(self, numbers: Sequence[Any], owned: Owned) -> None:
        """After many calls, have native code find it if it is small (Note [met fragments])."""
        self.calls += 1
        if self.calls < OFTEN:
            return
        self.is_settled = True
        try:
            entry = self.entry(numbers, owned)
        except Exception as error:  # whatever it is, calls go on as before
            if raised_outside(error):
                raise
            return
        if entry is not None:
            enlist(owned[0], entry)

    def entry(self, numbers: Sequence[Any], owned: Owned) -> tuple[Any, ...] | None:
        """What native code finds it by; None where it cannot."""
        simple = self.structure is None or self.structure.kind in (tuple, list)
        if not simple or any(r is not None and r.shape is not None for r in self.results):
            return None
        gaps = [r is not None for r in self.results]
        orders = [r.order for r in self.results if r is not None]
        entry: tuple[Any, ...] | None = HOOKS.small_launches(
            self.executable, self.places, numbers, owned, gaps, orders
        )
        return entry

    def settle_on_device(self, given: type, owned: Owned) -> None:
        """After some calls, have native code find it on a GPU (Note [met launches])."""
        self.calls += 1
        if self.calls < AGAIN:
            return
        self.is_settled = True
        call = getattr(self.executable, "native", None)
        simple = self.structure is None or self.structure.kind in (tuple, list)
        if call is None or not simple or any(r is not None and not r.as_made for r in self.results):
            return
        gaps = [r is not None for r in self.results]
        single = self.structure is None
        entry = HOOKS.device_entry(call, self.places, given, owned, gaps, single)
        if entry is not None:
            enlist_on_device(owned[0], entry)
