"""Programs compiled ahead of time: they do what the functions do, and refuse what they cannot."""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import adjoint as ad
from adjoint import nn
from adjoint.cli import main
from adjoint.export import ExportError, aot
from adjoint.export.output.machines import DESTINATIONS
from adjoint.nn import functional as F
from adjoint.nn.utils import prune
from adjoint.quantization import Int8DynamicActivationInt8WeightConfig, quantize_
from tests.random_programs import Program, function, lay, programs


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1, bias=False),
        nn.BatchNorm2d(4),
        nn.GELU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Linear(64, 10),
    )


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 3))


def flow(x: Any) -> Any:
    def body(i: Any, total: Any) -> Any:
        return i + 1, total * 1.5 + i

    _, total = ad.while_loop(lambda i, total: i < 200, body, (ad.tensor(0), x))
    return ad.cond(x.sum() > 0, lambda t: t / t.max(), lambda t: t * 2, (total,))


def written(x: Any) -> Any:
    x.mul_(2)
    return x.sum()


FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {
    "points": (lambda x: (x.exp().sin(), (x * 3).long()), lambda: (ad.randn(5, 7),)),
    "halves": (lambda x: x.half() @ x.half().T + x.bfloat16().sum(), lambda: (ad.randn(5, 7),)),
    "rows": (lambda x, i: (x[i], x.cumsum(0), x.argmax(1)),
             lambda: (ad.randn(9, 4), ad.tensor([3, 0, 8]))),
    "views": (lambda x: (x.T[1:, ::2], x.flip(0), x.expand(2, 3, 5)), lambda: (ad.randn(3, 5),)),
    "flow": (flow, lambda: (ad.rand(4, 3),)),
    "truth": (lambda x, y: (x > y, ad.where(x > y, x, y)),
              lambda: (ad.randn(33), ad.randn(33))),
    "written": (written, lambda: (ad.randn(4, 4),)),
}  # fmt: skip


def close(ours: Any, theirs: Any) -> None:
    assert ours.dtype == theirs.dtype
    assert ours.shape == theirs.shape
    ad.testing.assert_close(ours, theirs.detach(), rtol=1e-4, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    ad.manual_seed(0)
    fn, make = FUNCTIONS[name]
    program = aot(fn, make())
    for _ in range(3):
        given_ = make()
        copies = [x.clone() for x in given_]
        ours, theirs = program(*copies), fn(*given_)
        for a, b in zip(
            *[x if isinstance(x, tuple) else (x,) for x in (ours, theirs)], strict=True
        ):
            close(a, b)


@pytest.mark.parametrize("make", [cnn, mlp])
def test_modules_evaluate(make: Callable[[], nn.Module]) -> None:
    net = make()
    shape = (3, 1, 8, 8) if make is cnn else (3, 6)
    program = aot(net, ad.zeros(*shape))
    assert net.training
    x = ad.randn(*shape)
    close(program(x), net.eval()(x))


def test_every_size_of_a_range() -> None:
    net = cnn().eval()
    program = aot(net, ad.zeros(2, 1, 8, 8), dynamic={"input": {0: ("batch", 1, 9)}})
    for n in range(1, 10):
        x = ad.randn(n, 1, 8, 8)
        close(program(x), net(x))
    assert program.interface.arena_bytes[0] < program.interface.arena_bytes[8]


def test_two_sizes() -> None:
    def attend(q: Any, k: Any) -> Any:
        return (q @ k.transpose(-1, -2)).softmax(-1) @ k

    sizes = {"q": {1: ("queries", 1, 4)}, "k": {1: ("keys", 2, 5)}}
    program = aot(attend, (ad.zeros(2, 3, 8), ad.zeros(2, 4, 8)), dynamic=sizes)
    for m in range(1, 5):
        for n in range(2, 6):
            q, k = ad.randn(2, m, 8), ad.randn(2, n, 8)
            close(program(q, k), attend(q, k))


OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda p: ad.optim.SGD(p, lr=0.1),
    "adamw": lambda p: ad.optim.AdamW(p, lr=0.01),
    "rmsprop": lambda p: ad.optim.RMSprop(p, lr=0.01),
    "asgd": lambda p: ad.optim.ASGD(p, lr=0.05, t0=2),
    "radam": lambda p: ad.optim.RAdam(
        p, lr=0.01, betas=(0.9, 0.9)
    ),  # trusted from the sixth step on
}


