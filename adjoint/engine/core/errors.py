"""Exceptions with a name of their own."""

from __future__ import annotations

import importlib
import linecache
import sys
import warnings
from collections.abc import Callable, Iterable
from os.path import basename, dirname, sep
from pickle import UnpicklingError
from types import CodeType, FrameType

PACKAGE = dirname(dirname(dirname(__file__))) + sep  # the beginning of its files' names


class AdjointError(Exception):
    """What Adjoint's own errors have in common; each is also of the type that PyTorch raises."""

    __module__ = "adjoint.errors"

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__module__ == __name__:  # tracebacks say where people find them
            cls.__module__ = "adjoint.errors"


class AnyShapeError(AdjointError):
    """Shapes do not fit, whichever type PyTorch raises there; one of the three below."""


class ShapeError(AnyShapeError, RuntimeError):
    """Shapes do not fit: `ones(2, 3) @ ones(2, 3)`, `ones(2) + ones(3)`."""


class ShapeValueError(AnyShapeError, ValueError):
    """Shapes do not fit where PyTorch raises ValueError: `nn.BatchNorm2d(3)(ones(2, 3))`."""


class ShapeIndexError(AnyShapeError, IndexError):
    """A shape has no such dimension, where PyTorch raises IndexError: `ones(2).sum(1)`."""


class BoundsError(AdjointError, IndexError, RuntimeError):
    """An index names no element, where PyTorch raises IndexError of some shapes and RuntimeError
    of others: `zeros(3).index_add(0, tensor([5]), ones(1))`, an entry of `embedding_bag`."""


class AnyDTypeError(AdjointError):
    """A dtype does not fit, whichever type PyTorch raises there; one of the three below."""


class DTypeError(AnyDTypeError, RuntimeError):
    """A dtype does not fit: a product of float32 and int64, a gradient of integers."""


class DTypeValueError(AnyDTypeError, ValueError):
    """A dtype does not fit where PyTorch raises ValueError: an LSTM's input of another dtype."""


class DTypeTypeError(AnyDTypeError, TypeError):
    """A dtype does not fit where PyTorch raises TypeError: `from_numpy` of an array of text."""


class DeviceError(AdjointError, RuntimeError):
    """Operands are on different devices, or where an operation cannot run."""


class AbsentDeviceError(DeviceError, AssertionError):
    """There is no such device here, where PyTorch raises AssertionError (built without CUDA) or
    RuntimeError (no driver): `ones(2).cuda()`."""


class ExportGuardError(AdjointError, AssertionError, RuntimeError):
    """An exported program was called with what it was not recorded for, such as another size."""


class CaptureError(AdjointError, RuntimeError):
    """Something that is fine as such cannot be recorded or transformed.

    The message names the line and what to do. Handlers of the recorded code do not catch it: run
    by Python, the code would not have raised.
    """


class OutOfMemoryError(AdjointError, RuntimeError, MemoryError):
    """Memory cannot be had; the message says what holds it."""


class AcceleratorError(AdjointError, RuntimeError):
    """A device failed; the message says which operations it may come from."""


class FileError(AdjointError, RuntimeError):
    """A file is damaged, or asks for what reading it may not do."""


class FileFormatError(FileError, UnpicklingError):
    """A file is not one that `save` wrote."""


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The end of a message about a name that is not there: ". Did you mean 'gelu'?", or "".

    >>> did_you_mean("leaky_rely", ["relu", "leaky_relu"])
    ". Did you mean 'leaky_relu'?"
    >>> did_you_mean("PRICE", ["rooms", "price"])
    ". Did you mean 'price'?"
    """
    difflib = importlib.import_module("difflib")  # not at the top: few programs come here
    known = list(map(str, names))
    close = difflib.get_close_matches(str(name), known, 1)
    if not close:
        folded = {one.casefold(): one for one in known}
        close = difflib.get_close_matches(str(name).casefold(), list(folded), 1)
        close = [folded[one] for one in close]
    return f". Did you mean {close[0]!r}?" if close else ""


class LinAlgError(AdjointError, RuntimeError):
    """A linear-algebra operation met a matrix it cannot treat, such as a singular one.

    linalg.inv(zeros(2, 2))       # raises
    linalg.inv_ex(zeros(2, 2))    # does not: the second result says which matrices failed
    """


# Functions of the package that execute a user's: what tells the user's place of a frame of theirs,
# by the id of their code, which `origins.executing` keeps: to hash code takes half a microsecond.
EXECUTING: dict[int, Callable[[FrameType], tuple[str, int]]] = {}
_EXECUTING_FILES: set[str] = set()  # where those functions are
_PLAIN_FILES: set[str] = set()  # files of the package where there is none, of those seen so far


def announce(code: CodeType, tell: Callable[[FrameType], tuple[str, int]]) -> None:
    """Have the user's place be found where a function executes a user's."""
    EXECUTING[id(code)] = tell
    _EXECUTING_FILES.add(code.co_filename)
    _PLAIN_FILES.discard(code.co_filename)


def is_ours(code: CodeType) -> bool:
    """Whether code is the package's own."""
    return code.co_filename.startswith(PACKAGE)


