"""`compile(fullgraph=False)`: what cannot be recorded runs as Python, as if never recorded."""

from __future__ import annotations

import copy
import functools
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn
from adjoint.engine.capture.breaks import RecordingFailed
from adjoint.engine.capture.recordings import retracing
from adjoint.engine.core.errors import CaptureError

calls = 0
latest: Any = 0


def loose(fn: Callable[..., Any]) -> Any:
    return ad.compile(fn, fullgraph=False)


class Box:
    """A plain object a function may write to."""

    def __init__(self) -> None:
        self.kept: Any = None
        self.count = 0


def with_item(x: Any, box: Box, log: list[Any], table: dict[str, Any]) -> Any:
    log.append((x * 2).sum().item())
    return x + max(1, log[-1])


def with_branch(x: Any, box: Box, log: list[Any], table: dict[str, Any]) -> Any:
    return x * 2 if x.sum() > 0 else x - 1


def with_number(x: Any, box: Box, log: list[Any], table: dict[str, Any]) -> Any:
    box.count += 1
    table["n"] = table.get("n", 0) + 1
    return x + box.count


def with_global(x: Any, box: Box, log: list[Any], table: dict[str, Any]) -> Any:
    global calls
    calls += 1
    return x + calls


def with_list(x: Any, box: Box, log: list[Any], table: dict[str, Any]) -> Any:
    log.append(len(log))
    log.append(x.sum())
    return x * len(log)


def with_dict(x: Any, box: Box, log: list[Any], table: dict[str, Any]) -> Any:
    table["last"] = table.get("last", 0) + x.sum()
    return x * 3


def with_attribute(x: Any, box: Box, log: list[Any], table: dict[str, Any]) -> Any:
    box.kept = x.exp() if box.kept is None else box.kept + x
    return box.kept * 2


def with_variable(x: Any, box: Box, log: list[Any], table: dict[str, Any]) -> Any:
    global latest
    latest = latest + x.sum()
    return x * 3


def with_numpy(x: Any, box: Box, log: list[Any], table: dict[str, Any]) -> Any:
    return ad.as_tensor(np.sort(x.numpy()))


def with_shape(x: Any, box: Box, log: list[Any], table: dict[str, Any]) -> Any:
    return x[x > 0]


def with_disabled(x: Any, box: Box, log: list[Any], table: dict[str, Any]) -> Any:
    return ad.compiler.disable(lambda y: y + 1)(x)


REFUSED = [
    with_item,
    with_branch,
    with_numpy,
    with_shape,
    with_disabled,
]


RECORDED = [with_dict, with_attribute, with_variable, with_number, with_global, with_list]


def numbers(values: list[Any]) -> list[Any]:
    return [v.tolist() if isinstance(v, ad.Tensor) else v for v in values]


def play(body: Callable[..., Any], transform: Callable[..., Any]) -> Any:
    """What three calls return and leave behind."""
    global calls, latest
    calls, latest = 0, ad.tensor(0.0)
    box, log, table = Box(), [0], {"m": 1}
    fn = transform(lambda x: body(x, box, log, table))
    out = [fn(ad.tensor(v)).tolist() for v in ([1.0, 2.0], [-1.0, -3.0], [0.5, 4.0])]
    held = box.kept if box.kept is None else box.kept.tolist()
    left = (box.count, calls, *numbers([*log, *table.values(), latest]))
    return out, held, left, list(table)


@pytest.mark.parametrize("body", RECORDED, ids=lambda f: f.__name__)
@pytest.mark.parametrize("transform", [loose, ad.compile])
def test_assigned_tensors_are_no_reason(body: Any, transform: Any) -> None:
    (got, held, left, keys), want = play(body, transform), play(body, lambda fn: fn)
    np.testing.assert_allclose(got, want[0], rtol=1e-6)
    assert (held is None) == (want[1] is None)
    if held is not None:
        np.testing.assert_allclose(held, want[1], rtol=1e-6)
    assert (left, keys) == want[2:]


def test_tensors_on_the_tape_are_no_reason() -> None:
    """What is kept of a loss can be asked for gradients, as without `compile`."""
    w = ad.ones(2, requires_grad=True)
    table: dict[str, Any] = {}

    def step(x: Any) -> Any:
        table["loss"] = (w * x).sum()
        return x

    fn = loose(step)
    for n in range(1, 4):
        fn(ad.full((2,), float(n)))
        w.grad = None
        table["loss"].backward()
        assert w.grad.tolist() == [n, n]
    assert fn.traces == 1


@pytest.mark.parametrize("body", REFUSED, ids=lambda f: f.__name__)
def test_refused_functions_run_as_python(body: Callable[..., Any]) -> None:
    """Results and everything left behind are those of the function itself, call by call."""
    with pytest.warns(UserWarning, match="runs as Python") as caught:
        got = play(body, loose)
    assert got == play(body, lambda fn: fn)
    assert len(caught) == 1
    assert "test_compile_breaks.py:" in str(caught[0].message)
    box, log, table = Box(), [0], {"m": 1}
    with pytest.raises(RuntimeError):
        ad.compile(lambda x: body(x, box, log, table))(ad.ones(2))
    assert (box.kept, box.count, log, table) == (None, 0, [0], {"m": 1})  # as before