def training(net: nn.Module, optimizer: Any) -> Callable[..., Any]:
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_steps(name: str) -> None:
    """State goes in and out as in Python: losses, weights and random numbers are the same."""
    ad.manual_seed(3)
    net = cnn()
    optimizer = OPTIMIZERS[name](net.parameters())
    step = training(net, optimizer)
    batches = [(ad.randn(4, 1, 8, 8), ad.randint(0, 10, (4,))) for _ in range(8)]
    program = aot(step, batches[0])
    assert not optimizer.state  # recorded, not run
    compiled = ad.compile(step)
    for x, y in batches:
        close(program(x, y), compiled(x, y))
    held = {each.name: each for each in program.state.tensors}
    for own, tensor in [*net.named_parameters(), *net.named_buffers()]:
        at = held[own]
        block = program.in_process.state[at.offset : at.offset + at.nbytes]
        array = block.view(at.array.dtype).reshape(at.shape)
        np.testing.assert_allclose(array, tensor.detach().numpy(), rtol=1e-4, atol=1e-6)


def test_the_rate_is_part_of_the_state() -> None:
    net = mlp()
    step = training(net, ad.optim.SGD(net.parameters(), lr=0.5))
    x, y = ad.randn(4, 6), ad.randint(0, 3, (4,))
    program = aot(step, (x, y))
    (rate,) = [each for each in program.state.tensors if each.name == "lr"]
    program.in_process.state[rate.offset : rate.offset + 8].view(np.float64)[0] = 0.0
    first = program(x, y)
    close(program(x, y), first)


def test_a_first_step_unlike_the_others() -> None:
    net = mlp()
    optimizer = ad.optim.SGD(net.parameters(), lr=0.2, momentum=0.9, dampening=0.1)
    step = training(net, optimizer)
    x, y = ad.randn(4, 6), ad.randint(0, 3, (4,))
    with pytest.raises(ExportError, match="Call it once before"):
        aot(step, (x, y))
    assert not optimizer.state
    step(x, y)
    program = aot(step, (x, y))
    for _ in range(4):
        close(program(x, y), step(x, y))


@pytest.mark.parametrize(
    "options",
    [
        {"lr": 0.2, "momentum": 0.9},  # dampening is 0, no float
        {"lr": 0.2, "momentum": 0.9, "nesterov": True},
        {"lr": 1, "momentum": 1, "weight_decay": 1},
    ],
    ids=str,
)
def test_options_that_are_whole_numbers(options: Any) -> None:
    """They are integers in the recording, which is about these values."""
    net = mlp()
    step = training(net, ad.optim.SGD(net.parameters(), **options))
    x, y = ad.randn(4, 6), ad.randint(0, 3, (4,))
    step(x, y)
    program = aot(step, (x, y))
    for _ in range(4):
        close(program(x, y), step(x, y))


def test_numbers_are_arguments() -> None:
    program = aot(lambda x, scale: x * scale, (ad.ones(3), 2.0))
    assert "double scale" in program.header
    assert program(ad.ones(3), 5.0).tolist() == [5.0, 5.0, 5.0]


def test_names_that_the_program_has_itself() -> None:
    def fn(at: Any, t0: Any, t0_count: Any, state: Any, int: Any, resume: float) -> Any:
        return at + t0 + t0_count + state + int * resume

    given_ = [ad.randn(3) for _ in range(5)]
    program = aot(fn, (*given_, 2.0), output_names=["arena"])
    at, t0, t0_count, state, last = given_
    close(program(*given_, 3.0), fn(at, t0, t0_count, state, last, 3.0))
    names = [each.name for each in program.interface.buffers]
    assert len(set(names)) == len(names)


# -- what is refused ------------------------------------------------------------------------------


