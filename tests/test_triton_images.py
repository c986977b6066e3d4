"""Convolutions, pools and norms of the GPU's target: plans, kernels for every generation of GPU, and
results in Triton's interpreter, where cuDNN is the eager table of the CPU."""

from __future__ import annotations

import importlib
import warnings
from dataclasses import replace
from math import inf
from typing import Any

import pytest

import adjoint as ad
from adjoint.engine.backends.array.libraries import convolutions
from adjoint.engine.backends.array.libraries.convolutions import Convolution, convolution_of
from adjoint.engine.backends.array.libraries.cudnn import Candidates
from adjoint.engine.backends.triton import remake
from adjoint.engine.backends.triton.target import TritonTarget
from adjoint.engine.compiler.executors import register_backend
from adjoint.engine.compiler.options import chosen
from adjoint.engine.compiler.schedule.build import plan_for
from adjoint.engine.compiler.schedule.steps import EagerCall, Launch
from adjoint.engine.graph.execution import interpreted
from adjoint.engine.graph.passes.pipeline import run_passes
from adjoint.engine.ops.image import convolution_functions as functions
from adjoint.nn import functional as F

from .triton_images import IMAGE_PROGRAMS, SmallResNet, distance, furthest, train_images


class Everything:
    """Somebody who runs every convolution."""

    def room(self, call: Convolution) -> int:
        return 16


class CpuTarget(TritonTarget):
    name = "triton on the cpu"
    device = "cpu"


def planned(run: Any, convolver: Any = None) -> list[Any]:
    """The steps of the programs that `run` makes with a backend."""
    found: list[Any] = []

    def maker(mode: str, options: dict[str, Any]) -> Any:
        def executable(task: Any) -> Any:
            target = CpuTarget(convolver=convolver)
            found.extend(plan_for(task, target, chosen(mode, options)).steps)
            return interpreted(task)

        return executable

    register_backend("planned-images", maker)
    run("planned-images")
    return found


def calls_of(steps: list[Any]) -> list[Convolution]:
    launches = [step for step in steps if isinstance(step, Launch)]
    return [k for step in launches for k in step.kernels if isinstance(k, Convolution)]


@pytest.mark.parametrize("convolver", [None, Everything()])
def test_a_step_of_a_network_calls_no_eager_table(convolver: Any) -> None:
    steps = planned(lambda backend: train_images(backend, True, 1), convolver)
    assert not [step.label for step in steps if isinstance(step, EagerCall)]
    names = [step.function for step in steps]
    assert sum(name.startswith("pool") for name in names) == 2
    if convolver is not None:
        calls = calls_of(steps)
        assert len(calls) == 4 + 4 + 3  # nobody asks for the gradient of the batch
        assert all(call.channels_last and call.dtype == "bfloat16" for call in calls)


@pytest.mark.parametrize("name", ["resampled", "resampled halves", "copied", "mapped"])
def test_images_are_resampled_without_the_eager_table(name: str) -> None:
    fn, arguments = IMAGE_PROGRAMS[name]
    steps = planned(lambda backend: ad.compile(fn, backend=backend)(*arguments()))
    assert not [step.label for step in steps if isinstance(step, EagerCall)]
    assert (name == "mapped") != any(str(step.label).startswith("resample") for step in steps)


def test_float32_stays_as_it_lies_and_exact() -> None:
    x, w = ad.randn(2, 3, 8, 8), ad.randn(4, 3, 3, 3)

    def calls() -> list[Convolution]:
        run = planned(lambda backend: ad.compile(F.conv2d, backend=backend)(x, w), Everything())
        return calls_of(run)

    (call,) = calls()
    assert not call.channels_last
    assert not call.tf32
    assert "TENSOR_CORE" in convolutions.operation(call).refused
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of no effect without a GPU
        asked = ad.backends.cudnn.flags(enabled=True, fp32_precision="tf32")
        asked.__enter__()
    try:
        (call,) = calls()
        assert call.channels_last
        assert call.tf32
        assert "TENSOR_CORE" not in convolutions.operation(call).refused
    finally:
        asked.__exit__()


GEOMETRIES = {
    "even": (((1, 1),), (1,), (1,)),
    "what a stride leaves over": (((3, 2),), (2,), (3,)),
    "nothing, less what is left over": (((0, -1),), (2,), (0,)),
    "uneven": (((1, 2),), (1,), None),
    "cut": (((-1, -1),), (1,), None),
}