def test_a_training_step_that_reports_its_loss(capsys: pytest.CaptureFixture[str]) -> None:
    """What is printed is printed at each call, with the loss of that call."""

    def train(transform: Callable[..., Any]) -> list[float]:
        ad.manual_seed(0)
        layer = nn.Linear(3, 1)
        opt = ad.optim.Adam(layer.parameters(), lr=0.1)

        def step(x: Any) -> Any:
            loss = layer(x).square().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            print("loss", loss)
            return loss

        step = transform(step)
        losses = [float(step(ad.ones(2, 3))) for _ in range(4)]
        assert opt.state[layer.weight]["step"] == 4
        return losses

    got = train(loose)
    printed = capsys.readouterr().out.splitlines()
    assert [round(float(line[12:18]), 4) for line in printed] == [round(x, 4) for x in got]
    np.testing.assert_allclose(got, train(lambda fn: fn), rtol=1e-5)


def counted() -> Any:
    numbers = (float(n) for n in range(9))
    return lambda x: x * next(numbers)


def informed() -> Any:
    double = functools.lru_cache(lambda n: 2 * n)
    double(3)  # an answer that is not there yet is computed by Python
    return lambda x: x * (double(3) + double.cache_info().hits)


def looked_at() -> Any:
    w = ad.ones(1, requires_grad=True)

    def f(x: Any) -> Any:
        with ad.autograd.set_detect_anomaly(True):
            return ad.autograd.grad((w * x).sum(), w)[0]

    return f


def stepping(change: Callable[[Any], Any]) -> Callable[[], Any]:
    """A step that changes its optimizer."""

    def make() -> Any:
        w = nn.Parameter(ad.ones(1))
        opt = ad.optim.Adam([w], lr=0.1)

        def step(x: Any) -> Any:
            opt.zero_grad()
            (w * x).sum().backward()
            change(opt)
            opt.step()
            return w.detach().clone()

        step(ad.ones(1))  # there is a state to change
        return step

    return make


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (counted, "a generator from outside.*Make the iterator"),
        (informed, "cache_info.*outside"),
        (looked_at, "backward in anomaly mode: each gradient.*Turn the mode off"),
        (stepping(lambda opt: opt.state.clear()), "Adam.step: state .* taken away.*outside"),
        (stepping(lambda opt: opt.load_state_dict(opt.state_dict())), "Adam.load_state_dict"),
    ],
)
@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_what_counts_on_outside_is_refused_with_its_line(make: Any, said: str) -> None:
    with pytest.raises(CaptureError, match=said) as caught:
        ad.compile(make())(ad.ones(1))
    assert f"{__file__}:" in str(caught.value)
    plain, loose = make(), ad.compile(make(), fullgraph=False)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert [loose(ad.ones(1)).item() for _ in range(3)] == [
            plain(ad.ones(1)).item() for _ in range(3)
        ]
    assert len(told) == 1


def test_what_can_be_recorded_is_recorded() -> None:
    fn = loose(lambda x: (x * x).sum())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [float(fn(ad.ones(n))) for n in (2, 2, 3)] == [2, 2, 3]
    assert fn.traces == 2


def test_refused_once_per_signature() -> None:
    runs: list[None] = []

    def fn(x: Any, flip: bool) -> Any:
        runs.append(None)
        return -x if flip and x.sum() > 0 else x

    compiled = loose(fn)
    with pytest.warns(UserWarning, match="runs as Python"):
        compiled(ad.ones(2), True)  # recorded in vain, then run
    assert len(runs) == 1  # the attempt left no trace
    compiled(ad.ones(2), True)
    assert (len(runs), compiled.traces) == (2, 1)
    compiled(ad.ones(2), False)
    compiled(ad.ones(2), False)
    assert (len(runs), compiled.traces) == (4, 2)  # this signature is a program


def test_many_refusals_stop_the_attempts() -> None:
    fn = loose(lambda x: x * max(1, x.sum().item()))
    with pytest.warns(UserWarning, match="runs as Python"):
        results = [fn(ad.ones(n)).shape[0] for n in range(1, 30)]
    assert results == list(range(1, 30))
    assert fn.traces < 12


def test_arguments_that_cannot_be_hashed() -> None:
    fn = loose(lambda x: ad.ones(len(x)) * 2)
    with pytest.warns(UserWarning, match="cannot be hashed"):
        assert fn(bytearray(2)).tolist() == [2, 2]
    assert fn(bytearray(3)).tolist() == [2, 2, 2]


