"""What the recorder of Python is told about NumPy: functions, methods of arrays, generators."""

from __future__ import annotations

import array
import operator
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from adjoint.engine.capture.python.c import constructors, functions, methods
from adjoint.engine.capture.python.calling import unknown
from adjoint.engine.capture.python.exposing import NeedsPython, expose
from adjoint.engine.capture.python.plain import is_plain
from adjoint.engine.capture.python.rebuilding import Immutable, ReadNumber, Recipe, Same
from adjoint.engine.capture.python.recorder import DrawnNumber
from adjoint.engine.capture.tensors.late_arrays import holds_late, is_late, late_call, put_off
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.state.host import is_host
from adjoint.engine.graph.sizes.resizing import is_of_sizes

# Functions that only read what they are given.
PURE = frozenset(
    "abs absolute all allclose amax amin angle any append arange argmax argmin argpartition "
    "argsort argwhere around array array_equal array_split asanyarray asarray "
    "ascontiguousarray asfortranarray astype atleast_1d atleast_2d atleast_3d average "
    "bincount block broadcast_arrays broadcast_shapes broadcast_to can_cast ceil clip "
    "column_stack compress concat concatenate convolve copy corrcoef correlate count_nonzero "
    "cov cross cumprod cumsum cumulative_prod cumulative_sum deg2rad delete diag diagflat "
    "diagonal diff digitize dot dsplit dstack ediff1d einsum empty empty_like expand_dims "
    "extract eye finfo fix flatnonzero flip fliplr flipud frombuffer full full_like geomspace "
    "gradient hamming hanning histogram hsplit hstack identity iinfo imag in1d indices inner "
    "insert interp intersect1d isclose iscomplex isfinite isin isinf isnan isreal isscalar "
    "issubdtype kron lexsort linspace logspace matmul matrix_transpose max maximum mean "
    "median meshgrid min min_scalar_type moveaxis mod nan_to_num nanargmax nanargmin "
    "nancumsum nanmax nanmean nanmedian nanmin nanpercentile nanprod nanquantile nanstd "
    "nansum nanvar ndim nonzero ones ones_like outer packbits pad partition percentile "
    "permute_dims polyfit polyval prod promote_types ptp quantile rad2deg ravel "
    "ravel_multi_index real repeat reshape resize result_type roll rollaxis rot90 round "
    "searchsorted select setdiff1d setxor1d shape sinc size sort split squeeze stack std sum "
    "swapaxes take take_along_axis tensordot tile trace transpose trapezoid tri tril "
    "tril_indices trim_zeros triu triu_indices union1d unique unpackbits unravel_index "
    "unstack vander var vdot vecdot vsplit vstack where zeros zeros_like det inv norm solve "
    "qr svd eigh eigvalsh eig cholesky lstsq pinv slogdet matrix_power matrix_rank fft ifft "
    "rfft irfft fftfreq".split()
)
_METHODS = (
    "all any argmax argmin argsort astype clip conj copy cumprod cumsum diagonal dot flatten item "
    "max mean min nonzero prod ravel repeat reshape round searchsorted squeeze std sum swapaxes "
    "take tobytes tolist trace transpose var view __len__ __float__ __int__ __bool__ __index__ "
    "__array__ __copy__ __getitem__ __round__ is_integer as_integer_ratio hex"
).split()
_WRITES = "__setitem__ fill sort put partition".split()
_UNSEEDED = "a generator without a seed takes one from the operating system at each call"


def root_of(value: Any) -> Any:
    """The array whose memory another one shows."""
    while issubclass(type(value), np.ndarray) and isinstance(value.base, np.ndarray):
        value = value.base
    return value


def is_array(value: Any) -> bool:
    """Whether a value is an array whose elements can be kept and put back."""
    if type(value) is array.array:
        return True
    return issubclass(type(value), np.ndarray) and not value.dtype.hasobject


def restoring(root: Any, before: Any) -> Callable[[], None]:
    """What gives an array the elements it had; of Python's own, their number too."""
    return lambda: operator.setitem(root, slice(None) if type(root) is array.array else ..., before)


