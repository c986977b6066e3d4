"""Programs of the GPU's target equal eager execution, in Triton's interpreter.

Triton decides when it is loaded whether it interprets, so these run in one process of their own.
"""

from __future__ import annotations

import gc
import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.interpreted_process import run_text_by_interpreter
from tests.triton_programs import PROGRAMS

pytest.importorskip("triton", reason="Triton (`pip install adjoint[cuda]`) interprets the kernels")
QUICK = (
    "chain", "complex", "complex and numbers", "bfloat16", "numbers beside halves", "integers", "extremes", "norm", "columns that are read", "long rows", "picked", "put", "draws",
    "beams", "extremes with NaN", "integer products", "grouped products of halves", "scaled products to halves",
)  # fmt: skip


def compare(names: tuple[str, ...], optimizers: tuple[str, ...], steps: int) -> None:
    """Run programs both ways; called in a process that interprets."""
    import adjoint as ad

    importlib.import_module("tests.triton_interpreter")
    programs = importlib.import_module("tests.triton_programs")
    for name in names:
        fn, arguments = programs.PROGRAMS[name]
        compiled = ad.compile(fn, backend="interpreted-triton")
        for seed in range(2):
            ad.manual_seed(seed)
            given = arguments()
            ad.manual_seed(seed)
            want = fn(*given)
            ad.manual_seed(seed)
            rough = 2e-2 if "halves" in name else 1e-4
            ad.testing.assert_close(compiled(*given), want, rtol=rough, atol=rough, equal_nan=True)
    for optimizer in optimizers:
        want = programs.training("eager", optimizer, steps=steps)
        for backend in ("interpreted-triton", "mirrored-triton"):
            losses = programs.training(backend, optimizer, steps=steps)
            assert losses == pytest.approx(want, rel=1e-5), backend


def compare_random(count: int, drawn: int) -> None:
    """Run random programs both ways; called in a process that interprets."""
    from hypothesis import HealthCheck, Phase, given, seed, settings

    importlib.import_module("tests.triton_interpreter")
    native = importlib.import_module("tests.test_native_programs")
    random = importlib.import_module("tests.random_programs")

    @settings(
        max_examples=count, deadline=None, suppress_health_check=list(HealthCheck), database=None,
        phases=[Phase.generate],
    )  # fmt: skip
    @seed(drawn)
    @given(random.programs(12))
    def run(program: Any) -> None:
        with np.errstate(all="ignore"):
            want = native.observe(program, "interpret")
            got = native.observe(program, "interpreted-triton")
        native.agree(got, want, 0.25 if native.halves(program) else 0.0, "in Triton")

    run()


def in_order(names: tuple[str, ...]) -> None:
    """Deterministic sums have the CPU's bits; and all runs on the GPU, where it is one program."""
    import adjoint as ad
    from adjoint.engine.compiler.schedule.steps import EagerCall

    importlib.import_module("tests.triton_interpreter")
    programs = importlib.import_module("tests.triton_programs")
    ad.use_deterministic_algorithms(True)
    for name in names:
        fn, arguments = programs.PROGRAMS[name]
        ad.manual_seed(0)
        given = arguments()
        compiled = ad.compile(fn, backend="interpreted-triton")
        ad.testing.assert_close(compiled(*given), fn(*given), rtol=0.0, atol=0.0)
        executable: Any = compiled.latest.executable
        assert not any(isinstance(step, EagerCall) for step in executable.plan.steps), name
    ad.use_deterministic_algorithms(False)


def reduction_from_outside() -> None:
    """A step in registers is all that a reduction needs here; called in a process that interprets."""
    import adjoint as ad
    from adjoint.engine.compiler.schedule.steps import EagerCall

    importlib.import_module("tests.triton_interpreter")
    outside = importlib.import_module("tests.test_new_operations")
    ad.manual_seed(0)
    with outside.exponentials_added() as record:
        for shape, dims in (((3, 20), (1,)), ((37, 5), (0,)), ((2, 3000), (0, 1))):
            x = ad.randn(shape)

            def reduced(x: Any, dims: Any = dims) -> Any:
                return record(x * 2, dims=dims, keepdim=False) - 1

            compiled = ad.compile(reduced, backend="interpreted-triton")
            ad.testing.assert_close(compiled(x), reduced(x), rtol=1e-4, atol=1e-4)
            executable: Any = compiled.latest.executable
            assert not any(isinstance(step, EagerCall) for step in executable.plan.steps)