def test_errors_of_the_function_are_its_own() -> None:
    fn = loose(lambda x: x @ ad.ones(3, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeError, match="matmul") as caught:
            fn(ad.ones(2, 2))
        assert not isinstance(caught.value.__context__, RecordingFailed)
        assert fn(ad.ones(1, 3)).tolist() == [[3, 3, 3]]


class Counting(nn.Module):
    """A module whose forward counts."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 1)
        self.calls = 0

    def forward(self, x: Any) -> Any:
        self.calls += 1
        return self.layer(x)


def test_modules_copies_and_pickles() -> None:
    compiled = ad.compile(Counting(), fullgraph=False)
    for module in (compiled, copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))):
        for _ in range(2):
            module(ad.ones(1, 2)).sum().backward()
        assert module.calls == 2
        assert module.layer.weight.grad.tolist() == [[2, 2]]


def test_methods_of_instances() -> None:
    class Meter:
        @ad.compile(fullgraph=False)
        def read(self, x: Any) -> Any:
            return max(1, x.sum().item())

    with pytest.warns(UserWarning, match="runs as Python"):
        assert Meter().read(ad.ones(3)) == 3.0


class Rows:
    """A cache that a call replaces by a longer one."""

    def __init__(self) -> None:
        self.seen = ad.zeros(1, 2)


@pytest.mark.filterwarnings("ignore:compile. .*was recorded 9 times:UserWarning")
def test_what_is_longer_in_every_call_is_left_to_python_after_some() -> None:
    def extend(rows: Rows, x: Any) -> Any:
        rows.seen = ad.cat([rows.seen, x])
        return rows.seen.sum(0)

    compiled = loose(extend)
    for _ in range(2):
        ours, theirs = Rows(), Rows()
        for step in range(14):
            x = ad.full((1, 2), float(step))
            assert compiled(ours, x).tolist() == extend(theirs, x).tolist()
            assert ours.seen.tolist() == theirs.seen.tolist()
    assert compiled.traces < 14


def test_recordings_that_are_used_again_go_on_being_made() -> None:
    history = retracing.Retraces(lambda: None)
    worthwhile = [history.is_worthwhile(used_again=False) for _ in range(64)]
    many = retracing.LIMIT + 1
    assert all(worthwhile[:many])
    assert [n for n in range(many + 1, 65) if worthwhile[n - 1]] == [16, 32, 64]
    assert history.is_worthwhile(used_again=True)
    assert history.is_worthwhile(used_again=False)


def test_who_looks_at_the_tape_from_outside() -> None:
    """A recording made before does not answer in their place."""

    def f(x: Any) -> Any:
        leaf = x.detach().requires_grad_()
        (leaf.sqrt() * leaf).sum().backward()
        return leaf.grad

    def packed() -> Any:
        return ad.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t)

    strict, easy = ad.compile(f, backend="interpret"), ad.compile(f, fullgraph=False)
    for run in (strict, easy):
        assert run(ad.ones(2)).tolist() == [1.5, 1.5]
    with packed(), pytest.raises(CaptureError, match=r"saved-tensor hooks.*test_compile_breaks.py"):
        strict(ad.ones(2))
    with packed(), pytest.warns(UserWarning, match="runs as Python"):
        assert easy(ad.ones(2)).tolist() == f(ad.ones(2)).tolist() != [1.5, 1.5]
    with ad.autograd.set_detect_anomaly(True):
        with pytest.raises(CaptureError, match="anomaly mode"):
            strict(ad.ones(2))
        with pytest.raises(RuntimeError, match="nan"):
            easy(-ad.ones(2))
    assert "saved-tensor hooks" in easy.recordings()


def test_a_checkpoint_around_a_compiled_function() -> None:
    block = ad.compile(lambda x: x.exp() * x, fullgraph=False)
    x = ad.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="runs as Python"):
        out = ad.utils.checkpoint.checkpoint(block, x, use_reentrant=False)
    out.sum().backward()
    np.testing.assert_allclose(x.grad.tolist(), [2 * np.e] * 2, rtol=1e-6)


def test_a_first_call_that_makes_something_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    layer = nn.LazyLinear(2)
    run = ad.compile(lambda x: layer(x))
    caplog.set_level("INFO", "adjoint.compile")
    first, second = run(ad.ones(1, 3)), run(ad.ones(1, 3))
    assert first.tolist() == second.tolist()
    assert "Python does this call: materialize" in caplog.text
    assert "1 program, " in run.recordings()
    assert "ran as Python: materialize" in run.recordings()
    assert "test_compile_breaks.py" in run.recordings()


def test_what_is_made_in_every_call_is_refused() -> None:
    w = nn.Parameter(ad.ones(1))
    steps = []

    def step(x: Any) -> Any:
        opt = ad.optim.SGD([w], lr=0.1)
        steps.append(opt)
        return x

    run = ad.compile(step)
    for _ in range(3):
        run(ad.ones(1))
    with pytest.raises(CaptureError, match=r"SGD: it is made .*test_compile_breaks.py.*outside"):
        run(ad.ones(1))
    assert len(steps) == 3
