"""Times of a program's kernels on the GPU, and their texts, for profiles and pages.

While somebody listens, another graph is replayed, which has marks between the launches. Where there
is none yet, or marks cannot be part of graphs, launches are made one by one. The GPU is then held
up first, for as long as it takes to ask for all of them: else the marks would show how fast the
host asks.

Marks are read when their bank's turn comes again, or when the profile ends: were they waited for at
once, the GPU would have nothing to do while the host reads them and prepares the next call.
"""

from __future__ import annotations

from itertools import accumulate
from time import perf_counter_ns
from typing import Any

from adjoint.engine.backends.triton.launch_words import Written
from adjoint.engine.backends.triton.program.banks import CAPTURED
from adjoint.engine.compiler.package.draft import Draft, concrete
from adjoint.engine.compiler.schedule.steps import Launch, label_text
from adjoint.engine.core.state.timeline import LISTENERS, UNTOLD, Ran, keep_least

ASKING = 20  # microseconds that it takes to ask for a launch and a mark
NANO = 1_000_000  # nanoseconds of a millisecond, in which marks are apart


class LaunchClock:
    """The times of one call's launches."""

    def __init__(self, program: Any, bank: int) -> None:
        self.program, self.machine = program, program.machine
        self.seen: list[tuple[int, int, Any, list[Any]]] = []
        self.listeners = [listener.later() for listener in LISTENERS]
        before = program.clocks.pop(bank, None)
        if before is not None:
            before.tell()  # its marks are about to be made anew
        program.clocks[bank] = self
        UNTOLD.append(self.tell)

    def run(self, number: int, segment: Any, bank: int) -> None:
        """Launch a segment, with marks."""
        if segment.before:
            segment.before[bank]()
        machine, launches = self.machine, segment.launches[bank]
        if segment.marked[bank] is None and sum(segment.runs) > 1 and len(launches) >= CAPTURED:
            segment.marked[bank] = machine.marked_graph(launches) or ()
        if segment.marked[bank]:
            replay, marks = segment.marked[bank]
            self.seen.append((number, perf_counter_ns(), None, marks))
            replay()
            self.end(segment, bank)
            return
        segment.runs[bank] += 1
        started, begin = perf_counter_ns(), machine.timer()
        machine.hold(ASKING * len(launches))
        marks = [machine.timer()]
        for launch, words in launches:
            launch(words)
            marks.append(machine.timer())
        self.seen.append((number, started, begin, marks))
        self.end(segment, bank)

    @staticmethod
    def end(segment: Any, bank: int) -> None:
        """What follows the last launch."""
        if segment.after:
            segment.after[bank]()

    def tell(self) -> None:
        """Wait for the GPU, and tell those who listen."""
        if self.tell in UNTOLD:
            UNTOLD.remove(self.tell)
        seen, self.seen = self.seen, []
        for number, started, begin, marks in seen:
            waited_seconds = 0.0 if begin is None else self.machine.spans([begin, marks[0]])[0]
            took = [int(span * NANO) for span in self.machine.spans(marks)]
            starts = list(accumulate(took, initial=started))
            times = [word for at, span in zip(starts, took, strict=False) for word in (at, span, 1)]
            for k, span in enumerate(took):
                keep_least(self.program.least_times, (number, k), (span, 1))
            waited = int(waited_seconds * NANO)
            run = Ran(self.program, number, started, starts[-1], times, self.machine.name, waited)
            for tell in self.listeners:
                tell(run)


class Showing:
    """What shows itself as the program on the GPU that it holds."""

    shown: Any

    def explain(self) -> str:
        """What the program does, step by step."""
        return str(self.shown.explain())

    def drafted(self) -> Any:
        """Its plan's words."""
        return self.shown.drafted()

    def sources(self) -> dict[str, str]:
        """The texts of its kernels."""
        return dict(self.shown.sources())

    @property
    def least_times(self) -> Any:
        """The least times of its launches."""
        return self.shown.least_times


def sources_of(draft: Draft) -> dict[str, str]:
    """The text of every kernel, by name."""
    texts: dict[str, str] = {}
    for segment in draft.segments:
        for name, _, entry in segment or ():
            if isinstance(entry, Launch):
                label = label_text(entry.label, concrete({}))
                product = f"# {label}: a matrix product, by cuBLASLt"
                texts[name] = entry.text.source if isinstance(entry.text, Written) else product
    return texts