_LIBRARIES = frozenset(
    "adjoint builtins numpy scipy ml_dtypes llvmlite cupy cupyx cupy_backends cudnn triton cuda "
    "nvidia".split()
)


def raised_outside(error: BaseException) -> bool:
    """Whether an exception comes from a signal's handler or another thread, not from our own code.

    Note [exceptions from outside]
        A quick way that fails leaves a call to the ordinary one, which succeeds or says what is
        wrong. But a handler (of a time limit, say) may raise anywhere: swallowed, the program would
        go on as if there were no limit, and what was written already would be written twice. The
        innermost frame of such an exception is the handler's, or its class is nobody's we call.

    >>> raised_outside(TimeoutError()), raised_outside(ValueError())
    (True, False)
    """
    kind, frames = type(error), error.__traceback__
    if _is_others(kind.__module__) or isinstance(error, TimeoutError):
        return True
    while frames is not None and frames.tb_next is not None:
        frames = frames.tb_next
    return frames is not None and _is_others(frames.tb_frame.f_globals.get("__name__") or "")


def _is_others(module: str) -> bool:
    root = module.partition(".")[0]
    return root not in _LIBRARIES and root not in sys.stdlib_module_names


class _Passed:
    """Where code lies that is nobody's own: the package, and libraries that call it back."""

    paths: tuple[str, ...] = (PACKAGE,)


def pass_over(path: str) -> None:
    """Have the code of a library that calls the package back not count as the program's."""
    _Passed.paths = (*_Passed.paths, path)


def users_place() -> tuple[str, int] | None:
    """File and line where the program called into the package."""
    found = users_instruction()
    return None if found is None else place_of(*found)


def place_of(where: CodeType | str, number: int) -> tuple[str, int]:
    """File and line of an instruction, or of a line, as `users_instruction` gives them."""
    if isinstance(where, str):
        return where, number
    lines = [line for start, end, line in where.co_lines() if start <= number < end and line]
    return where.co_filename, lines[0] if lines else where.co_firstlineno


def users_instruction() -> tuple[CodeType, int] | tuple[str, int] | None:
    """Where the program called into the package: code and instruction, or a file and a line.

    To find the line of an instruction takes a tenth of a microsecond for each line before it in a
    function: that is for when it is told.
    """
    frame: FrameType | None = sys._getframe(1)
    plain = _PLAIN_FILES
    while frame is not None:
        code = frame.f_code
        path = code.co_filename
        if path not in plain:  # which takes half as long as to look at how it begins
            if not path.startswith(_Passed.paths):
                return code, frame.f_lasti
            tell = EXECUTING.get(id(code))
            if tell is not None and not (place := tell(frame))[0].startswith(PACKAGE):
                return place
            if path not in _EXECUTING_FILES:
                plain.add(path)
        frame = frame.f_back
    return None


def warn_user(message: str) -> None:
    """Warn at the line where the program called into the package, however deep this is in it."""
    depth, frame = 1, sys._getframe(0)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(message, stacklevel=depth)


def source_line(path: str, line: int) -> str:
    """The text of a line of a program, "" where it cannot be had."""
    return linecache.getline(path, line).strip()


def show_line(path: str, line: int) -> str:
    """A line of a program, for a message: `train.py:12, "loss = model(x).item()"`."""
    text = source_line(path, line)
    return f"{basename(path)}:{line}" + (f', "{text}"' if text else "")


def users_line() -> str:
    """Where the program called into the package: `train.py:12, "loss = model(x).item()"`.

    For errors about code that is fine as such and only cannot be captured or transformed.
    """
    place = users_place()
    return "an unknown line" if place is None else show_line(*place)
