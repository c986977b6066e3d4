"""Random programs compiled to native code: they agree with the reference interpreter.

`ADJOINT_FUZZ=5000 pytest tests/test_native_programs.py` runs so many examples of each kind;
`pytest -m slow tests/test_native_programs.py` some thousand fused ones.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import adjoint as ad
from adjoint.compiler import compile
from adjoint.engine.backends.llvm.target import LlvmTarget
from adjoint.engine.backends.llvm.templates.groups.kernel import groups_text
from adjoint.engine.backends.llvm.templates.searching.weighed import Weighed
from adjoint.engine.compiler.package import image_maker
from adjoint.engine.compiler.package.naming import name_of
from adjoint.engine.compiler.schedule.steps import Launch
from tests.compiling_anew import compiled_anew
from tests.random_programs import Program, function, fused_programs, is_float, lay, programs

EXAMPLES = int(os.environ.get("ADJOINT_FUZZ", "40"))
CALLS = 3
FINE = {"float64": 1e-5, "float32": 1e-3, "bfloat16": 0.25, "float16": 0.05}
SLOW = 3000
# Of fused programs, whose functions are smooth, by whether float32 occurs in them.
FUSED = {True: 2e-3, False: 1e-8}


@pytest.fixture(autouse=True)
def _as_many_threads() -> Iterator[None]:
    before = ad.get_num_threads()
    yield
    ad.set_num_threads(before)


def observe(program: Program, backend: str | None, threads: int = 1) -> list[Any]:
    """All that three calls return, change and draw; arrays, or texts of errors."""
    ad.manual_seed(1)
    ad.set_num_threads(threads)
    rng = np.random.default_rng(0)
    states: list[Any] = []
    for spec in program.states:
        states.append(lay(rng, spec, states))
    run: Any = function(program, states)
    if backend is not None:
        run = compile(run, backend=backend)
    seen: list[Any] = []
    for _ in range(CALLS):
        arguments: list[Any] = []
        for spec in program.arguments:
            arguments.append(lay(rng, spec, arguments))
        try:
            outs, grads, exact = run(*arguments)
        except (RuntimeError, IndexError, ValueError) as error:
            seen.append(type(error))
            break
        everything = [*outs, *grads, *arguments, *states]
        seen.append(("exact", exact))
        seen.append(("shared", sharing([*outs, *arguments, *states])))
        seen += [None if t is None else t.detach().numpy().copy() for t in everything]
        seen += [None if t is None else t.dtype.name for t in everything]
    seen.append(ad.rand(2).numpy())
    return seen


def sharing(tensors: list[Any]) -> list[int]:
    """Which tensors show the same memory."""
    first: dict[Any, int] = {}
    return [first.setdefault(t._storage.identity, k) for k, t in enumerate(tensors)]


def halves(program: Program) -> bool:
    named = {g.dtype for g in (*program.arguments, *program.states)}
    return bool(named & {"float16", "bfloat16"}) or any(step[0] == "cast" for step in program.body)


def agree(
    got: list[Any], want: list[Any], limit: float | None, what: str, by_array: bool = False
) -> None:
    """Equal, floats within a limit (relative to the largest number around), or to the bit."""
    assert len(got) == len(want), what
    arrays = [w.astype(float) for w in want if isinstance(w, np.ndarray)]
    scale = max([1.0, *(np.abs(w[np.isfinite(w)]).max(initial=0) for w in arrays)])
    for k, (g, w) in enumerate(zip(got, want, strict=True)):
        if not isinstance(w, np.ndarray):
            assert g == w, f"{what} [{k}]"
        elif limit is None:
            assert g.dtype == w.dtype
            assert g.shape == w.shape
            assert g.tobytes() == w.tobytes(), f"{what} [{k}]:\n{g}\n{w}"
        elif w.dtype.kind in "biu":
            np.testing.assert_array_equal(g, w, err_msg=f"{what} [{k}]")
        elif by_array:
            largest = max(1.0, np.abs(w[np.isfinite(w)]).max(initial=0))
            np.testing.assert_allclose(g, w, 0, limit * largest, err_msg=f"{what} [{k}]")
        else:
            fine = max(limit, FINE[w.dtype.name])
            np.testing.assert_allclose(
                g.astype(float), w.astype(float), fine, fine * scale, err_msg=f"{what} [{k}]"
            )


def check(program: Program) -> None:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        want = observe(program, "interpret")
        one = observe(program, "native", 1)
        limit = 0.25 if halves(program) else 0.0
        agree(one, want, limit, "native against the interpreter")
        agree(observe(program, "native", 2), one, None, "2 threads against 1")
        agree(observe(program, "native", 3), one, None, "3 threads against 1")


def single(program: Program) -> bool:
    """Whether a fused program computes something in float32."""
    cast = any(step[0] == "cast_float" for step in program.body)
    return cast or program.arguments[0].dtype == "float32"


def check_fused(program: Program) -> None:
    """Values and gradients inside, and gradients from outside."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        want = observe(program, "interpret")
        one = observe(program, "native", 1)
        limit = FUSED[single(program)]
        agree(one, want, limit, "native against the interpreter", by_array=True)
        agree(observe(program, "native", 2), one, None, "2 threads against 1")
        outside = dataclasses.replace(program, grad=False)
        got, want = gradients(outside, "native"), gradients(outside, "interpret")
        agree(got, want, limit, "gradients of a native program", by_array=True)


