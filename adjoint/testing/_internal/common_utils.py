"""Cases of tests that compare tensors, as libraries written for PyTorch use them."""

from __future__ import annotations

import functools
import itertools
import random
import sys
import unittest
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from adjoint.engine.backends.array.interop import as_tensor
from adjoint.engine.core.device import Device
from adjoint.engine.core.dtype import DType
from adjoint.engine.tensor.tensor import Tensor
from adjoint.random import get_rng_state, manual_seed, set_rng_state
from adjoint.testing.close import TOLERANCES, assert_close

IS_LINUX = sys.platform == "linux"
IS_MACOS = sys.platform == "darwin"
IS_WINDOWS = sys.platform == "win32"
SEED = 1234

_must_equal = unittest.TestCase.assertEqual
_NUMBERS = (bool, int, float, complex, np.number, np.bool_)


def set_rng_seed(seed: int = SEED) -> None:
    """Seed the generators of tensors, of Python and of NumPy."""
    manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)  # the one that libraries' tests draw from


@contextmanager
def freeze_rng_state() -> Iterator[None]:
    """Numbers drawn inside are drawn again afterwards."""
    kept = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(kept)


def run_tests(argv: Sequence[str] | None = None) -> None:
    """Run the tests of the program that calls this, and end it."""
    unittest.main(argv=None if argv is None else list(argv))


class TestCase(unittest.TestCase):
    """A case whose `assertEqual` takes tensors, arrays, numbers and containers of them.

    Example:
        >>> import adjoint as ad
        >>> case = TestCase()
        >>> case.assertEqual({"x": ad.ones(2)}, {"x": ad.tensor([1.0, 1.0 + 1e-7])})
        >>> case.assertEqual(ad.ones(2), [1, 1])
    """

    __test__ = False  # not a test itself, wherever it is imported
    precision: float = 0
    rel_tol: float = 0

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.__test__ = cls.__dict__.get("__test__", True)

    def setUp(self) -> None:
        set_rng_seed()

    def assertEqual(
        self,
        x: Any,
        y: Any,
        msg: Any = None,
        *,
        atol: float | None = None,
        rtol: float | None = None,
        equal_nan: bool = True,
        exact_dtype: bool = True,
        exact_device: bool = False,
        exact_layout: bool = False,
        exact_stride: bool = False,
        exact_is_coalesced: bool = False,
    ) -> None:
        """Fail unless two values are equal, up to the tolerance of their dtype."""
        options: dict[str, Any] = {
            "equal_nan": equal_nan, "check_dtype": exact_dtype, "check_device": exact_device,
            "check_layout": exact_layout, "check_stride": exact_stride,
        }  # fmt: skip
        if atol is not None or rtol is not None:
            options |= {"atol": atol or 0.0, "rtol": rtol or 0.0}
        try:
            self._compare(x, y, options, exact_is_coalesced)
        except AssertionError as error:
            self.fail(msg(str(error)) if callable(msg) else self._formatMessage(msg, str(error)))

    def assertNotEqual(  # type: ignore[override]  # under PyTorch's names of arguments
        self, x: Any, y: Any, msg: Any = None, **options: Any
    ) -> None:
        """Fail if `assertEqual` would not."""
        equal = self.assertEqual
        try:
            equal(x, y, **options)
        except AssertionError:
            return
        self.fail(self._formatMessage(msg, f"{x!r} equals {y!r}"))

    def _compare(self, x: Any, y: Any, options: dict[str, Any], coalesced: bool) -> None:
        if isinstance(x, Mapping) and isinstance(y, Mapping):
            _must_equal(self, set(x), set(y))
            for key in x:
                self._compare(x[key], y[key], options, coalesced)
        elif _is_sequence(x) and _is_sequence(y):
            _must_equal(self, len(x), len(y))
            for one, other in zip(x, y, strict=True):
                self._compare(one, other, options, coalesced)
        elif _is_comparable(x) and _is_comparable(y):
            self._compare_tensors(*_alike(x, y), options, coalesced)
        else:
            _must_equal(self, x, y)

    def _compare_tensors(
        self, x: Any, y: Any, numbers: bool, options: dict[str, Any], coalesced: bool
    ) -> None:
        if coalesced and x.is_sparse and y.is_sparse:
            _must_equal(self, x.is_coalesced(), y.is_coalesced())
        if numbers:
            options = {**options, "check_dtype": False}
        if "atol" not in options and (self.precision or self.rel_tol):
            known = [TOLERANCES.get(value.dtype, (0.0, 0.0)) for value in (x, y)]
            options = {
                **options,
                "rtol": max(self.rel_tol, *(rtol for rtol, _ in known)),
                "atol": max(self.precision, *(atol for _, atol in known)),
            }
        assert_close(x, y, **options)


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _is_comparable(value: Any) -> bool:
    return isinstance(value, (Tensor, np.ndarray, *_NUMBERS)) or _is_sequence(value)