def call_numpy(recorder: Any, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A function of NumPy's that reads what it is given and makes something new."""
    given = (*args, *kwargs.values())
    if kwargs.get("out") is not None or "like" in kwargs:
        raise recorder.refuse(
            f"numpy.{fn.__name__} with out= or like=", "it writes to what it is given",
            "Assign its result instead.",
        )  # fmt: skip
    if any(map(is_tensor, given)):
        return recorder.engine.call(fn, args, kwargs)
    if holds_late(given):
        return late_call(recorder.engine, fn, args, kwargs)
    try:
        shown = [expose(recorder, x) for x in args]
        named = {key: expose(recorder, x) for key, x in kwargs.items()}
    except NeedsPython:
        raise unknown(recorder, fn) from None
    return new_arrays(recorder, fn(*shown, **named), (*shown, *named.values()))


def new_arrays(recorder: Any, result: Any, given: Iterable[Any] = ()) -> Any:
    """A result of NumPy's: new, unless it shows memory that was there before."""
    roots = {id(root_of(x)) for x in _arrays(given) if not recorder.is_fresh(root_of(x))}
    for part in _arrays([result]):
        if id(root_of(part)) not in roots:
            recorder.new(root_of(part))
            recorder.new(part)
    if isinstance(result, list):
        recorder.new(result)
    return result


def _arrays(values: Iterable[Any]) -> Iterator[Any]:
    """The arrays among values, and in lists and tuples of them."""
    for value in values:
        if isinstance(value, np.ndarray):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _arrays(value)


def array_recipe(recorder: Any, value: Any) -> Recipe | None:
    """How each call comes by an array that the function keeps or returns."""
    if is_late(value):
        if value.tensor is None:
            value.read()
        return ReadNumber(value.draw.now, value)
    if issubclass(type(value), np.generic):
        return Same(value)
    if not issubclass(type(value), np.ndarray):
        return None
    root = root_of(value)
    if not recorder.is_fresh(root):
        return Same(value)
    contents = root.copy(order="K")
    copied = Immutable(id(root), lambda parts: contents.copy(order="K"), ())
    if value is root:
        return copied
    layout = value.shape, value.dtype, value.strides
    start = value.__array_interface__["data"][0] - root.__array_interface__["data"][0]
    return Immutable(id(value), lambda parts: _window(parts[0], start, *layout), (copied,))


def _window(root: Any, start: int, shape: Any, dtype: Any, strides: Any) -> Any:
    """A view of an array's memory."""
    return np.ndarray(shape, dtype, root.reshape(-1, order="A").view(np.uint8), start, strides)


def _call_function(recorder: Any, fn: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
    if fn.__name__ not in PURE:
        raise unknown(recorder, fn)
    return call_numpy(recorder, fn, args, kwargs)


def _builtin(fn: Any) -> Any:
    return lambda recorder, *args, **kwargs: call_numpy(recorder, fn, args, kwargs)


class _Draws(dict[str, Any]):
    """Methods of NumPy's generators: each draws, or seeds, or is refused."""

    def get(self, name: str, default: Any = None, /) -> Any:
        def handler(recorder: Any, generator: Any, /, *args: Any, **kwargs: Any) -> Any:
            given = (*args, *kwargs.values())
            plain = all(is_plain(x) or is_host(x) or _is_list(x) for x in given)
            if not plain or "state" in name or name in ("shuffle", "spawn"):
                raise recorder.refuse(
                    f"{type(generator).__name__}.{name}",
                    "a recording draws numbers and arrays, by plain numbers",
                    "Draw outside and pass the result.",
                )
            if name == "seed" and not args and not kwargs:
                raise recorder.refuse("numpy.random.seed()", _UNSEEDED, "Pass a seed.")
            readers = [_reader(recorder, x) for x in args]
            named = {key: _reader(recorder, x) for key, x in kwargs.items()}

            def take() -> Any:
                return getattr(generator, name)(
                    *[read() for read in readers], **{key: read() for key, read in named.items()}
                )

            if recorder.is_fresh(generator):
                return new_arrays(recorder, take())
            recorder.keep_generator(generator, keep_numpy)
            return put_off(recorder.engine, DrawnNumber(take, take(), generator, keep_numpy))

        return handler


def _is_list(value: Any) -> bool:
    return type(value) is list and all(map(is_plain, value))


def _reader(recorder: Any, value: Any) -> Callable[[], Any]:
    if is_host(value):
        recorder.engine.sized |= is_of_sizes(value)
        get: Callable[[], Any] = value.get
        return get
    operand = expose(recorder, value)
    return lambda: operand


def keep_numpy(generator: Any) -> Callable[[], None]:
    """What puts a generator back to where it is."""
    if isinstance(generator, np.random.RandomState):
        legacy = generator.get_state(legacy=False)
        return lambda: generator.set_state(legacy)
    state = generator.bit_generator.state
    return lambda: setattr(generator.bit_generator, "state", state)


def _made_generator(cls: Any) -> Any:
    """A generator made by the function: of a seed, else each call would have another one."""

    def handler(recorder: Any, *args: Any) -> Any:
        if not args or not all(type(x) is int or is_host(x) for x in args):
            raise recorder.refuse(f"numpy.random.{cls.__name__}", _UNSEEDED, "Pass a seed.")
        return recorder.new(cls(*[recorder.concrete(x) for x in args]))

    return handler


def _array_method(name: str) -> Any:
    """A method of arrays that reads its elements and changes nothing."""

    def handler(recorder: Any, array: Any, /, *args: Any, **kwargs: Any) -> Any:
        method = getattr(type(array), name)
        return call_numpy(recorder, method, (array, *args), kwargs)

    return handler


def _array_write(name: str) -> Any:
    """A method of arrays that changes its elements."""

    def handler(recorder: Any, array: Any, /, *args: Any, **kwargs: Any) -> Any:
        method = getattr(np.ndarray, name)
        given = (array, *[expose(recorder, x) for x in args])
        if kwargs:
            raise unknown(recorder, method)
        if recorder.is_fresh(root_of(array)):
            return method(*given)
        return recorder.engine.change(recorder, array, method, given)

    return handler


methods.TABLE[np.ndarray] = {name: _array_method(name) for name in _METHODS} | {
    name: _array_write(name) for name in _WRITES
}
methods.TABLE[np.generic] = {name: _array_method(name) for name in _METHODS}
methods.TABLE[np.random.Generator] = _Draws()
methods.TABLE[np.random.RandomState] = _Draws()
methods.CALLABLES[np.ufunc] = lambda recorder, fn, args, kwargs: call_numpy(
    recorder, fn, args, kwargs
)
methods.CALLABLES[type(np.concatenate)] = _call_function
for _name in PURE & {*dir(np)}:
    _function = getattr(np, _name)
    if type(_function) is type(np.array):
        functions.TABLE[_function] = _builtin(_function)
    elif isinstance(_function, types.FunctionType):
        functions.PYTHON[_function] = _builtin(_function)
for _scalar in {*np.sctypeDict.values(), np.dtype}:
    constructors.TABLE[_scalar] = _builtin(_scalar)
constructors.TABLE[np.random.RandomState] = _made_generator(np.random.RandomState)
functions.OTHERS[np.random.default_rng] = _made_generator(np.random.default_rng)
functions.OTHERS[np.random.seed] = lambda recorder, *args: _Draws().get("seed")(
    recorder,
    np.random.mtrand._rand,
    *args,
)