@contextlib.contextmanager
def in_parts() -> Iterator[None]:
    """Have the smallest programs divided among workers, and their sums into parts."""
    # Programs of other tests are divided differently.
    with compiled_anew(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(image_maker, "ALONE", 0.0)
        patch.setattr(image_maker, "SERIAL", 0.0)
        patch.setattr(LlvmTarget, "long", 4)
        yield


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_programs(program: Program) -> None:
    check(program)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(20))
def test_programs_in_parts(program: Program) -> None:
    """Everything is divided among workers, sums go by parts, kernels are small."""
    with in_parts():
        check(program)


def gradients(program: Program, backend: str) -> list[Any]:
    """Gradients of what a compiled program returns, asked for outside it; or the error."""
    rng = np.random.default_rng(0)
    run: Any = compile(function(program, []), backend=backend)
    seen: list[Any] = []
    for _ in range(2):
        ad.manual_seed(1)
        arguments: list[Any] = []
        for spec in program.arguments:
            arguments.append(lay(rng, spec, arguments))
        leaves = [x.requires_grad_() for x in arguments if is_float(x) and x._base is None]
        try:
            outs, _, _ = run(*arguments)
            outs = [t for t in outs if is_float(t) and t.requires_grad]
            loss = sum((t * t * 0.25).sum().to(ad.float64) for t in outs)
            grads = ad.autograd.grad(loss, leaves, allow_unused=True) if outs else ()
        except (RuntimeError, IndexError, ValueError) as error:
            return [*seen, type(error)]
        # What is None for one and zero for the other is nothing to both.
        seen += [
            np.zeros(x.shape) if g is None else g.numpy().copy()
            for x, g in zip(leaves, grads or [None] * len(leaves), strict=True)
        ]
    return seen


