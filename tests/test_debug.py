"""Debugging: operations with their places, the first NaN, suspicions, errors that name layers."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.tensor.holders import MADE_BY
from adjoint.nn import functional as F


class Deep(nn.Module):
    def __init__(self, bad: int = 4) -> None:
        super().__init__()
        part = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(bad, 2))
        self.blocks = nn.ModuleList([nn.ModuleDict({"mlp": part})])

    def forward(self, x: ad.Tensor) -> ad.Tensor:
        return self.blocks[0]["mlp"](x)


@pytest.mark.parametrize("compiled", [False, True])
def test_errors_carry_the_dotted_path_and_a_kind(compiled: bool) -> None:
    model = Deep(bad=5)
    run = ad.compile(lambda x: model(x)) if compiled else model
    with pytest.raises(ad.errors.ShapeError, match=r"in blocks\.0\.mlp\.2: Linear\(in_features=5"):
        run(ad.ones(3, 2))


# What raises, the kind of its error, and the type that PyTorch raises there.
KINDS = [
    (lambda: ad.ones(2, 3) @ ad.ones(2, 3), "ShapeError", RuntimeError),
    (lambda: ad.ones(2) + ad.ones(3), "ShapeError", RuntimeError),
    (lambda: ad.cat([ad.ones(2, 2), ad.ones(3, 3)]), "ShapeError", RuntimeError),
    (lambda: ad.linalg.inv(ad.ones(2, 3)), "ShapeError", RuntimeError),
    (lambda: ad.nn.BatchNorm2d(3)(ad.ones(2, 3)), "AnyShapeError", ValueError),
    (
        lambda: ad.nn.functional.cross_entropy(ad.ones(2, 3), ad.tensor([0])),
        "AnyShapeError",
        ValueError,
    ),
    (lambda: ad.ones(2).sum(1), "AnyShapeError", IndexError),
    (lambda: ad.ones(2)[0, 0], "AnyShapeError", IndexError),
    (lambda: ad.ones(2, device="meta") + ad.ones(2), "DeviceError", RuntimeError),
    (lambda: ad.ones(2, device="nowhere"), "DeviceError", RuntimeError),
    (lambda: ad.ones(2, 2) @ ad.ones(2, 2, dtype=ad.int64), "DTypeError", RuntimeError),
    (lambda: -ad.tensor([True]), "DTypeError", RuntimeError),
    (lambda: ad.ones(2, dtype=ad.int64).requires_grad_(), "DTypeError", RuntimeError),
    (lambda: ad.nn.LSTM(2, 2)(ad.ones(3, 2, dtype=ad.float64)), "AnyDTypeError", ValueError),
    (lambda: ad.from_numpy(np.array(["text"])), "AnyDTypeError", TypeError),
    (lambda: ad.load(io.BytesIO(b"no file that save wrote")), "FileError", RuntimeError),
    (lambda: ad.compile(lambda x: bool(x.sum().item()))(ad.ones(2)), "CaptureError", RuntimeError),
]


@pytest.mark.parametrize(("program", "kind", "builtin"), KINDS)
def test_kinds_of_errors_are_pytorchs_too(
    program: object, kind: str, builtin: type[Exception]
) -> None:
    with pytest.raises(builtin) as caught:
        program()  # type: ignore[operator]
    assert isinstance(caught.value, getattr(ad.errors, kind))
    assert isinstance(caught.value, ad.errors.AdjointError)
    assert next(c for c in type(caught.value).__mro__ if c.__module__ == "builtins") is builtin


def test_operations_are_traced_forward_and_backward() -> None:
    model = Deep()
    text = io.StringIO()
    with ad.debug.trace_ops(file=text) as seen:
        ad.compile(lambda x: model(x))(ad.ones(3, 2)).sum().backward()
    assert CONTEXT.plain
    lines = text.getvalue().splitlines()
    assert len(lines) == len(seen.operations) > 5
    first = next(each for each in seen.operations if each.name == "linear")
    assert "blocks.0.mlp.0" in first.place
    assert "test_debug.py" in first.place
    assert any(each.where and each.where.backward for each in seen.operations)
    with ad.debug.trace_ops(file=None, only=("exp",)) as few:
        ad.ones(2).exp().log()
    assert [each.name for each in few.operations] == ["exp"]


class Log(nn.Module):
    def forward(self, x: ad.Tensor) -> ad.Tensor:
        return x.log()


def test_the_first_nan_names_module_operation_and_line() -> None:
    model = nn.Sequential(nn.Identity(), nn.Sequential(Log()))
    x = ad.tensor([[1.0, -1.0]])
    for run in (model, ad.compile(lambda x: model(x))):
        with pytest.raises(ad.debug.NonFiniteError) as caught, ad.debug.break_on_nonfinite():
            run(x)
        told = str(caught.value)
        assert told.startswith("log gave nan at (0, 1), 1 of 2 elements, from finite operands")
        assert "1.0, test_debug.py" in told
    assert CONTEXT.plain


def test_the_first_nan_of_backward_names_the_forward_line() -> None:
    x = ad.zeros(2, requires_grad=True)
    named = pytest.raises(ad.debug.NonFiniteError, match=r"test_debug\.py:\d+.*sqrt.*, backward")
    with named, ad.debug.break_on_nonfinite():
        x.sqrt().sum().backward()


def test_print_goes_on() -> None:
    with ad.debug.break_on_nonfinite("print") as seen:
        ad.zeros(2).log()
        ad.ones(2).log()
    assert len(seen.messages) == 1
    with pytest.raises(ValueError, match="action"):
        ad.debug.break_on_nonfinite("sing")


def kinds(*args: object) -> set[str]:
    return {each.kind for each in ad.debug.check(*args)}  # type: ignore[arg-type]


def test_suspicions() -> None:
    model = Deep()
    x, y = ad.randn(8, 2), ad.tensor([0, 1] * 4)
    assert kinds(model, (x, y)) == set()
    assert kinds(model, (x * 1000, y)) == {"inputs"}
    assert kinds(model, (ad.ones(8, 2), y)) == {"inputs"}
    assert kinds(model, (x, y + 1)) == {"labels"}
    assert kinds(model.eval(), (x, y)) == {"mode"}
    model.train()
    with ad.no_grad():
        model.blocks[0]["mlp"][0].bias.fill_(-100.0)
        model.blocks[0]["mlp"][2].weight.fill_(1.0)
    found = kinds(model, (x, y))
    assert "dead" in found
    assert str(ad.debug.check(Deep(), (x, y))) == "nothing suspicious"


@pytest.mark.parametrize(
    ("norm", "vanishing"), [(nn.BatchNorm1d(4), False), (nn.BatchNorm1d(4).eval(), True)]
)
def test_a_bias_that_a_normalisation_undoes_needs_no_gradient(
    norm: nn.Module, vanishing: bool
) -> None:
    ad.manual_seed(0)
    model = nn.Sequential(nn.Sequential(nn.Linear(2, 4)), norm, nn.Linear(4, 2))
    if vanishing:  # in eval mode the bias counts: that nothing comes back to it is to be told
        model[2].weight.data.fill_(0.0)
    found = str(ad.debug.check(model, (ad.randn(8, 2), ad.tensor([0, 1] * 4))))
    assert ("0.0.bias" in found) == vanishing


class Scores(nn.Module):
    """Scores for classes at a given dimension, one for each of some places."""

    def __init__(self, classes: int, dim: int) -> None:
        super().__init__()
        self.table, self.dim = nn.Embedding(40, classes), dim

    def forward(self, x: ad.Tensor) -> ad.Tensor:
        return self.table(x).movedim(-1, self.dim)


@pytest.mark.parametrize(
    ("shape", "dim"), [((4, 6), 1), ((4, 6), -1), ((4, 30), -1), ((4, 3, 5), 1), ((4, 3, 5), -1)]
)
def test_check_finds_the_dimension_of_classes(shape: tuple[int, ...], dim: int) -> None:
    model, x = Scores(20, dim), ad.randint(0, 40, shape)
    y = ad.arange(x.numel()).reshape(shape) % 20
    assert kinds(model, (x, y)) == set()
    y[0, 1] = 20
    assert "0 to 19" in str(ad.debug.check(model, (x, y)))


class WithoutGradient(nn.Module):
    """Runs under no_grad."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 3)

    def forward(self, x: ad.Tensor) -> ad.Tensor:
        with ad.no_grad():
            return self.linear(x)