@pytest.mark.parametrize("name", GEOMETRIES)
def test_padding_is_the_same_on_both_sides_or_not_asked_of_cudnn(name: str) -> None:
    padding, stride, wanted = GEOMETRIES[name]
    shapes = ((2, 3, 9), (4, 3, 3), (2, 4, 5))
    call = convolution_of(convolutions.FORWARD, "float32", shapes, stride, padding, (1,), False)
    assert (None if call is None else call.padding) == (None if wanted is None else (0, *wanted))


@pytest.mark.parametrize(
    ("kind", "dtype", "refused"),
    [
        (convolutions.FORWARD, "float32", ()),
        (convolutions.DATA, "bfloat16", ()),
        (convolutions.WEIGHT, "bfloat16", ("eng62_k25=1",)),
        (convolutions.WEIGHT, "float32", ("eng17_", "eng62_k25=1")),
    ],
)
def test_plans_that_are_wrong_or_do_not_end_are_refused(
    kind: str, dtype: str, refused: tuple[str, ...]
) -> None:
    image, weights, maps = (2, 3, 9, 9), (4, 3, 1, 1), (2, 4, 9, 9)
    shapes = {
        "convolution": (image, weights, maps),
        "convolution_transpose": (maps, weights, image),
    }
    given = shapes.get(kind, (image, maps, weights))
    call = convolution_of(kind, dtype, given, (1, 1), ((0, 0),) * 2, (1, 1), True)
    assert call is not None
    assert convolutions.operation(call).engines == refused