def mirrored_loops() -> None:
    """What is partly on the CPU may have loops; called in a process that interprets."""
    import adjoint as ad

    importlib.import_module("tests.triton_interpreter")

    def turns(x: Any) -> Any:
        return ad.scan(lambda c, row: ((c * row).tanh(), c + row), ad.ones(4), x)

    x = ad.randn(3, 4)
    compiled = ad.compile(turns, backend="mirrored-triton")
    for _ in range(2):
        ad.testing.assert_close(compiled(x), turns(x), rtol=1e-5, atol=1e-5)


def several_sizes() -> None:
    """Each size has a plan of its own, made of one recording; called in a process that interprets."""
    import adjoint as ad

    importlib.import_module("tests.triton_interpreter")
    net = ad.nn.Linear(3, 4)
    compiled = ad.compile(lambda x, k: net(x).softmax(0) * k, backend="interpreted-triton")
    for n, k in ((6, 2), (4, 3), (9, 5), (5, 7), (4, 9)):
        x = ad.randn(n, 3)
        ad.testing.assert_close(compiled(x, k), net(x).softmax(0) * k, rtol=1e-5, atol=1e-5)
        compiled(x, k).sum().backward()
    assert compiled.traces == 2
    assert not any(p.shares_plans for held in compiled.programs.values() for p in held)
    for rows, columns, dtype in ((0, 3, ad.float32), (2, 0, ad.float32), (0, 3, ad.bfloat16)):
        empty = ad.nn.Linear(columns, 4, dtype=dtype)
        x = ad.randn(rows, columns, dtype=dtype)
        got = ad.compile(empty, backend="interpreted-triton")(x)
        ad.testing.assert_close(got, empty(x))


def profile() -> None:
    """Kernels have rows with their operations and lines; called in a process that interprets."""
    import adjoint as ad

    importlib.import_module("tests.triton_interpreter")
    compiled = ad.compile(lambda x: (x * 2).exp().sum(1) + 1, backend="interpreted-triton")
    x = ad.ones(3, 5)
    compiled(x)
    with ad.profiler.profile(with_flops=True) as seen:
        compiled(x)
    kernels = [row for row in seen.key_averages() if row.device == "interpreter"]
    assert {"exp", "sum"} <= {name for row in kernels for name in row.operations}
    assert all(row.self_device_time_total > 0 and row.cpu_time_total == 0 for row in kernels)
    assert any("test_triton_interpreted" in line for row in kernels for line in row.lines)
    executable: Any = compiled.latest.executable
    assert any("@triton.jit" in text for text in executable.sources().values())
    assert "tl.load" in "".join(executable.sources().values())


def results_held() -> None:
    """Results that somebody holds stay, though captured products know where they were put."""
    import adjoint as ad

    importlib.import_module("tests.triton_interpreter")
    ad.manual_seed(0)
    w = ad.randn(256, 256) / 16

    def products(x: Any) -> Any:
        for _ in range(4):
            x = x @ w
        return x, x @ w, x.sum()

    compiled = ad.compile(products, backend="interpreted-triton")
    rng = np.random.default_rng(0)
    held: list[tuple[Any, Any]] = []
    for _ in range(16):
        x = ad.randn(16, 256)
        found = compiled(x)
        held += [(found, products(x))]
        if rng.random() < 0.3:
            held.pop(int(rng.integers(len(held))))
        for got, want in held:
            ad.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
    executable: Any = compiled.latest.executable
    assert executable.results.fixed == [True, True, False]
    assert (
        max(executable.results.moves)
        > importlib.import_module("adjoint.engine.backends.triton.program.banks").MOVES
    )  # by which they are copies