def test_operations_without_native_code_are_listed_at_once() -> None:
    def fn(x: Any) -> Any:
        return ad.special.airy_ai(x) + ad.special.bessel_j0(x).sum()

    with pytest.raises(ExportError) as told:
        aot(fn, ad.randn(3, 3))
    assert "airy_ai" in str(told.value)
    assert "bessel_j0" in str(told.value)


class Counting(nn.Module):
    calls = 0

    def forward(self, x: Any) -> Any:
        self.calls += 1
        return x * self.calls


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "state of Python": (lambda: aot(Counting(), ad.ones(2)), "changes Python's own state"),
    "a number returned": (lambda: aot(lambda x: 3, ad.ones(2)), "other than tensors"),
    "gradients": (lambda: aot(leaves_gradients(), ad.ones(2, 6)), "leaves its results in .grad"),
    "no machine": (lambda: aot(mlp(), ad.ones(2, 6), machine="pdp11"), "no machine 'pdp11'"),
    "a size without range": (
        lambda: aot(mlp(), ad.ones(2, 6), dynamic={"input": {0: "batch"}}), "a name and a range"),
    "too many sizes": (
        lambda: aot(mlp(), ad.ones(2, 6), dynamic={"input": {0: ("n", 1, 10**6)}}), "Narrow them"),
    "complex numbers": (lambda: aot(lambda x: x * 1j, ad.ones(2)), "C has no complex64"),
}  # fmt: skip


def leaves_gradients() -> Callable[..., Any]:
    net = mlp()

    def fn(x: Any) -> Any:
        net.zero_grad()
        loss = net(x).sum()
        loss.backward()
        return loss

    return fn


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    call, told = REFUSED[name]
    with pytest.raises((ExportError, ValueError), match=told):
        call()


def test_names(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no name in C"):
        aot(mlp(), ad.ones(2, 6), name="my-model")
    program = aot(mlp(), ad.ones(2, 6))
    with pytest.raises(ValueError, match="is none of"):
        program.write(tmp_path, "exe")
    with pytest.raises(ExportError, match="machine='wasm32'"):
        program.write(tmp_path, "wasm")
    assert not list(tmp_path.iterdir())


def test_wrong_calls_touch_nothing() -> None:
    """Every way to call it wrongly has a code and a message, and no byte changes."""
    program = aot(lambda x, i: x[i], (ad.zeros(4, 3), ad.tensor([0, 1])), name="pick")
    inside = program.in_process
    x, i, out = np.ones((4, 3), np.float32), np.array([0, 3]), np.full((2, 3), 7, np.float32)
    right: list[Any] = [
        x.ctypes.data, 12, i.ctypes.data, 2, out.ctypes.data, 6,
        inside.arena.ctypes.data, inside.arena.size,
    ]  # fmt: skip

    def run(values: list[Any]) -> int:
        kinds = [ctypes.c_void_p, ctypes.c_size_t] * 4
        code: int = inside.run(*[kind(v) for kind, v in zip(kinds, values, strict=True)])
        return code

    seen = set()
    for place, wrong in [
        (0, 0), (0, right[0] + 1), (1, 11), (1, 13), (2, 0), (2, right[2] + 4), (3, 1), (4, 0),
        (5, 7), (6, 0), (6, right[6] + 8), (7, right[7] - 64),
    ]:  # fmt: skip
        inside.arena[:] = 5
        before = inside.arena.copy(), out.copy()
        code = run([wrong if k == place else v for k, v in enumerate(right)])
        assert code > 0
        seen.add(inside.error(code))
        assert (inside.arena == before[0]).all()
        assert (out == before[1]).all()
    assert len(seen) == 11
    i[1] = 4  # a fault found inside
    code = run(right)
    assert b"out of" in inside.error(code)
    i[1] = 3
    assert run(right) == 0
    assert (out == 1).all()


# -- other machines -------------------------------------------------------------------------------

ELF = {"x86-64-v2": 62, "x86-64-v3": 62, "x86-64-v4": 62, "aarch64": 183, "riscv64": 243, "arm": 40}


def undefined(data: bytes) -> set[str]:
    """The names that an ELF object leaves to others."""
    wide = data[4] == 2
    at, size = (40, "<Q") if wide else (32, "<I")
    (sections,) = struct.unpack_from(size, data, at)
    entry, count = struct.unpack_from("<HH", data, 58 if wide else 46)
    heads = []
    for k in range(count):
        start = sections + k * entry
        kind = struct.unpack_from("<I", data, start + 4)[0]
        if wide:
            offset, nbytes, link = struct.unpack_from("<QQI", data, start + 24)
        else:
            offset, nbytes, link = struct.unpack_from("<III", data, start + 16)
        heads.append((kind, offset, nbytes, link))
    found = set()
    for kind, offset, nbytes, link in heads:
        if kind != 2:
            continue
        strings = heads[link][1]
        for at in range(offset, offset + nbytes, 24 if wide else 16):
            name = struct.unpack_from("<I", data, at)[0]
            section = struct.unpack_from("<H", data, at + (6 if wide else 14))[0]
            if name and not section:
                end = data.index(b"\0", strings + name)
                found.add(data[strings + name : end].decode())
    return found


@pytest.mark.parametrize("machine", ELF)
def test_objects_for_other_machines_need_nothing(machine: str) -> None:
    net = nn.Sequential(nn.Linear(6, 40), nn.Softmax(-1), nn.Linear(40, 3))
    data = aot(net, ad.zeros(5, 6), machine=machine).object_file
    assert data[:4] == b"\x7fELF"
    assert struct.unpack_from("<H", data, 18)[0] == ELF[machine]
    # What C compilers bring: copies of memory, and division of 64-bit numbers on 32-bit machines.
    rest = {name for name in undefined(data) if not name.startswith("__aeabi_")}
    assert rest <= {"memcpy", "_GLOBAL_OFFSET_TABLE_"}


def test_quantised_models() -> None:
    """Their kernels are written for the machine that they are exported for, not for this one."""
    net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 8)).eval()
    quantize_(net, Int8DynamicActivationInt8WeightConfig())
    x = ad.randn(4, 64)
    close(aot(net, x)(x), net(x))
    for machine, number in ELF.items():
        data = aot(net, x, machine=machine).object_file
        assert struct.unpack_from("<H", data, 18)[0] == number


