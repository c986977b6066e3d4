"""`except*`: what a handler takes out of a group of exceptions, and what is raised in the end."""

from __future__ import annotations

from typing import Any

from adjoint.engine.capture.python.frames import Frame
from adjoint.engine.core.errors import CaptureError

from .flow import PARTS, check_classes, refused


def check_eg_match(frame: Frame, operand: Any) -> None:
    """Split what is raised by a class: the rest, and what the handler is given."""
    wanted, error = frame.stack.pop(), frame.stack.pop()
    kinds = check_classes(wanted)
    if any(issubclass(kind, BaseExceptionGroup) for kind in kinds):
        raise TypeError("catching ExceptionGroup with except* is not allowed. Use except instead.")
    rest, matched = _split(frame, error, kinds)
    frame.stack += [rest, matched]
    parts = frame.recorder.shared.setdefault(PARTS, {})
    parts |= {id(part): part for part in (rest, matched) if part is not None}
    if matched is not None:
        frame.handled = matched


def _split(frame: Frame, error: Any, kinds: tuple[Any, ...]) -> tuple[Any, Any]:
    if error is None or isinstance(error, CaptureError):
        return error, None
    if not isinstance(error, BaseExceptionGroup):
        return (None, _grouped(error)) if isinstance(error, kinds) else (error, None)
    if isinstance(error, kinds):
        return None, error
    _check_own(frame, error)
    matched, rest = error.split(kinds)
    return rest, matched


def _grouped(error: BaseException) -> BaseException:
    return BaseExceptionGroup("", [error])


def _check_own(frame: Frame, group: Any) -> None:
    """Refuse groups whose class divides them by code of its own."""
    if type(group) not in (ExceptionGroup, BaseExceptionGroup):
        raise frame.recorder.refuse(
            f"except* of a {type(group).__name__}", "C would call its methods unseen",
            "Use except.",
        )  # fmt: skip


def prep_reraise_star(frame: Frame, operand: Any) -> None:
    """What is raised after all handlers: what none took, and what they raised."""
    left, original = frame.stack.pop(), frame.stack.pop()
    frame.stack.append(_raised(frame, original, [x for x in left if x is not None]))


def _raised(frame: Frame, original: Any, left: list[Any]) -> Any:
    if not left:
        return None
    if not isinstance(original, BaseExceptionGroup):
        return left[0]
    _check_own(frame, original)
    parts = frame.recorder.shared.get(PARTS, {})
    new = [x for x in left if id(x) not in parts]
    unhandled = _leaves([x for x in left if id(x) in parts])
    rest = original.split(lambda x: id(x) in unhandled)[0] if unhandled else None
    raised = [*new, *([] if rest is None else [rest])]
    return raised[0] if len(raised) == 1 else BaseExceptionGroup("", raised)


def _leaves(errors: list[Any]) -> set[int]:
    identities: set[int] = set()
    for error in errors:
        if isinstance(error, BaseExceptionGroup):
            identities |= _leaves(list(error.exceptions))
        else:
            identities.add(id(error))
    return identities


_PREP_RERAISE_STAR = 1  # of the functions of CALL_INTRINSIC_2


def call_intrinsic_2(frame: Frame, operand: int) -> None:
    """`except*`; the others belong to type parameters."""
    if operand == _PREP_RERAISE_STAR:
        prep_reraise_star(frame, operand)
    else:
        refused(frame, operand)