def late_faults() -> None:
    """What kernels find is raised where the host waits, or by a later call; state stays."""
    import adjoint as ad
    from adjoint.engine.core.state import late_faults as late

    importlib.import_module("tests.triton_interpreter")
    w = ad.randn(10, 16)

    def update(i: Any) -> Any:
        y = w[i].sum()
        w.mul_(0.5)
        return y

    good, bad = ad.tensor([1, 2]), ad.tensor([1, 99])
    compiled = ad.compile(update, backend="interpreted-triton")
    compiled(good)
    late.look()
    before = w.clone()
    compiled(bad)
    with pytest.raises(IndexError, match="99") as caught:
        late.look()
    assert __file__ in caught.value.__notes__[0]
    late.look()  # once
    ad.testing.assert_close(w, before)
    compiled(bad)
    with pytest.raises(IndexError, match="99"):
        compiled(good)
    ad.testing.assert_close(w, before)
    compiled(good)
    late.look()
    ad.testing.assert_close(w, before * 0.5)
    # Nothing is written here, but others might write what it returns: they wait for it, unless
    # their kernels look for themselves.
    picks = ad.compile(lambda i: w[i] * 2, backend="interpreted-triton")
    third = ad.compile(lambda i: w[i] * 3, backend="interpreted-triton")
    others: dict[str, Callable[[], Any]] = {
        "a wait": late.look,
        "its next call": partial(picks, good),
        "what writes in place": late.settle,
        "what is added to a gradient": lambda: x.sum().backward(),
    }
    x = ad.ones(3, requires_grad=True)
    x.grad = ad.ones(3)
    for other in list(others.values()):
        picks(bad)
        with pytest.raises(IndexError, match="99"):
            other()
        late.look()  # once
        ad.testing.assert_close(x.grad, ad.ones(3))
        ad.testing.assert_close(w, before * 0.5)
    later: dict[str, Callable[[], Any]] = {
        "a program that writes": partial(compiled, good),
        "a gradient": lambda: ad.autograd.grad((x * 2).sum(), x),
        "a program that finds something, too": partial(third, ad.tensor([77])),
    }
    for other in later.values():
        picks(bad)
        other()
        with pytest.raises(IndexError, match="99") as caught:
            late.look()
        assert __file__ in caught.value.__notes__[0]
        late.look()  # once
        ad.testing.assert_close(w, before * 0.5)
    compiled(good)
    late.look()
    ad.testing.assert_close(w, before * 0.25)
    picks(bad)
    others.clear()
    del picks
    gc.collect()
    with pytest.raises(IndexError, match="99"):
        late.look()  # the program is gone
    for size in (8, 1500):  # in a line that is one tile, and in one of several
        x = ad.randn(3, size)
        puts = ad.compile(lambda x, i: (x * 2).scatter(1, i, 3.0), backend="interpreted-triton")
        for index in (size, -1, size + 2**33):
            puts(x, ad.tensor([[0], [index], [2]]))
            with pytest.raises(RuntimeError, match=f"index {index} is out of bounds"):
                late.look()


def in_a_process(names: tuple[str, ...], optimizers: tuple[str, ...], steps: int = 4) -> None:
    run_script(
        f"t.compare({names!r}, {optimizers!r}, {steps}); t.profile(); t.mirrored_loops(); t.several_sizes()"
    )


def run_script(call: str) -> None:
    run_text_by_interpreter(f"import tests.test_triton_interpreted as t; {call}")


def test_programs_equal_eager() -> None:
    in_a_process(QUICK, ("AdamW",), 2)  # a step of it takes seconds


def test_rows_in_order_have_the_cpu_s_bits() -> None:
    run_script("t.in_order(('put',))")


@pytest.mark.slow
def test_scatters_in_order_have_the_cpu_s_bits() -> None:
    run_script("t.in_order(('scattered',))")


def test_a_reduction_from_outside() -> None:
    run_script("t.reduction_from_outside()")


def test_faults_are_told_where_the_host_waits() -> None:
    run_script("t.late_faults()")


def test_calls_on_several_streams_are_in_order() -> None:
    run_script("import tests.queued_streams as q; q.check(0); q.check(1); q.check_reader()")


def test_programs_write_all_or_nothing_whatever_other_streams_report() -> None:
    run_script(
        "import tests.queued_streams as q; [q.check_faults(k) for k in range(4)]; "
        "q.check_fault_before()"
    )


def test_results_that_are_held_stay() -> None:
    run_script("t.results_held()")


def test_rows_are_put_into_state_where_it_lies() -> None:
    run_script(
        "import tests.triton_interpreter; from tests.triton_programs import put_into_state; "
        "put_into_state('cpu', backend='interpreted-triton')"
    )


# The interpreter scans element by element: minutes for long lines, which a GPU's tests have.
@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "running long"])
def test_all_programs_equal_eager(name: str) -> None:
    in_a_process((name,), ())


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["AdamW", "SGD"])
def test_training_equals_eager(optimizer: str) -> None:
    in_a_process((), (optimizer,))


@pytest.mark.slow
def test_weights_of_few_bits_are_multiplied_as_in_float64() -> None:
    run_script(
        "import tests.triton_interpreter, adjoint as ad; from tests.grouped_products import check; "
        "kinds = ad.float32, ad.bfloat16, ad.float16; "
        "check('cpu', kinds, ('compiled',), many=(33,), backend='interpreted-triton')"
    )


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_random_programs_equal_the_interpreter(part: int) -> None:
    run_script(f"t.compare_random(15, {part})")