def _alike(x: Any, y: Any) -> tuple[Any, Any, bool]:
    """Both as tensors of one shape where one is a number, and whether one is."""
    numbers = [isinstance(value, _NUMBERS) for value in (x, y)]
    for value, other in ((x, y), (y, x)):
        if _is_sequence(value) and isinstance(other, Tensor):
            made = as_tensor(value, dtype=other.dtype, device=other.device)
            return (made, other, False) if value is x else (other, made, False)
    one, other = _wide(x), _wide(y)
    if any(numbers) and one.numel() == other.numel() == 1:
        one, other = one.reshape(()), other.reshape(())
    return one, other, any(numbers)


def _wide(value: Any) -> Any:
    """A tensor; of Python's numbers with all their digits."""
    if isinstance(value, (bool, int, float, complex)):
        return as_tensor(np.asarray(value))
    return as_tensor(value)


# -- one test for many values ---------------------------------------------------------------------


class subtest:
    """Values of one test that `parametrize` makes, with a name and decorators of their own."""

    def __init__(
        self, arg_values: Any, name: str | None = None, decorators: Iterable[Any] = ()
    ) -> None:
        self.arg_values = arg_values
        self.name = name
        self.decorators = list(decorators)


class parametrize:
    """Marks a test that `instantiate_parametrized_tests` makes one of for each of some values.

    `arg_str` names the arguments, by commas; several decorators make a test for each combination.
    """

    def __init__(
        self,
        arg_str: str,
        arg_values: Iterable[Any],
        name_fn: Callable[..., str] | None = None,
    ) -> None:
        self.names = [name.strip() for name in arg_str.split(",") if name.strip()]
        self.values = list(arg_values)
        self.name_of = name_fn

    def __call__(self, test: Any) -> Any:
        test.parametrized = [self, *getattr(test, "parametrized", ())]
        return test

    def variants(self) -> Iterator[tuple[str, dict[str, Any], list[Any]]]:
        """The end of the name, the arguments and the decorators of each test."""
        for place, given in enumerate(self.values):
            chosen = given if isinstance(given, subtest) else subtest(given)
            values = chosen.arg_values if len(self.names) > 1 else (chosen.arg_values,)
            if len(values) != len(self.names):
                raise RuntimeError(
                    f"parametrize: expected {len(self.names)} values for {self.names}, "
                    f"received {len(values)}: {values!r}"
                )
            if chosen.name is not None:
                ending = chosen.name
            elif self.name_of is not None:
                ending = self.name_of(*values)
            else:
                parts = zip(self.names, values, strict=True)
                ending = "_".join(_shown(place, name, value) for name, value in parts)
            yield ending, dict(zip(self.names, values, strict=True)), chosen.decorators


def _shown(place: int, name: str, value: Any) -> str:
    """An argument in the name of a test."""
    if isinstance(value, DType):
        return str(value).rpartition(".")[2]
    if isinstance(value, Device):
        return str(value)
    if isinstance(value, (str, int, float)):
        return f"{name}_{value}".replace(".", "_")
    return f"{name}{place}"


def instantiate_parametrized_tests(generic_cls: Any) -> Any:
    """Replace each test that `parametrize` marks by one for each of its values."""
    for name, test in list(generic_cls.__dict__.items()):
        marks = getattr(test, "parametrized", None)
        if marks is None:
            continue
        delattr(generic_cls, name)
        for variant in itertools.product(*(mark.variants() for mark in marks)):
            full = "_".join([name, *(ending for ending, _, _ in variant)])
            given = {key: value for _, values, _ in variant for key, value in values.items()}
            made: Any = _with_arguments(test, given)
            for decorator in (each for _, _, several in variant for each in several):
                made = decorator(made)
            made.__name__ = full
            if full in generic_cls.__dict__:
                raise RuntimeError(f"{generic_cls.__name__} has two tests of the name {full}")
            setattr(generic_cls, full, made)
    return generic_cls


def _with_arguments(test: Any, given: dict[str, Any]) -> Any:
    @functools.wraps(test)
    def made(self: Any, **others: Any) -> Any:
        return test(self, **given, **others)

    # What is asked for the signature (pytest, for fixtures) would find the arguments given here.
    del made.__wrapped__
    del made.parametrized  # type: ignore[attr-defined]
    return made
