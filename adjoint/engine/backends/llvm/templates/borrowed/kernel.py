"""The kernel that calls an inner loop of a universal function on its share of a batch.

Note [borrowed loops]
    Eager mode has its eigenvalues, singular values and Bessel functions from NumPy and SciPy. What
    these call for elements of one dtype is a plain C function, `void f(char **places, intp *sizes,
    intp *steps, void *data)`, which asks nothing of Python; programs call it by its address. So
    results are eager mode's to the last bit, and matrices of a batch go to all workers; a single
    large one has the threads of NumPy's own library.

    Where LAPACK does not come to an end, NumPy's loop writes NaN. Matrices that hold one themselves
    are refused before, as eager mode refuses them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from adjoint.engine.backends.llvm.ir.words import LaunchWords
from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.backends.llvm.runtime.faults import store_fault
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.registers.vector import V, select


@dataclass(slots=True)
class LoopWords(LaunchWords):
    """What every call is told; places, steps and sizes follow, as many as the loop has."""

    function: Any
    data: Any
    count: Any  # of matrices, or of elements
    # Of matrices that are looked at: elements of one, and of what is found; what is said of one
    # that is not finite, and of one of which nothing was found.
    given: Any = 0
    found: Any = 0
    unfit: Any = 0
    failed: Any = 0
    status: Any = 0
    threads: Any = 0  # what sets the number of the library's threads, where that is wanted


def with_threads(w: CodeWriter, setter: V, here: V, body: Callable[[], object]) -> None:
    """Do something, if there is any `here`, with as many of a library's threads as workers."""
    workers = w.code.value("%workers", "i64", 1)

    def use(count: V) -> None:
        number = count.convert("i32").ref
        w.code.lines.append(f"call void {w.pointer(setter)}(i32 {number})")

    wanted = here & ~setter.eq(0)
    w.when(wanted, lambda: use(workers))
    body()
    w.when(wanted, lambda: use(w.whole(1)))


@dataclass(frozen=True, slots=True)
class LoopForm:
    """What decides the text of a call."""

    places: int
    sizes: int  # besides how many there are
    steps: int
    looked_at: str = ""  # the kind of elements of the first place, if these must be finite
    told: int = 0  # the place that holds NaN where nothing was found

    @property
    def function(self) -> str:
        """The name of the kernel."""
        looked = f"_{self.looked_at}_{self.told}" if self.looked_at else ""
        return f"borrowed_{self.places}_{self.sizes}_{self.steps}{looked}"


class LoopCall:
    """Writes the kernel of a form."""

    def __init__(self, form: LoopForm) -> None:
        self.form, self.w = form, CodeWriter()
        self.word = LoopWords.read_by(self.w)
        first = LoopWords.word_count()
        self.at_steps = first + form.places
        self.places = [self.w.word(first + k) for k in range(form.places)]
        self.steps = [self.w.word(self.at_steps + k) for k in range(form.places)]
        self.sizes = [self.w.word(self.at_steps + form.steps + k) for k in range(form.sizes)]

    def text(self, name: str) -> Text:
        low, high = self.w.share(self.word.count)
        if self.form.looked_at:
            self.looked(low, high)
        else:
            self.w.when(high > low, lambda: self.call(low, high))
        return self.w.finish(name)

    def call(self, low: V, high: V) -> None:
        """The loop itself."""
        w, form = self.w, self.form
        places, sizes = w.reserve("i64", form.places), w.reserve("i64", form.sizes + 1)
        for k, (place, step) in enumerate(zip(self.places, self.steps, strict=True)):
            w.store(place + low * step, places, w.whole(k))
        for k, size in enumerate([high - low, *self.sizes]):
            w.store(size, sizes, w.whole(k))
        steps = w.at("%args", "i64", w.whole(self.at_steps))
        function, data = w.pointer(self.word.function), w.pointer(self.word.data)
        w.code.lines.append(
            f"call void {function}(ptr {places}, ptr {sizes}, ptr {steps}, ptr {data})"
        )

    # -- what cannot be treated -----------------------------------------------------------------

    def looked(self, low: V, high: V) -> None:
        """The call of a share all of whose matrices are finite, and a look at what was found."""
        w, told = self.w, self.form.told

        def unfit(p: V, any_yet: V) -> list[V]:
            bad = self.is_any(self.start(0, p), self.word.given, lambda x: ~(x - x).eq(0.0))
            w.when(bad, lambda: self.fail(self.word.unfit, p))
            return [select(bad, 1, any_yet)]

        def found(p: V) -> None:
            bad = self.is_any(self.start(told, p), self.word.found, lambda x: ~x.eq(x))
            w.when(bad, lambda: self.fail(self.word.failed, p))

        def fit() -> None:
            w.loop(low, high, lambda p: self.forget(self.start(told, p)))
            with_threads(w, self.word.threads, high > low, lambda: self.call(low, high))
            w.loop(low, high, found)

        (bad,) = w.loop(low, high, unfit, [w.whole(0)])
        w.when((high > low) & bad.eq(0), fit)

    def start(self, k: int, p: V) -> str:
        """Where a matrix begins."""
        return self.w.pointer(self.places[k] + p * self.steps[k])

    def is_any(self, start: str, count: V, test: Any) -> V:
        """Whether any of the elements passes a test."""
        w, kind = self.w, self.form.looked_at
        (number,) = w.loop(
            0, count,
            lambda i, n: [select(test(w.load(start, kind, i)), 1, n)],
            [w.whole(0)],
        )  # fmt: skip
        return ~number.eq(0)

    def forget(self, start: str) -> None:
        """NaN where a loop without memory to work in would leave what there was."""
        w, kind = self.w, self.form.looked_at
        nan = w.code.const(float("nan"), kind)
        w.loop(0, self.word.found, lambda i: w.store(nan, start, i))

    def fail(self, fault: V, which: V) -> None:
        w = self.w
        store_fault(w.code, w.pointer(self.word.status), fault.ref, at=which)
