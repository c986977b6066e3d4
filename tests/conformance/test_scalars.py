"""Every Python number that a public function takes, changed from call to call of a compiled one.

The rows are made of the samples: each number in one is a place, and its function is compiled with
that number as an argument. A parameter that takes a number and is given none in any sample is given
one here; a public function that no sample calls has a row below.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

import adjoint as ad
import adjoint.engine.ops
from adjoint.compiler import compile
from adjoint.engine.core.operations.public import INPLACE, METHODS, PUBLIC
from adjoint.graph import capture
from tests.conformance.cases import make, rows
from tests.conformance.test_compiled import compare
from tests.samples import S, T

Path = tuple[Any, ...]  # a position or keyword, then positions within

# Parameters annotated `Any` that take numbers.
NUMBERS = frozenset(
    "other alpha beta value eps p margin threshold min max lambd norm_type q tau nan posinf neginf "
    "exponent fill_value lower upper correction max_norm maxnorm rtol atol tol rcond weight start "
    "end step dx scale mean std low high base s scale_factor output_ratio ord input delta var k x "
    "element test_elements elements source spacing n d".split()
)
# Those that do not: sizes, dimensions, devices, other objects.
OTHERS = frozenset(
    "dim dims device stride padding args layout kernel_size dilation output_size size memory_format "
    "out tensors kwargs output_padding named dtype normalized_shape destination split_sizes sizes "
    "repeats pad options data input_lengths target_lengths bins range indices_or_sections shifts "
    "obj src out_dtype prepend append values physical_layout shapes split_size_or_sections "
    "compute_mode keywords tensor1 tensor2 buffer ext_tensor a indices crow_indices col_indices "
    "shape split_size stream ambiguity_check gradient inputs context return_scalar sparse_dim _ mask "
    "center zero_point compressed_indices plain_indices ccol_indices row_indices "
    "blocksize".split()
)
# Public functions that no sample calls with tensors that a number can be put beside.
EXTRA = [
    S("scalar_tensor", 0.5),
    S("full", (2, 3), 0.5),
    S("full_like", T(2, 3), 0.5),
    S("full_like", T(2, 3, kind="int", low=0, high=9), 2.5),
    S("Tensor.new_full", T(2, 3), (2,), 0.5),
    S("Tensor.fill_", T(2, 3), 0.5),
    S("Tensor.fill_", T(2, 3, kind="int", low=0, high=9), 2.5),
    S("Tensor.fill_", T(2, 3, kind="bool"), 0.5),
    S("Tensor.__setitem__", T(3), 0, 0.5),
    S("Tensor.masked_fill", T(3, kind="int", low=0, high=9), T(3, kind="bool"), 2.5),
    S("addcmul", *[T(3, kind="int", low=1, high=9)] * 3, value=2.0),
    S("float_power", T(3, kind="positive"), 1.5),
    S("float_power", 1.5, T(3)),
    S("pow", 1.5, T(3)),
    S("true_divide", T(3), 1.5),
    S("nn.functional.pad", T(2, 3), (1, 1), value=0.5),
    S("Tensor.constant_pad", T(2, 3), (1, 1), 0.5),
    S("signal.windows.exponential", 5, tau=1.0),
    S("batch_norm", T(4, 3), None, None, None, None, True, 0.1, 1e-5, False),
    S("instance_norm", T(2, 3, 4), None, None, None, None, True, 0.1, 1e-5, False),
    S("poisson_nll_loss", T(3), T(3, kind="positive"), True, False, 1e-8, 0),
    S("nn.functional.triplet_margin_loss", *[T(2, 3)] * 3, margin=1.0),
    S("triplet_margin_loss", *[T(2, 3)] * 3, 1.0),
    S("nn.functional.triplet_margin_with_distance_loss", *[T(2, 3)] * 3, margin=1.0),
    S("nn.functional.fractional_max_pool2d", T(1, 1, 6, 6), 2, output_ratio=0.5, _random=True),
    S("nn.functional.fractional_max_pool3d", T(1, 1, 6, 6, 6), 2, output_ratio=0.5, _random=True),
    S(
        "nn.functional.fractional_max_pool2d_with_indices", T(1, 1, 6, 6), 2, output_ratio=0.5,
        _random=True,
    ),
    S(
        "nn.functional.fractional_max_pool3d_with_indices", T(1, 1, 6, 6, 6), 2, output_ratio=0.5,
        _random=True,
    ),
    S("embedding_renorm_", T(5, 3), T(2, kind="int", low=0, high=5), 1.0, 2.0),
    S("dropout", T(20), 0.5, True, _random=True),
    S("alpha_dropout", T(20), 0.5, True, _random=True),
    S("feature_dropout", T(2, 5, 3), 0.5, True, _random=True),
    S("feature_alpha_dropout", T(2, 5, 3), 0.5, True, _random=True),
    S("nn.functional.feature_alpha_dropout", T(2, 5, 3), 0.5, True, _random=True),
    S("nn.functional.dropout1d", T(2, 5, 3), 0.5, True, _random=True),
    S("nn.functional.dropout3d", T(2, 5, 3, 2, 2), 0.5, True, _random=True),
]  # fmt: skip
REFUSALS = (TypeError, RuntimeError, ValueError, IndexError, AssertionError)  # PyTorch's
# Those that are compiled with no number, and why.
EXEMPT = {
    "set_printoptions": "sets how tensors print",
    "can_cast": "takes dtypes",
    "promote_types": "takes dtypes",
    "result_type": "gives a dtype",
    "is_tensor": "gives a bool",
    "is_storage": "gives a bool",
    "manual_seed": "sets a seed",
    "allclose": "gives a bool, which depends on values",
    "__contains__": "gives a bool, which depends on values",
    "set_": "takes storages",
    "to_padded_tensor": "takes nested tensors",
    "sspaddmm": "takes sparse tensors",
    "range": "a deprecated form of arange, which warns",
    "upsample": "a deprecated form of interpolate, which warns",
    "upsample_nearest": "a deprecated form of interpolate, which warns",
    "upsample_bilinear": "a deprecated form of interpolate, which warns",
    "segment_reduce": "reads its lengths, which no recording can",
    "_segment_reduce": "reads its lengths, which no recording can",
    "multi_head_attention_forward": "hands its number to dropout, which has rows",
}


@dataclass(frozen=True)
class Place:
    """A number of a sample."""

    row: S
    path: Path
    value: float

    def __str__(self) -> str:
        return f"{self.row} at {'.'.join(map(str, self.path))}"


def _numbers(x: Any, path: Path) -> Iterator[tuple[Path, float]]:
    if isinstance(x, (int, float)) and not isinstance(x, bool):
        yield path, x
    elif isinstance(x, (list, tuple)) and not hasattr(x, "_fields"):
        for i, v in enumerate(x):
            yield from _numbers(v, (*path, i))


def places(samples: list[S]) -> list[Place]:
    """Every number of every sample."""
    found = []
    for row in samples:
        given = [*enumerate(row.args), *row.kwargs.items()]
        found += [Place(row, *each) for at, x in given for each in _numbers(x, (at,))]
    return found


def takes_number(parameter: inspect.Parameter) -> bool:
    """Whether a parameter can be given a number; one of an unknown name must be told about."""
    kind = str(parameter.annotation)
    if "float" in kind:
        return True
    if kind != "Any" or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        return False
    assert parameter.name in NUMBERS | OTHERS, f"is {parameter.name!r} a number?"
    return parameter.name in NUMBERS


def surface() -> Iterator[tuple[str, str, Any]]:
    """Every public function: its path, its name, itself; those too that are loaded on use."""
    for module in pkgutil.walk_packages(adjoint.engine.ops.__path__, "adjoint.engine.ops."):
        importlib.import_module(module.name)
    for (space, name), entry in PUBLIC.items():
        yield (f"{space}.{name}" if space else name), name, entry.fn
    for name, fn in METHODS.items():
        yield f"Tensor.{name}", name, fn
    for name, fn in INPLACE.items():
        yield f"Tensor.{name}_", name, fn


@cache
def table() -> tuple[list[Place], list[str]]:
    """A place for each number of each public function; and the parameters that have none."""
    samples = [row for row in rows() if row.capture] + EXTRA
    found, lacking = places(samples), []
    by_name: dict[str, list[S]] = {}
    for row in samples:
        by_name.setdefault(row.path.split(".")[-1].rstrip("_"), []).append(row)
    for path, name, fn in surface():
        if name in EXEMPT or not callable(fn):
            continue
        signature = inspect.signature(fn)
        method = path.startswith("Tensor.")
        for position, parameter in enumerate(signature.parameters.values()):
            size = path.startswith("fft.") and parameter.name == "s"
            if size or not takes_number(parameter) or (method and position == 0):
                continue
            alike = [
                r
                for n in dict.fromkeys((name, fn.__name__))
                for r in by_name.get(n.rstrip("_"), ())
            ]
            alike.sort(key=lambda row: row.path != path)  # its own samples first
            made = _given(path, signature, parameter, alike)
            if made is None:
                lacking.append(f"{path}: {parameter.name}")
            else:
                found.append(made)
    return found, lacking


def _given(
    path: str, signature: inspect.Signature, parameter: inspect.Parameter, samples: list[S]
) -> Place | None:
    """A call like a sample's, with a number for one parameter."""
    default = parameter.default
    number = float(default) if isinstance(default, (int, float)) and default else 1.5
    for row in samples:
        try:
            bound = signature.bind(*row.args, **row.kwargs)
        except TypeError:
            continue
        bound.arguments[parameter.name] = number
        if path.startswith("Tensor.") and not isinstance(bound.args[0], T):
            continue
        args, kwargs = list(bound.args), dict(bound.kwargs)
        if parameter.name in kwargs:
            at: Any = parameter.name
        else:
            at = list(bound.arguments).index(parameter.name)
            if at >= len(args) or args[at] is not number:
                continue
        made = S(path, *args, **kwargs)
        object.__setattr__(made, "random", row.random)
        return Place(made, (at,), number)
    return None