def between(x: ad.Tensor) -> ad.Tensor:
    row, column = ad.tril_indices(4, 4)
    return (x * ad.linspace(0, 1, 4) + ad.logspace(0, 1, 4))[:, row, column]


@pytest.mark.parametrize("dynamic", [None, {"x": {0: ("n", 1, 3)}}])
def test_what_needs_no_operand_is_held(dynamic: Any) -> None:
    """Sequences and indices without kernels of their own are constants of the program."""
    x = ad.randn(2, 4, 4)
    close(aot(between, x, dynamic=dynamic)(x), between(x))


@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
def test_weights_that_hooks_compute() -> None:
    """They are computed once for an evaluation, and the module is left as it was."""
    last = nn.Linear(5, 3)
    prune.l1_unstructured(last, "weight", 0.5)
    net = nn.Sequential(
        nn.utils.weight_norm(nn.Conv1d(2, 4, 3)),
        nn.Flatten(),
        nn.utils.spectral_norm(nn.Linear(12, 5)),
        last,
    )
    x = ad.randn(2, 2, 5)
    net(x)
    before = [(sorted(m._forward_pre_hooks), m.__dict__.get("weight")) for m in net.modules()]
    program = aot(net, x)
    after = [(sorted(m._forward_pre_hooks), m.__dict__.get("weight")) for m in net.modules()]
    for (hooks, weight), (hooks_after, weight_after) in zip(before, after, strict=True):
        assert hooks == hooks_after
        assert weight is weight_after
    close(program(x), net.eval()(x))


FLAGS: dict[str, Any] = {"inside": False, "seen": None}


