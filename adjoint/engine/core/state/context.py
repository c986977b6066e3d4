"""The per-thread context: the only ambient state.

Everything an operation consults besides its operands is here: grad mode, autocast, the stack of
transform levels and the active capture. `plain` is the conjunction the fast path tests once.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from adjoint.engine.core.operations.levels import Level


# Versions of inference tensors count up from here, so that one comparison finds them out.
INFERENCE_VERSION = -(1 << 62)
# The fields that `plain` is about,
_SETTLING = frozenset(  # but autocast, which `settled` leaves aside
    "levels capture anomaly inference saved_hooks reference observers takers".split()
)


class Context(threading.local):
    """What the current thread is doing. Use `CONTEXT`, the one instance."""

    # Class attributes are the defaults a new thread starts with.
    plain: bool = True  # nothing below is on but grad mode: the fast path applies
    settled: bool = True  # the same, autocast left aside
    inferring: bool = False  # inference mode is on: without it, it would be settled
    grad_enabled: bool = True
    inference: bool = False
    levels: tuple[Level, ...] = ()
    capture: Any = None
    recording: bool = False  # a step is: what runs beside it, to make its state, runs once
    autocast: Any = None  # casts operands; None where it is off for every device
    autocast_settings: Any = None  # what `amp` was told, by device; None is the default
    anomaly: bool = False
    device: Any = None  # of new tensors; None is the CPU
    devices: tuple[Any, ...] = ()  # what `with device(...)` blocks will put back
    check_nan: bool = True  # in anomaly mode
    uncompiled: bool = False  # compiled functions run as Python: somebody looks at operations
    below_tape: bool = False  # what custom operations registered in the tape's place is left out
    initialise: bool = True  # off where modules are made whose weights are then loaded
    saved_hooks: tuple[Any, ...] = ()  # (pack, unpack) pairs for tensors the tape saves
    before_write: Any = None  # told of each storage about to be written to, while hooks are on
    saved_hooks_refused: str | None = None  # why entering further ones is an error
    reference: bool = False  # every operation by the eager table, none compiled
    observers: tuple[Any, ...] = ()  # called with (record, operands, params, outs)
    consulted: set[str] | None = None  # settings that the recording under way depends on
    # Names sizes that values decide, where a recording may hold such (export to ONNX): `next()`
    # is a new one, `bound(x, size)` a slice's bound within one, None within another size.
    value_sizes: Any = None
    # Plain sizes in a recording that checks one for many sizes, where the latter left choices open.
    open_sizes: frozenset[int] = frozenset()
    # Programs on a GPU are made to run later: what they launch is asked for, not waited for.
    ahead: bool = False
    in_step: bool = False  # parts of what is one for a level are called (Note [steps of levels])
    takers: tuple[Any, ...] = ()  # innermost last: called in an operation's place, outside captures

    @property
    def concrete(self) -> bool:
        """Whether elements can be looked at: nothing is on but autocast and inference mode."""
        return self.settled or self.inferring

    def set(self, **fields: Any) -> dict[str, Any]:
        """Change fields, keep `plain` true to them, and return the previous values."""
        own = self.__dict__  # looked up once: each attribute of a thread's takes longer
        before = {name: own[name] if name in own else getattr(self, name) for name in fields}
        own.update(fields)
        get = own.get  # what is not there is off
        if _SETTLING.isdisjoint(fields):
            if "autocast" in fields:
                own["plain"] = get("settled", True) and fields["autocast"] is None
            return before
        undisturbed = not (
            get("levels")
            or get("capture") is not None
            or get("anomaly")
            or get("saved_hooks")
            or get("reference")
            or get("observers")
            or get("takers")
        )
        inference = get("inference", False)
        own["settled"] = settled = undisturbed and not inference
        own["plain"] = settled and get("autocast") is None
        own["inferring"] = undisturbed and inference
        return before

    def set_inference(self, grad_enabled: bool, inference: bool) -> None:
        """`set` of these two, at a fraction of its time where nothing but autocast is on."""
        if not (self.settled or self.inferring):
            self.set(grad_enabled=grad_enabled, inference=inference)
            return
        fields = self.__dict__  # looked up once: each attribute of a thread's takes longer
        fields["grad_enabled"] = grad_enabled
        fields["inference"] = fields["inferring"] = inference
        fields["settled"] = not inference
        fields["plain"] = not inference and self.autocast is None

    def having(self, **fields: Any) -> ContextOverride:
        """The same for the extent of a `with` block."""
        return ContextOverride(fields)

    def every_field(self) -> dict[str, Any]:
        """All fields, to be put back by `CONTEXT.__dict__.update`.

        A `with` block is not enough where programs go on after an interrupt: one may come where
        its end is entered. The update is one call of C's, which no interrupt divides.
        """
        return {name: getattr(self, name) for name in _FIELDS}


class ContextOverride:
    """A `with` block in which fields of the context differ; quicker than a generator."""

    __slots__ = ("before", "fields")
    before: dict[str, Any]

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields

    def __enter__(self) -> None:
        self.before = CONTEXT.set(**self.fields)

    def __exit__(self, *_: object) -> None:
        CONTEXT.set(**self.before)


CONTEXT = Context()
_FIELDS = tuple(Context.__annotations__)


def concrete() -> ContextOverride:
    """Suspend an active capture: tensors made inside are real, not part of the graph.

    For state that outlives the call, such as an optimizer's moments created in its first step.
    """
    return CONTEXT.having(capture=None)