def scores(*more: nn.Module, width: int = 3) -> nn.Module:
    return nn.Sequential(nn.Linear(8, width), *more)


CLASSES = [k % 3 for k in range(32)]
YES = [[float(k % 2)] for k in range(32)]
ABOUT_LOSSES: dict[str, tuple[Callable[[], nn.Module], Any, Any, list[str]]] = {
    "scores": (scores, CLASSES, nn.CrossEntropyLoss(), []),
    "logarithms": (lambda: scores(nn.LogSoftmax(1)), CLASSES, nn.NLLLoss(), []),
    "yes or no": (lambda: scores(width=1), YES, nn.BCEWithLogitsLoss(), []),
    "probabilities": (lambda: scores(nn.Sigmoid(), width=1), YES, nn.BCELoss(), []),
    "a function of one's own": (
        lambda: scores(nn.Softmax(1)),
        CLASSES,
        lambda o, t: o.square().sum(),
        [],
    ),
    "softmax twice": (lambda: scores(nn.Softmax(1)), CLASSES, F.cross_entropy, ["outputs"]),
    "softmax twice, by default": (lambda: scores(nn.Softmax(1)), CLASSES, None, ["outputs"]),
    "sigmoid twice": (
        lambda: scores(nn.Sigmoid(), width=1),
        YES,
        nn.BCEWithLogitsLoss(),
        ["outputs"],
    ),
    "no logarithms": (scores, CLASSES, nn.NLLLoss(), ["outputs"]),
    "of samples": (lambda: scores(nn.LogSoftmax(0)), CLASSES, F.nll_loss, ["outputs"]),
    "another shape": (lambda: scores(width=1), [0.5] * 31 + [1.0], nn.MSELoss(), ["shapes"]),
    "another shape, by default": (lambda: scores(width=1), [0.5] * 31 + [1.0], None, ["shapes"]),
    "classes as floats": (scores, [0.0, 1.0] * 16, None, ["labels"]),
    "beyond one": (lambda: scores(width=1), [[2.0]] * 32, nn.BCEWithLogitsLoss(), ["labels"]),
    "one class": (scores, [1] * 32, nn.CrossEntropyLoss(), ["labels"]),
    "no gradient": (WithoutGradient, CLASSES, nn.CrossEntropyLoss(), ["unused"]),
    "infinite": (scores, CLASSES, lambda o, t: o.sum() / 0, ["loss"]),
}