def test_a_plan_is_not_slow_because_it_came_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times of three plans, the first of which found the device asleep, and the last hopeless."""
    times = iter([9.0, 3.0, inf, 2.0, 4.0])
    monkeypatch.setattr(Candidates, "timed", lambda self: lambda plan: next(times))
    assert Candidates.quickest(Candidates.__new__(Candidates), [object()] * 3) == 0  # type: ignore[list-item]
    assert list(times) == []


def test_one_dimension_is_two_to_cudnn() -> None:
    shapes = ((2, 3, 9), (4, 3, 3), (2, 4, 9))
    call = convolution_of(convolutions.FORWARD, "float16", shapes, (1,), ((1, 1),), (1,), True)
    assert call is not None
    assert call.shapes == ((2, 3, 1, 9), (4, 3, 1, 3), (2, 4, 1, 9))
    strides = [convolutions.dense_strides(shape, True) for shape in call.shapes]
    assert strides == [[27, 1, 27, 3], [9, 1, 9, 3], [36, 1, 36, 4]]


# -- the first layer ---------------------------------------------------------------------------

FOLDED = {
    "of a ResNet": ((2, 3, 16, 16), (7, 7), 3),
    "odd sizes": ((1, 3, 17, 15), (7, 7), 3),
    "one channel": ((2, 1, 13, 14), (5, 5), 2),
    "an even kernel": ((2, 4, 12, 12), (6, 5), (0, 1)),
    "more taps than images have": ((1, 3, 9, 20), (8, 7), 2),
    "no padding": ((1, 2, 11, 11), (5, 5), 0),
}


@pytest.mark.parametrize("name", FOLDED)
def test_convolutions_of_folded_images_are_the_same(name: str) -> None:
    shape, kernel, padding = FOLDED[name]
    x, w = ad.randn(*shape).double(), ad.randn(6, shape[1], *kernel).double()

    def run(convolve: Any) -> Any:
        weight = w.detach().requires_grad_()
        y = convolve(x, weight)
        return y, *ad.autograd.grad((y * y.sin()).sum(), weight)

    plan = functions._plan("conv2d", 2, shape[2:], kernel, 2, padding, 1, 1)
    got = run(lambda x, w: functions.folded(x, w, plan))
    want = run(lambda x, w: F.conv2d(x, w, stride=2, padding=padding))
    for a, b in zip(got, want, strict=True):
        ad.testing.assert_close(a, b, check_stride=False)


@pytest.mark.parametrize("shape", [(2, 4, 6, 5), (1, 4, 9, 8)])
@pytest.mark.parametrize("kernel", [(2, 4), (3, 2)])
@pytest.mark.parametrize("dilation", [1, 2])
def test_padding_before_a_convolution_is_the_same(shape: Any, kernel: Any, dilation: int) -> None:
    x, w = ad.randn(*shape).double(), ad.randn(6, 2, *kernel).double()
    plan = functions._plan("conv2d", 2, shape[2:], kernel, 1, "same", dilation, 2)

    def run(convolve: Any) -> Any:
        image, weight = x.detach().requires_grad_(), w.detach().requires_grad_()
        y = convolve(image, weight)
        return y, *ad.autograd.grad((y * y.sin()).sum(), (image, weight))

    def padded(x: Any, w: Any) -> Any:
        image, rest = functions.padded_first(x, plan)
        return functions.CONVOLUTION(image, w, **rest)

    got = run(padded)
    want = run(lambda x, w: F.conv2d(x, w, padding="same", dilation=dilation, groups=2))
    for a, b in zip(got, want, strict=True):
        ad.testing.assert_close(a, b, check_stride=False)


def test_the_first_layer_is_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    fold = lambda x, w, bias, plan: functions.folded(x, w, plan)
    monkeypatch.setattr(functions, "_convolved", fold)
    x, w = ad.randn(2, 3, 16, 16).bfloat16(), ad.randn(8, 3, 7, 7).bfloat16().requires_grad_()

    def step(x: Any, w: Any) -> Any:
        y = F.conv2d(x, w, stride=2, padding=3)
        return ad.autograd.grad((y * y).float().sum(), w)

    steps = planned(lambda backend: ad.compile(step, backend=backend)(x, w), Everything())
    assert not [each for each in steps if isinstance(each, EagerCall)]
    assert [call.image for call in calls_of(steps)] == [(2, 16, 11, 11)] * 2


# -- results and state in other orders of dimensions -------------------------------------------


def test_state_in_another_order_is_written_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    x = ad.randn(2, 6, 4, 4).to(memory_format=ad.channels_last)

    def scaled(x: Any) -> None:
        x.mul_(2.0)

    def copies() -> list[str]:
        found = planned(lambda backend: ad.compile(scaled, backend=backend)(x))
        return [step.label for step in found if step.label == "copy"]

    assert not copies()
    monkeypatch.setattr(TritonTarget, "permutes", False)
    assert copies() == ["copy"]


@pytest.mark.parametrize("last", [False, True])
def test_a_group_norm_reads_images_as_they_lie(last: bool) -> None:
    x = ad.randn(2, 8, 16, 16).bfloat16()
    if last:
        x = x.to(memory_format=ad.channels_last)
    x = x.requires_grad_()

    def normed(x: Any) -> Any:
        out = F.group_norm(x, 2).permute(0, 2, 3, 1) if last else F.group_norm(x, 2)
        (grad,) = ad.autograd.grad((out * out).sum(), x)
        return out, grad.permute(0, 2, 3, 1) if last else grad

    found = planned(lambda backend: ad.compile(normed, backend=backend)(x))
    labels = [step.label for step in found]
    assert not [label for label in labels if "clone" in label or "copy" in label], labels


# -- what is made again ------------------------------------------------------------------------


def remade_runs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A backend that interprets programs with values made again as for large images."""
    for name, least in (("LONG", 256), ("LARGE", 32)):
        monkeypatch.setattr(remake, name, least)
    seen: list[Any] = []

    def maker(mode: str, options: dict[str, Any]) -> Any:
        def executable(task: Any) -> Any:
            flat = run_passes(task.graph)
            made, levels = remake.remade(flat, TritonTarget.costs)
            seen.append((flat, made, levels))
            return interpreted(replace(task, graph=made))

        return executable

    register_backend("remade", maker)
    return seen


@pytest.mark.parametrize("half", [False, True])
def test_what_is_made_again_is_the_same(monkeypatch: pytest.MonkeyPatch, half: bool) -> None:
    seen = remade_runs(monkeypatch)
    losses, grads = train_images("interpret", half, 2, size=16)
    got, other = train_images("remade", half, 2, size=16)
    flat, made, levels = seen[0]
    assert len(made.nodes) > len(flat.nodes)
    assert max(levels.values()) >= 6  # two for each norm forward, one backward
    assert got == losses
    assert all(ad.equal(other[name], grad) for name, grad in grads.items())