def check(place: Place, dtype: Any, wrap: Callable[..., Any]) -> None:
    """Calls with several floats there, and the first one again, give what eager calls give."""
    v = place.value
    values = [v, v * 0.75, v * 1.25] if isinstance(v, float) else [v + 0.5, v + 0.25, v + 0.75]
    case = make(place.row, dtype)
    target = case.with_number(place.path)
    compiled = wrap(target)
    for value in [*values, values[0]]:
        want = outcome(target, value, case.tensors)
        got = outcome(compiled, value, case.tensors)
        if isinstance(want, Exception):
            assert isinstance(want, REFUSALS), f"{place}: {value} gives {want!r}"
            assert type(got) is type(want), f"{place}: {value} gives {got!r}, eager {want!r}"
            if value == values[0]:
                return  # no float is taken there
            continue
        assert not isinstance(got, Exception), f"{place}: {value} gives {got!r}"
        assert len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            compare(a, b, f"{place}: {value}")


def outcome(fn: Callable[..., Any], value: Any, tensors: list[Any]) -> Any:
    """The results, or the refusal."""
    ad.manual_seed(0)
    try:
        return fn(value, *[t.clone() for t in tensors])  # some functions write to them
    except Exception as error:
        return error


FOUND, LACKING = table()


def test_every_number_of_every_public_function_has_a_row() -> None:
    assert not LACKING, f"give a sample, or a row of EXTRA, or a reason in EXEMPT: {LACKING}"


@pytest.mark.parametrize("place", FOUND[::25], ids=str)
def test_numbers_that_change(place: Place) -> None:
    check(place, ad.float32, capture)


@pytest.mark.parametrize("place", places(EXTRA), ids=str)
def test_numbers_that_fill_and_raise(place: Place) -> None:
    check(place, ad.float32, compile)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("place", FOUND, ids=str)
def test_every_number_that_changes(place: Place, dtype: str) -> None:
    check(place, getattr(ad, dtype), compile)