def test_flags_that_are_put_back() -> None:
    """Python's state that a call leaves as it was is no state; what it changes is refused."""

    def flagged(x: ad.Tensor) -> list[ad.Tensor]:
        FLAGS["inside"], FLAGS["seen"] = True, []
        y = x * 2 if FLAGS["inside"] else x
        FLAGS["inside"], FLAGS["seen"] = False, None
        return [y, y + 1]

    def left(x: ad.Tensor) -> ad.Tensor:
        FLAGS["inside"] = True
        return x * 2

    x = ad.randn(3)
    for found, wanted in zip(aot(flagged, x)(x), flagged(x), strict=True):
        close(found, wanted)
    with pytest.raises(ExportError, match="Python's own state"):
        aot(left, x)


def test_machines_are_known() -> None:
    assert set(ELF) | {"wasm32", "portable"} == set(DESTINATIONS)


# -- random programs ------------------------------------------------------------------------------

FINE = {"float64": 1e-5, "float32": 1e-3, "bfloat16": 0.25, "float16": 0.05}


def laid_out(program: Program) -> tuple[list[Any], list[Any]]:
    """The states and the arguments of a program, the same each time."""
    rng = np.random.default_rng(0)
    states: list[Any] = []
    for spec in program.states:
        states.append(lay(rng, spec, states))
    arguments: list[Any] = []
    for spec in program.arguments:
        arguments.append(lay(rng, spec, arguments).detach().clone())
    return states, arguments


def results(program: Program, states: list[Any]) -> Callable[..., Any]:
    """What a program returns, off the tape."""
    body: Any = function(program, states)
    return lambda *args: [x.detach() for x in body(*args)[0] if x is not None]


def check_random(program: Program, machine: Callable[[Any, tuple[Any, ...]], Any]) -> None:
    """A random program exported and run as C runs it, against the compiled function."""
    states, arguments = laid_out(program)
    kept = [x.detach().clone() for x in states]
    ad.manual_seed(1)
    try:
        want = ad.compile(results(program, states))(*[x.clone() for x in arguments])
    except (RuntimeError, IndexError, ValueError, TypeError):
        return
    for x, before in zip(states, kept, strict=True):
        if any(n > 1 and not s for n, s in zip(x.shape, x.stride(), strict=True)):
            # Nobody may write to elements that share memory.
            assert x.detach().numpy().tobytes() == before.numpy().tobytes()
    # New states: those that were written are on the tape, whose backward is over.
    states, arguments = laid_out(program)
    ad.manual_seed(1)
    try:
        exported = machine(results(program, states), tuple(arguments))
    except ExportError:
        return
    got = exported(*[x.clone() for x in arguments])
    for a, b in zip(got if isinstance(got, tuple) else (got,), want, strict=True):
        assert a.dtype == b.dtype
        fine = FINE.get(b.dtype.name)
        if fine is None:
            assert (a == b).all()
        else:
            x, y = a.double().numpy(), b.double().numpy()
            np.testing.assert_allclose(x, y, rtol=fine, atol=fine)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_random_programs(program: Program) -> None:
    check_random(program, lambda fn, args: aot(fn, args))


@pytest.mark.slow
@settings(max_examples=600, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_many_random_programs(program: Program) -> None:
    check_random(program, lambda fn, args: aot(fn, args))


# -- the command ----------------------------------------------------------------------------------

MODEL = """
import adjoint as ad
model = ad.nn.Linear(4, 3)
args = (ad.zeros(2, 4),)
"""


def test_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # This process goes on, and starts others that look at its main module.
    monkeypatch.setattr("adjoint.cli.torch_alias.install", lambda: None)
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    (tmp_path / "model.py").write_text(MODEL)
    file, out = str(tmp_path / "model.py"), str(tmp_path / "out")
    assert main(["export", file, "--to", "c", "--out", out, "--name", "line"]) == 0
    assert "line.c" in capsys.readouterr().out
    assert main(["export", file, "--to", "ll", "--out", out, "--weights", "file"]) == 0
    assert (tmp_path / "out" / "model.safetensors").stat().st_size > 60
    assert main(["export", file, "--to", "c", "--model", "none"]) == 2
    assert "defines no 'none'" in capsys.readouterr().err


def test_what_the_function_raises_is_said() -> None:
    with pytest.raises(RuntimeError, match="wants 6"):
        aot(mlp().eval(), (ad.zeros(1, 7),))
