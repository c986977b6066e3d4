"""Looking at a compiled function: its recordings, guards, graph, steps and picture."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from typing import Any

from adjoint.engine.capture.breaks import Breaks
from adjoint.engine.capture.dynamic.dynamic import Families
from adjoint.engine.capture.program.program import Program
from adjoint.engine.capture.program.recipes import OutsideTensor
from adjoint.engine.capture.python.plain import short
from adjoint.engine.capture.recordings.history import history
from adjoint.engine.capture.recordings.retracing import Retraces
from adjoint.engine.core.html import code, folded
from adjoint.engine.core.state.timeline import timed_runs
from adjoint.engine.graph.drawing.svg import to_svg
from adjoint.engine.graph.ir import DataflowGraph

TIMED = 3  # calls for a page: one alone may be held up by whatever else runs
# How a page is written: the compiler puts it here.
PAGES: dict[str, Callable[[str | os.PathLike[str], Any], None]] = {}


class Inspection:
    """What a compiled function can be asked about its programs."""

    breaks: Breaks
    families: Families
    programs: dict[Any, list[Program]]
    retraces: Retraces
    traces: int
    _latest: Program | None
    __call__: Callable[..., Any]

    @property
    def latest(self) -> Program:
        """The program made last."""
        if self._latest is None:
            why = f"Python did its calls: {self.breaks.reasons[-1]}" if self.breaks.reasons else ""
            raise RuntimeError(
                f"compile: nothing is recorded of {self.families.name}. "
                + (why or "It has not been called yet.")
            )
        return self._latest

    def __repr__(self) -> str:
        """What it is, and how often it was recorded."""
        count = sum(map(len, self.programs.values()))
        programs = f"{count} program{'s' * (count != 1)}, recorded {self.traces} time"
        state = programs + "s" * (self.traces != 1) if count else "not called yet"
        return f"<compiled {self.families.name}: {state}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: recordings, steps and guards, each behind a click."""
        if self._latest is None:
            return code(repr(self))
        parts = {"recordings": self.recordings(), "steps": self.latest.explain()}
        inside = "".join(folded(name, code(text)) for name, text in parts.items())
        return folded(repr(self)[1:-1], inside, opened=True)

    def recordings(self) -> str:
        """The recordings there are: for which arguments, why, and what runs them.

        >>> import adjoint as ad
        >>> from adjoint.graph import capture
        >>> f = capture(lambda x: x.sin() + 1)
        >>> _ = f(ad.ones(3)), f(ad.ones(4))
        >>> print(f.recordings())
        <lambda>: 2 programs, recorded 2 times
        1. x float32[3]
           2 nodes; inputs: 1 argument; run by Interpreted
        2. x float32[4]
           recorded because dimension 0 of x takes the sizes 3, 4; recorded with free sizes
           from a recording with dynamic sizes; 2 nodes; inputs: 1 argument; run by Interpreted
        """
        lines = history(self.families.name, self.programs, self.retraces, self.traces)
        lines += [f"each size by itself: {reason}" for reason in self.families.reasons]
        return "\n".join([*lines, *[f"ran as Python: {reason}" for reason in self.breaks.reasons]])

    def guards(self) -> str:
        """What the latest program depends on: places, what they held, and the lines that read them.

        Of `ad.compile(lambda x: x * rates["lr"])` a line says: the variable rates['lr'] is 0.5.
        """
        conditions = self.latest.conditions
        lines = [str(guard) for guard in conditions.guards.entries]
        tests = [f"{test.name} gives {outcome!r}" for test, outcome in conditions.host_tests]
        looks = [_question(*look) for look in conditions.looks]
        return "\n".join([*lines, *tests, *looks])

    @property
    def graph(self) -> DataflowGraph:
        """The latest program's graph; `print` shows it as Python, a notebook as a picture."""
        return self.latest.graph

    def graph_text(self) -> str:
        """The latest program's graph as Python."""
        return self.latest.text()

    def explain(
        self, html: str | os.PathLike[str] | None = None, run: tuple[Any, ...] | None = None
    ) -> str:
        """What the latest program runs as: its steps, and why fusion stopped where it did.

        Args:
            html: also write a page there, one file that opens without a network: the model as a
                graph of modules, kernels with times, memory, guards, generated code.
            run: arguments to call the function with, three times, so that the page has times of
                kernels: the least that each took. Without, those of calls that a profiler saw.

        >>> import adjoint as ad
        >>> double = ad.compile(lambda x: (x * 2 + 1).exp())
        >>> _ = double(ad.ones(3))
        >>> print(double.explain().splitlines()[0][:47])
        1 steps: 1 launches of fused kernels, 0 of temp
        """
        if run is not None:
            for _ in range(TIMED):
                with timed_runs():
                    self(*run)
        if html is not None:
            PAGES["html"](html, self)
        each = [f"\neach size is recorded by itself: {r}" for r in self.families.reasons]
        return self.latest.explain() + "".join(each)

    def svg(self, expand: Collection[str] | bool = ()) -> str:
        """The latest program's graph as a picture; `expand` names composites to look into."""
        return to_svg(self.latest.graph, expand)


def _question(ref: OutsideTensor, read: Callable[[Any], Any], answer: Any) -> str:
    """What was asked of a tensor, in words."""
    whose = "a tensor from outside" if ref.position is None else f"argument {ref.position}"
    return f"{read.__name__.strip('_')} of {whose} is {short(answer)}"