def test_norms_keep_nothing_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, least in (("LONG", 256), ("LARGE", 32)):
        monkeypatch.setattr(remake, name, least)
    monkeypatch.setattr(TritonTarget, "few", 64)
    monkeypatch.setattr(TritonTarget, "long", 32)
    steps = planned(lambda backend: train_images(backend, True, 1), Everything())
    images = {4 * 8 * 16 * 16, 4 * 8 * 8 * 8, 4 * 16 * 4 * 4}
    wide = [
        (step.label, touch.buffer)
        for step in steps
        for touch in step.writes
        if touch.buffer.dtype is ad.float32 and touch.buffer.size in images
    ]
    assert not wide


# -- in the interpreter -------------------------------------------------------------------------


def small_limits() -> None:
    """Have small images go the ways of large ones."""
    package = "adjoint.engine.backends.triton"
    remake = importlib.import_module(f"{package}.remake")
    remake.LONG, remake.LARGE = 256, 32
    importlib.import_module(f"{package}.templates.moments").LONG = 64
    TritonTarget.few, TritonTarget.long = 64, 32


def compare_training(half: bool, steps: int) -> None:
    """Train both ways; called in a process that interprets."""
    importlib.import_module("tests.triton_interpreter")
    small_limits()
    losses, grads = train_images("eager", half, steps, size=16)
    got, other = train_images("interpreted-triton", half, steps, size=16)
    assert got == pytest.approx(losses, abs=5e-2 if half else 1e-4)
    assert furthest(other, grads) < (0.1 if half else 1e-4)


def compare_kernels(names: tuple[str, ...], library: bool) -> None:
    """Run programs both ways, with or without somebody who runs convolutions."""
    machine = importlib.import_module("tests.triton_interpreter")
    if not library:
        machine.Library8.room = lambda self, call: None
    moments = importlib.import_module("adjoint.engine.backends.triton.templates.moments")
    moments.LONG = moments.LONG_GROUP = 64
    for name in names:
        fn, arguments = IMAGE_PROGRAMS[name]
        ad.manual_seed(0)
        given = arguments()
        rough = 3e-2 if "halves" in name else 0.0 if name in EXACT else 1e-5
        got, want = ad.compile(fn, backend="interpreted-triton")(*given), fn(*given)
        apart = [distance(a, b) for a, b in zip(got, want, strict=True)]
        assert max(apart) <= rough, (name, apart)


def run(call: str) -> None:
    pytest.importorskip("triton", reason="Triton (`pip install adjoint[cuda]`) interprets kernels")
    script = importlib.import_module("tests.test_triton_interpreted").run_script
    script(f"import tests.test_triton_images as i; i.{call}")


EXACT = {"resampled", "some resampled", "copied"}  # the CPU's bits
QUICK = (
    "convolution uneven",
    "convolution transposed of halves",
    "some resampled",
    "copied",
    "mapped",
)


def test_kernels_equal_eager() -> None:
    run(f"compare_kernels({QUICK!r}, False)")


@pytest.mark.slow
def test_training_equals_eager() -> None:
    run("compare_training(False, 2)")


@pytest.mark.slow
def test_training_in_halves_equals_eager() -> None:
    run("compare_training(True, 3)")


@pytest.mark.slow
@pytest.mark.parametrize("library", [False, True])
def test_all_kernels_equal_eager(library: bool) -> None:
    run(f"compare_kernels({tuple(IMAGE_PROGRAMS)!r}, {library})")


# -- for every generation of GPU ----------------------------------------------------------------


def compiles(name: str, capabilities: tuple[int, ...]) -> None:
    pytest.importorskip("triton", reason="Triton (`pip install adjoint[cuda]`) compiles kernels")
    kernels = importlib.import_module("tests.test_triton_kernels")
    fn, arguments = IMAGE_PROGRAMS[name]
    made = kernels.compile_all(
        lambda backend: ad.compile(fn, backend=backend)(*arguments()), capabilities
    )
    assert made.kernels


def test_kernels_compile() -> None:
    compiles("convolution grouped of halves", (90,))


@pytest.mark.slow
@pytest.mark.parametrize("name", IMAGE_PROGRAMS)
def test_kernels_compile_for_every_generation(name: str) -> None:
    compiles(name, (80, 90, 100))


@pytest.mark.slow
def test_a_step_compiles_for_every_generation() -> None:
    pytest.importorskip("triton", reason="Triton (`pip install adjoint[cuda]`) compiles kernels")
    kernels = importlib.import_module("tests.test_triton_kernels")
    run_step = lambda backend: train_images(backend, True, 1, net=SmallResNet)
    assert kernels.compile_all(run_step, (80, 90, 100)).kernels
