"""Stand-ins for parts of the engine that are loaded when something first needs them."""

from __future__ import annotations

from typing import Any

from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.state.loading import brought


class FragmentsLater:
    """Stands for `graph.eager.fragments` until the first large operation."""

    def forward(self, *args: Any) -> Any:
        """Load it, and have it do the same."""
        return brought("adjoint.engine.graph.eager.fragments").FRAGMENTS.forward(*args)

    def forward_on_device(self, *args: Any) -> Any:
        """Load it, and have it do the same."""
        return brought("adjoint.engine.graph.eager.fragments").FRAGMENTS.forward_on_device(*args)

    def compute_into(self, *args: Any) -> bool:
        """Nothing: none was met before."""
        return False

    def run_quickly(self, *args: Any) -> Any:
        """Load it, and have it do the same."""
        return brought("adjoint.engine.graph.eager.fragments").FRAGMENTS.run_quickly(*args)

    def run(self, *args: Any) -> Any:
        """Load it, and have it do the same."""
        return brought("adjoint.engine.graph.eager.fragments").FRAGMENTS.run(*args)


class StraightLater:
    """Stands for `graph.eager.straight` until there were some small composites."""

    COMPOSITES = 64  # run as they are first: loading takes as long as hundreds of them

    def __init__(self) -> None:
        self.count = 0

    def forward(self, *args: Any) -> Any:
        """None: as it is; in the end load the programs, which take this one's place."""
        self.count += 1
        return self.loaded().forward(*args) if self.count > self.COMPOSITES else None

    def run(self, *args: Any) -> Any:
        """The same of a rule."""
        self.count += 1
        return self.loaded().run(*args) if self.count > self.COMPOSITES else None

    def forget(self) -> None:
        """As if there had been none."""
        self.count = 0

    @staticmethod
    def loaded() -> Any:
        """The programs."""
        return brought("adjoint.engine.graph.eager.straight").STRAIGHT


class SmallCallsLater:
    """Stands for `graph.eager.small_calls` until some calls on few elements were noted."""

    NOTED = 64  # before any is looked at: there are to be twice as many when programs are made

    def __init__(self) -> None:
        self.count = 0

    def note(self, *args: Any) -> None:
        """Nothing at first; in the end load what makes programs, which takes this one's place."""
        self.count += 1
        if self.count > self.NOTED or HOOKS.small_code:
            StraightLater.loaded()
            small_calls = brought("adjoint.engine.graph.eager.small_calls")
            small_calls.PROGRAMS.sighted += self.count - 1
            small_calls.note(*args)


class TapedCallsLater:
    """Stands for `graph.higher.on_tape` until native code looks for calls."""

    @staticmethod
    def note(*args: Any) -> None:
        """Nothing at first: there is nothing yet that would find one."""
        if HOOKS.small_call_code:
            on_tape = brought("adjoint.engine.graph.higher.on_tape")
            HOOKS.note_taped = on_tape.note
            on_tape.note(*args)


class UpdatesLater:
    """Stands for `graph.eager.updates` until the first update of something large."""

    def run(self, *args: Any) -> Any:
        """Load it, and have it do the same."""
        return brought("adjoint.engine.graph.eager.updates").UPDATES.run(*args)
