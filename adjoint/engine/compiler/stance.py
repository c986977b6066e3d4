"""What compiled functions do for a while: PyTorch's `torch.compiler.set_stance`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import TracebackType
from typing import Any

from adjoint.engine.capture.capture import STANCE
from adjoint.engine.core.state.context import CONTEXT

STANCES = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile")


class set_stance:
    """Have compiled functions run as Python, or not be recorded again, until told otherwise.

    Called, it holds from then on; as a `with` block or decorator, for the block or the call.

    Args:
        stance: "default", "force_eager" (run as Python), "eager_on_recompile" (run as Python what
            no recording stands for) or "fail_on_recompile" (refuse that).
        skip_guard_eval_unsafe: refused if true: no guard is left out here.
        force_backend: refused; `compile` says the backend.

    Example:
        >>> import adjoint as ad
        >>> double = ad.compile(lambda x: x * 2)
        >>> with ad.compiler.set_stance("force_eager"):
        ...     _ = double(ad.ones(2))
        >>> double.traces
        0
    """

    def __init__(
        self,
        stance: str = "default",
        *,
        skip_guard_eval_unsafe: bool = False,
        force_backend: Any = None,
    ) -> None:
        if stance not in STANCES:
            raise RuntimeError(f"invalid torch.compile stance {stance!r}; one of {STANCES}")
        if skip_guard_eval_unsafe or force_backend is not None:
            raise NotImplementedError(
                "set_stance: skip_guard_eval_unsafe and force_backend are not taken: guards are "
                "always read, and the backend is compile's."
            )
        self.stance = stance
        self.before = (STANCE.word, CONTEXT.uncompiled)
        self._take()

    def _take(self) -> None:
        STANCE.word, CONTEXT.uncompiled = self.stance, self.stance == "force_eager"

    def __enter__(self) -> set_stance:
        self._take()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        STANCE.word, CONTEXT.uncompiled = self.before

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """The function, called with the stance; decorating alone changes nothing."""
        STANCE.word, CONTEXT.uncompiled = self.before

        @functools.wraps(fn)
        def call(*args: Any, **kwargs: Any) -> Any:
            with set_stance(self.stance):
                return fn(*args, **kwargs)

        return call