@pytest.mark.filterwarnings("ignore:mse_loss")
@pytest.mark.parametrize("case", ABOUT_LOSSES)
def test_check_knows_what_a_loss_wants(case: str) -> None:
    model, targets, loss, kinds = ABOUT_LOSSES[case]
    ad.manual_seed(0)
    x = ad.randn(32, 8)
    findings = ad.debug.check(model(), (x, ad.tensor(targets)), loss)
    assert [finding.kind for finding in findings] == kinds, findings


def test_check_takes_a_model_and_a_batch() -> None:
    model, x, y = nn.Linear(4, 3), ad.randn(6, 4), ad.tensor([0, 1, 2, 0, 1, 2])
    loader: Any = ad.data.DataLoader(ad.data.TensorDataset(x, y), batch_size=3)
    wrong: list[tuple[Any, Any, str]] = [
        (nn.Linear, (x, y), "the class Linear for the model"),
        ((x, y), model, "received tuple for the model"),
        (model, loader, "received a DataLoader"),
        (model, (x[:0], y[:0]), "the batch is empty"),
    ]
    for given, batch, said in wrong:
        with pytest.raises((TypeError, ValueError), match=said):
            ad.debug.check(given, batch)
    recurrent = nn.LSTM(4, 3, batch_first=True)
    assert not ad.debug.check(recurrent, (ad.randn(2, 5, 4), ad.randn(2, 5, 3)))


def test_check_finds_unused_and_exploding_parameters_and_leaves_all_as_it_was() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused = nn.Linear(2, 2), nn.Linear(2, 2)
            self.norm = nn.BatchNorm1d(2)

        def forward(self, x: ad.Tensor) -> ad.Tensor:
            return self.used(self.norm(x)) * 1e6

    model = Odd()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    state = ad.get_rng_state().tolist()
    batch = (ad.randn(8, 2), ad.randn(8, 2))
    drawn = ad.get_rng_state().tolist()
    found = ad.debug.check(model, batch)
    assert {"unused", "gradients"} <= {each.kind for each in found}
    assert "unused.weight" in str(found)
    assert all(p.grad is None for p in model.parameters())
    assert all(bool((v == before[k]).all()) for k, v in model.state_dict().items())
    assert drawn == ad.get_rng_state().tolist()
    assert state != drawn  # by the batch itself


def test_check_leaves_parameters_that_forward_and_hooks_write_to() -> None:
    model = nn.Sequential(nn.Embedding(4, 2, max_norm=1.0), nn.Flatten(), nn.Linear(2, 3))
    with ad.no_grad():
        model[0].weight.fill_(5.0)

    def shrink(parameter: Any) -> None:
        with ad.no_grad():
            parameter.mul_(0.5)

    model[2].weight.register_post_accumulate_grad_hook(shrink)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    ad.debug.check(model, (ad.tensor([[0], [1]]), ad.tensor([0, 1])))
    assert all(v.equal(before[k]) for k, v in model.state_dict().items())
    lazy = nn.Sequential(nn.LazyLinear(3), nn.LazyBatchNorm1d())
    ad.debug.check(lazy, (ad.randn(4, 2), ad.tensor([0, 1, 2, 0])))
    assert tuple(lazy[0].weight.shape) == (3, 2)


def test_out_of_memory_says_what_holds_it() -> None:
    big = ad.zeros(500, 1000)
    with pytest.raises(ad.errors.OutOfMemoryError, match=r"float32\[500, 1000\]") as caught:
        ad.zeros(1 << 58)  # beyond any address space, also where memory may be promised freely
    assert isinstance(caught.value, MemoryError)
    assert isinstance(caught.value, RuntimeError)
    assert np.asarray(big).shape == (500, 1000)


def test_memory_is_told_with_the_lines_that_made_it() -> None:
    count = len(MADE_BY)
    with ad.debug.track_memory():
        made = ad.zeros(1234, 77)
        more = made + 1
        view = more[1:]
    later = ad.zeros(1235, 77)
    report = [line for line in ad.debug.memory_report(100).splitlines() if ", 77]" in line]
    lines = {line.split("  ")[-1].split(",", 2)[0]: line for line in report}
    assert sum("test_debug.py" in line and "made at" in line for line in report) == 2
    assert sum('"more = made + 1"' in line for line in report) == 1
    assert "made at" not in lines["float32[1235"]
    del made, more, view, later
    assert len(MADE_BY) == count