@settings(max_examples=EXAMPLES // 2, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_gradients_from_outside(program: Program) -> None:
    program = dataclasses.replace(program, states=(), grad=False)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        limit = 0.25 if halves(program) else 0.0
        got, want = gradients(program, "native"), gradients(program, "interpret")
        agree(got, want, limit, "gradients of a native program")


@settings(max_examples=EXAMPLES // 8, deadline=None, suppress_health_check=list(HealthCheck))
@given(fused_programs())
def test_fused_programs(program: Program) -> None:
    check_fused(program)


@pytest.mark.slow
@settings(max_examples=SLOW, deadline=None, suppress_health_check=list(HealthCheck))
@given(fused_programs(20))
def test_many_fused_programs(program: Program) -> None:
    check_fused(program)


@pytest.mark.slow
@settings(max_examples=SLOW // 3, deadline=None, suppress_health_check=list(HealthCheck))
@given(fused_programs(20))
def test_many_fused_programs_in_parts(program: Program) -> None:
    with in_parts():
        check_fused(program)


# -- what was found this way ---------------------------------------------------------------------


def both(fn: Any, *arguments: Any) -> tuple[Any, Any]:
    """What a function returns, eagerly and compiled."""
    want = fn(*arguments)
    return compile(fn, backend="native")(*arguments).numpy(), want.numpy()


def test_a_softmax_of_one_number() -> None:
    """Nothing varies along the rows, and yet every element must be written."""
    got, want = both(lambda x: ad.zeros_like(x).softmax(-1), ad.ones(3, 5))
    np.testing.assert_array_equal(got, want)


def test_a_mean_spread_over_what_it_was_taken_of() -> None:
    got, want = both(lambda x: x.mean(0, keepdim=True).expand(7).clone(), ad.arange(7.0))
    np.testing.assert_allclose(got, want)


def test_empty_state_is_written() -> None:
    state = ad.ones(0)
    compile(lambda x: state.copy_(x), backend="native")(ad.ones(()))
    assert state.shape == (0,)


def test_a_kernel_picks_from_memory_only() -> None:
    """The gather reads any element: what it reads cannot be made by the same kernel."""

    def fn(x: Any, at: Any) -> Any:
        y = x * 2
        picked = (y.gather(0, at + 1) * 3) + 1
        return picked + y

    got, want = both(fn, ad.arange(4.0), ad.tensor([2, 0, 1, 1]))
    np.testing.assert_array_equal(got, want)


def test_a_kernel_reads_part_of_what_it_joins() -> None:
    def fn(x: Any, y: Any) -> Any:
        doubled = x * 2
        return (y.sin() + doubled[1:2]) + doubled

    got, want = both(fn, ad.arange(4.0), ad.arange(4.0))
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_random_numbers_reduced_by_columns() -> None:
    """A vector of neighbours begins a block of the generator only where rows are whole blocks."""

    def fn(x: Any) -> Any:
        ad.manual_seed(3)
        return ad.rand(5, 33).sum(0) + x

    want = fn(ad.zeros(33))
    ad.manual_seed(3)
    got = compile(lambda x: ad.rand(5, 33).sum(0) + x, backend="native")(ad.zeros(33))
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-6)


def test_overlapping_memory_is_not_written_in_a_capture() -> None:
    def fn(x: Any) -> Any:
        x.clone().expand(3).add_(1)
        return x

    for run in (fn, compile(fn, backend="native")):
        with pytest.raises(RuntimeError, match="single memory location"):
            run(ad.ones(1))


def test_elements_named_by_their_place_in_memory() -> None:
    """`x * 1` is x to the compiler, which may lie otherwise than the product would have."""
    stepped = ad.arange(16.0)[::2]
    for x in (stepped, ad.arange(8.0), ad.arange(12.0).reshape(3, 4).t()):
        for fn in (
            lambda x: (x * 1).as_strided((2, 3), (1, 2), 1),
            lambda x: (x + 1).as_strided((2, 3), (1, 2), 1),
        ):
            got, want = both(fn, x)
            np.testing.assert_array_equal(got, want)

    def write(x: Any) -> Any:
        y = x * 1
        y.as_strided((2, 3), (1, 2), 1).add_(1)
        return y

    got, want = both(write, stepped)
    np.testing.assert_array_equal(got, want)


def test_no_two_templates_have_functions_of_one_name() -> None:
    """Functions are found by name, also by later processes: one template would run another's."""

    def name(text: Any) -> str:
        return name_of(Launch("looking", [], (), (), pieces=1, cost=1, text=text))

    def other(name: str) -> Any:
        return name, set()

    form = Weighed("f32", few=False)
    texts = [form.looking, lambda name: other(name), partial(groups_text, form=None)]
    assert len({name(text) for text in texts}) == 3
    assert name(form.looking) == name(Weighed("f32", few=False).looking)
