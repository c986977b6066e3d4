"""Programs that raise, catch, print and log, and what they leave behind."""

from __future__ import annotations

import contextlib
import io
import logging
import types
import warnings
from typing import Any

import adjoint as ad

from .playing import Wrap, ones, program, times, tried

COUNT = 0
CALLS: list[int] = []


@program
def exception_after_a_write(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(n=0, log=[])

    def f(x: Any) -> Any:
        s.n += 1
        s.log.append(s.n)
        if s.n == 2:
            raise ValueError(f"at {s.n}")
        return x * s.n

    return times(wrap(f)), vars(s)


@program
def exception_after_a_tensor_write(wrap: Wrap) -> Any:
    w = ad.zeros(2)
    flag = [False]

    def f(x: Any) -> Any:
        w.add_(x)
        if flag[0]:
            raise KeyError("late")
        return w * 2

    run = wrap(f)
    out = [run(ones(2))]
    flag[0] = True
    out.append(tried(run, ones(2)))
    flag[0] = False
    return [*out, run(ones(2)), w]


@program
def exception_caught_inside(wrap: Wrap) -> Any:
    d: dict[str, float] = {}
    log: list[str] = []

    def f(x: Any) -> Any:
        try:
            return x * d["k"]
        except KeyError as error:
            log.append(str(error))
            return x
        finally:
            log.append("done")

    run = wrap(f)
    out = times(run, n=2)
    d["k"] = 5.0
    return out, times(run, n=2), log


@program
def exception_of_an_operation_caught(wrap: Wrap) -> Any:
    def f(x: Any, y: Any) -> Any:
        try:
            return x @ y
        except RuntimeError:
            return x.sum()

    run = wrap(f)
    return [run(ones(2, 3), ones(3, 2)), run(ones(2, 3), ones(2, 3)), run(ones(2, 3), ones(3, 2))]


@program
def value_tried(wrap: Wrap) -> Any:
    def f(x: Any) -> Any:
        try:
            return x * float(x.sum())
        except Exception:
            return x * 100

    return times(wrap(f))


@program
def value_tried_for_a_branch(wrap: Wrap) -> Any:
    def f(x: Any) -> Any:
        try:
            if x.sum() > 1:
                return x * 2
        except (TypeError, RuntimeError, ValueError):
            pass
        return x * 3

    return times(wrap(f))


@program
def chained_exceptions(wrap: Wrap) -> Any:
    def f(x: Any) -> Any:
        try:
            raise KeyError("a")
        except KeyError as error:
            raise ValueError("b") from error

    def kept() -> Any:
        try:
            wrap(f)(ones(1))
        except ValueError as error:
            return str(error), repr(error.__cause__)

    return kept()


@program
def own_exception_with_a_tensor(wrap: Wrap) -> Any:
    class Early(Exception):
        def __init__(self, value: Any) -> None:
            super().__init__("early")
            self.value = value

    def inner(x: Any) -> Any:
        raise Early(x * 2)

    def f(x: Any) -> Any:
        try:
            inner(x)
        except Early as early:
            return early.value + 1

    return times(wrap(f))


@program
def escaping_exception_with_a_tensor(wrap: Wrap) -> Any:
    class Stop(Exception):
        pass

    def f(x: Any) -> Any:
        raise Stop(x * 3)

    out = []
    for _ in range(2):
        try:
            wrap(f)(ones(2))
        except Stop as stop:
            out.append(stop.args[0])
    return out


@program
def assertion(wrap: Wrap) -> Any:
    def f(x: Any) -> Any:
        assert x.shape[-1] == 3, f"wrong size {x.shape[-1]}"
        return x * 2

    run = wrap(f)
    return [tried(run, ones(3)), tried(run, ones(2)), tried(run, ones(3))]


@program
def printing(wrap: Wrap) -> Any:
    s = [1]

    def f(x: Any) -> Any:
        s[0] += 1
        print("step", s[0], list(x.shape))
        return x * s[0]

    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        out = times(wrap(f))
    return out, told.getvalue()


@program
def printing_tensors(wrap: Wrap) -> Any:
    def f(x: Any) -> Any:
        print("sum", x.sum(), f"{x.mean()}")
        return x

    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        out = [wrap(f)(ones(2) * k) for k in range(3)]
    return out, told.getvalue()


@program
def logging_(wrap: Wrap) -> Any:
    logger = logging.getLogger("adjoint.test.programs")
    told = io.StringIO()
    handler = logging.StreamHandler(told)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    n = [0]

    def f(x: Any) -> Any:
        n[0] += 1
        logger.info("call %d", n[0])
        logger.debug("unheard")
        return x * n[0]

    out = times(wrap(f))
    logger.removeHandler(handler)
    return out, told.getvalue()


@program
def warning_that_is_an_error_inside(wrap: Wrap) -> Any:
    log: list[str] = []

    def f(x: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            warnings.filterwarnings("ignore", message="quiet")
            warnings.warn("quiet", RuntimeWarning, stacklevel=1)
            try:
                warnings.warn("loud", RuntimeWarning, stacklevel=1)
            except RuntimeWarning as error:
                log.append(str(error))
                x = x * 3
        return x

    return times(wrap(f)), log


@program
def warnings_recorded_inside(wrap: Wrap) -> Any:
    def f(x: Any) -> Any:
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            warnings.warn("heard", stacklevel=1)
        return x * len(heard)

    return times(wrap(f))
