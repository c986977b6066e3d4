"""Stateful programs, captured and replayed: five calls each, equal to eager."""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.core.operations.record import REGISTRY
from adjoint.engine.core.state.context import concrete
from adjoint.engine.core.state.host import HostScalar
from adjoint.engine.graph.execution import interpreted
from adjoint.engine.ops.nn.recurrent_networks import (
    RECURRENT_GRADIENT,
    RECURRENT_NETWORK,
    RecurrentNetwork,
)
from adjoint.engine.ops.reduce.reduction import MEAN, NANSUM
from adjoint.graph import capture, interpret, load, to_text, verify
from adjoint.nn import functional as F

Step = Callable[[int], Any]
PROGRAMS: dict[str, Callable[[Callable[[Any], Any]], tuple[Step, list[Any]]]] = {}


def program(make: Any) -> Any:
    """A program: given a wrapper for the step, builds fresh state; returns (call, state)."""
    PROGRAMS[make.__name__] = make
    return make


def data(i: int, n: int = 3) -> Any:
    return ad.tensor(np.linspace(i + 1, i + 2, n).astype(np.float32))


@program
def mutated_buffer(wrap: Any) -> Any:
    total = ad.zeros(3)

    @wrap
    def step(x: Any) -> Any:
        total.add_(x)
        return total * 2

    return lambda i: step(data(i)), [total]


@program
def grad_created_then_accumulated(wrap: Any) -> Any:
    w = ad.tensor([1.0, 2.0, 3.0], requires_grad=True)

    @wrap
    def step(x: Any) -> Any:
        loss = (w * w * x).sum()
        loss.backward()
        return loss.detach()

    return lambda i: step(data(i)), [w, lambda: w.grad]


@program
def grad_dropped_each_call(wrap: Any) -> Any:
    w = ad.tensor([1.0, 2.0, 3.0], requires_grad=True)

    @wrap
    def step(x: Any) -> Any:
        w.grad = None
        (w * x).sum().backward()
        with ad.no_grad():
            w.add_(w.grad, alpha=-0.1)

    return lambda i: step(data(i)), [w, lambda: w.grad]


@program
def momentum_created_lazily(wrap: Any) -> Any:
    w = ad.tensor([1.0, 2.0, 3.0], requires_grad=True)
    state: dict[str, Any] = {}

    @wrap
    def step(x: Any) -> Any:
        (w * w * x).sum().backward()
        if "m" not in state:
            with concrete():
                state["m"] = ad.zeros(3)
        with ad.no_grad():
            m = state["m"]
            m.mul_(0.9).add_(w.grad)
            w.add_(m, alpha=-0.01)
            w.grad = None

    return lambda i: step(data(i)), [w, lambda: state["m"]]


@program
def old_view_of_a_parameter(wrap: Any) -> Any:
    w = ad.tensor([[1.0, 2.0], [3.0, 4.0]])
    row = w[1]

    @wrap
    def step(x: Any) -> Any:
        row.mul_(x)
        w[:, 0] += 1
        return row.sum() + w.sum()

    return lambda i: step(data(i, 2)), [w, row]


@program
def tied_weights(wrap: Any) -> Any:
    w = ad.tensor([1.0, 2.0, 3.0], requires_grad=True)
    model = {"encoder": w, "decoder": w}

    @wrap
    def step(x: Any) -> Any:
        loss = (model["encoder"] * x).sum() * model["decoder"].sum()
        loss.backward()
        with ad.no_grad():
            w.add_(w.grad, alpha=-0.001)
            w.grad = None
        return loss.detach()

    return lambda i: step(data(i)), [w]


@program
def aliased_arguments(wrap: Any) -> Any:
    @wrap
    def step(x: Any, y: Any) -> Any:
        x.add_(1)
        return x * y

    base = data(0, 4)

    def call(i: int) -> Any:
        other = data(i, 4)
        return (
            step(base, base),
            step(base, other),
            step(base[:2], base[2:]),
            step(base[1:], base[:3]),
        )

    return call, [base]


@program
def argument_aliases_state(wrap: Any) -> Any:
    w = data(0, 4)

    @wrap
    def step(x: Any) -> Any:
        x.mul_(2)
        return w + 1

    return lambda i: (step(w[1:3]), step(data(i, 2))), [w]


@program
def writes_through_data(wrap: Any) -> Any:
    w = ad.tensor([1.0, 2.0, 3.0], requires_grad=True)
    old = w.data

    @wrap
    def step(x: Any) -> Any:
        (w * x).sum().backward()
        old.mul_(0.5)
        w.data.sub_(w.grad, alpha=0.1)
        w.grad = None
        return old * 1, w.detach() * 1

    return lambda i: step(data(i)), [w, old]


@program
def replaced_parameter(wrap: Any) -> Any:
    holder = {"w": data(0)}

    @wrap
    def step(x: Any) -> Any:
        holder["w"].add_(x)
        return holder["w"] * 1

    def call(i: int) -> Any:
        if i == 2:
            holder["w"] = data(7)
        return step(data(i))

    return call, [lambda: holder["w"]]


@program
def host_scalar(wrap: Any) -> Any:
    w = data(0)
    group = {"lr": 0.5}
    rate = HostScalar(lambda: group["lr"], "lr")

    @wrap
    def step(x: Any) -> Any:
        w.sub_(x * (rate * 2))
        return w + 0

    def call(i: int) -> Any:
        group["lr"] = 0.5 / (i + 1)
        return step(data(i))

    return call, [w]


@program
def random_draws(wrap: Any) -> Any:
    ad.manual_seed(11)

    @wrap
    def step(x: Any) -> Any:
        return ad.rand(3) * x, ad.randn(2, 2)

    return lambda i: (step(data(i)), ad.rand(2)), []


@program
def writes_through_views(wrap: Any) -> Any:
    m = ad.zeros(3, 3)

    @wrap
    def step(x: Any) -> Any:
        m.t()[0] += x
        m[1:, 1:].mul_(2)
        m.view(9)[::2] = x.sum()
        return m.sum(0)

    return lambda i: step(data(i)), [m]


@program
def returns_views_of_state(wrap: Any) -> Any:
    m = data(0, 4)

    @wrap
    def step(x: Any) -> Any:
        m.add_(1)
        y = x * 2
        return m[1:], m, y, y[0], x

    def call(i: int) -> Any:
        tail, _, y, first, _ = outs = step(data(i))
        tail.mul_(0.5)
        first.add_(100)
        return outs, y + 0

    return call, [m]


@program
def swap_of_two_buffers(wrap: Any) -> Any:
    a, b = data(0), data(5)

    @wrap
    def step(x: Any) -> Any:
        old = a.clone()
        a.copy_(b)
        b.copy_(old)
        b.mul_(x)

    return lambda i: step(data(i)), [a, b]


@program
def copy_then_change_the_original(wrap: Any) -> Any:
    a, b = data(0), data(5)

    @wrap
    def step(x: Any) -> Any:
        a.copy_(b)
        b.add_(x)
        return a

    return lambda i: step(data(i)) * 1, [a, b]


@program
def new_shapes_and_modes(wrap: Any) -> Any:
    w = ad.ones(1, requires_grad=True)

    @wrap
    def step(x: Any) -> Any:
        return (w * x).sum() if ad.is_grad_enabled() else (w + x).sum()

    def call(i: int) -> Any:
        if i % 2:
            with ad.no_grad():
                return step(data(i, 2 + i % 3))
        return step(data(i, 2 + i % 3)).detach()

    return call, []


@program
def nested_containers(wrap: Any) -> Any:
    @wrap
    def step(batch: Any, *, scale: int) -> Any:
        return {"out": [batch["x"] * scale, (batch["y"] + 1, scale)]}

    return lambda i: step({"x": data(i), "y": data(i + 1)}, scale=2 + i % 2), []


@program
def changed_attribute(wrap: Any) -> Any:
    class Layer:
        def __init__(self) -> None:
            self.training = True
            self.mean = ad.zeros(3)

        def forward(self, x: Any) -> Any:
            if self.training:
                self.mean.mul_(0.9).add_(x, alpha=0.1)
                return x * 2
            return x - self.mean

    layer = Layer()
    step = wrap(layer.forward)

    def call(i: int) -> Any:
        layer.training = i != 3
        return step(data(i))

    return call, [layer.mean]


@program
def transforms_inside(wrap: Any) -> Any:
    w = data(0)

    @wrap
    def step(x: Any) -> Any:
        def loss(v: Any) -> Any:
            out = v.new_zeros(3)
            out[0] = v[0] * v[1]
            out[1:] = v[1:].exp()
            return (out * x).sum()

        w.sub_(ad.func.grad(loss)(w) * 0.001)
        return ad.func.vmap(ad.func.grad(loss))(ad.stack([w, x]))

    return lambda i: step(data(i) * 0.1), [w]


@program
def softmax_and_double_backward(wrap: Any) -> Any:
    w = ad.tensor([0.5, -1.0, 2.0], requires_grad=True)

    @wrap
    def step(x: Any) -> Any:
        out = (ad.softmax(w * x, 0) * x).sum()
        (g,) = ad.autograd.grad(out, w, create_graph=True)
        (h,) = ad.autograd.grad((g * g).sum(), w)
        return out.detach(), g.detach(), h

    return lambda i: step(data(i)), [w]


@program
def in_place_on_the_tape(wrap: Any) -> Any:
    w = ad.tensor([1.0, 2.0, 3.0], requires_grad=True)

    @wrap
    def step(x: Any) -> Any:
        y = w * x
        y[0] = 5.0
        z = y[1:]
        z.mul_(y[0])
        y.sum().backward()

    return lambda i: step(data(i)), [lambda: w.grad]


def flat(x: Any) -> list[Any]:
    if isinstance(x, ad.Tensor):
        return [x.detach().cpu().numpy().copy()]
    if isinstance(x, dict):
        x = list(x.values())
    if isinstance(x, (list, tuple)):
        return [leaf for item in x for leaf in flat(item)]
    return [x]


def run(name: str, wrap: Callable[[Any], Any]) -> list[Any]:
    call, state = PROGRAMS[name](wrap)
    seen: list[Any] = []
    for i in range(5):
        seen += flat(call(i))
        for s in state:
            seen += flat(s() if callable(s) else s)
    return seen


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_equals_eager(name: str) -> None:
    want = run(name, lambda fn: fn)
    got = run(name, capture)
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(g, w)


@program
def constants_made_inside(wrap: Any) -> Any:
    kept: list[Any] = []

    @wrap
    def step(x: Any) -> Any:
        total = ad.tensor([1.0, 2.0, 3.0])
        sizes = ad.tensor([[1, 2], [0, 1]])
        assert sizes[0].tolist() == [1, 2]
        total[int(sizes[1, 1]) :] += x[sizes[0]]
        return total, ad.tensor(3.0)

    def call(i: int) -> Any:
        total, three = step(data(i))
        three.add_(1)  # a result is the caller's own
        kept.append(total)
        return total * 1

    return call, [lambda: ad.stack(kept)]


def test_a_written_constant_is_no_longer_known() -> None:
    def step(x: Any) -> Any:
        sizes = ad.tensor([1, 2])
        sizes[0] = x
        return [1 if size > 1 else 2 for size in sizes.tolist()]

    with pytest.raises(RuntimeError, match="tolist"):
        capture(step)(ad.tensor(1))


def test_steady_state_does_not_retrace() -> None:
    w = ad.tensor([1.0, 2.0, 3.0], requires_grad=True)

    @capture
    def step(x: Any) -> Any:
        (w * w * x).sum().backward()

    for i in range(5):
        step(data(i))
    assert step.traces == 2  # once creating the gradient, once accumulating


def test_what_cannot_be_recorded_leaves_everything_as_it_was() -> None:
    w = ad.tensor([1.0, 2.0, 3.0], requires_grad=True)
    buffer = ad.zeros(3)
    w.grad = ad.ones(3)
    held = w.grad
    version = buffer._storage.version

    @capture
    def step(x: Any) -> Any:
        buffer.add_(x)
        (w * w).sum().backward()
        w.grad = None
        buffer.requires_grad_()
        return float(w.sum()) > 0

    with pytest.raises(RuntimeError, match="value of a tensor"):
        step(data(0))
    assert w.grad is held
    assert held.numpy().tolist() == [1, 1, 1]
    assert buffer.numpy().tolist() == [0, 0, 0]
    assert not buffer.requires_grad
    assert buffer._storage.version == version
    assert (buffer + 1).numpy().tolist() == [1, 1, 1]


def test_an_exception_while_replaying_changes_no_state() -> None:
    buffer = ad.zeros(3)
    table = ad.zeros(4)

    @capture
    def step(i: Any) -> Any:
        buffer.add_(1)
        return table[i]

    step(ad.tensor([0, 3]))
    with pytest.raises(IndexError):
        step(ad.tensor([0, 9]))
    assert buffer.numpy().tolist() == [1, 1, 1]


def test_a_place_nobody_can_look_into_is_refused() -> None:
    kept: queue.SimpleQueue[Any] = queue.SimpleQueue()  # a place nobody can look into

    @capture
    def step(x: Any) -> Any:
        kept.put(x * 2)
        return x

    with pytest.raises(RuntimeError, match=r"SimpleQueue\.put.*test_capture.py:\d+"):
        step(data(0))
    assert kept.empty()


def branch(x: Any) -> Any:
    return x * 2 if x.sum() > 0 else x  # line


def loop(x: Any) -> Any:
    while (x[1:] < 9).all():  # line
        x = x * 2
    return x


def number(x: Any) -> Any:
    return ad.full((3,), x.max().item())  # line


def size(x: Any) -> Any:
    return ad.zeros(int(x[0]))  # line


def index(x: Any) -> Any:
    return [1, 2, 3][x.argmax()]  # line


def array(x: Any) -> Any:
    return ad.tensor(np.exp(x.numpy()))  # line


def mask(x: Any) -> Any:
    return x[x > 0].sum()  # line


def in_a_body(x: Any) -> Any:
    return ad.scan(lambda c, r: (c if r > 0 else -c, None), x, x)[0]  # line


@pytest.mark.parametrize(
    ("fn", "value", "remedy"),
    [
        (branch, "bool[], the result of gt", "cond(pred"),
        (loop, "bool[], the result of all", "while_loop"),
        (number, "float32[], the result of max", "Keep it a tensor"),
        (size, "float32[], a view (slice) of an argument", "x.shape"),
        (index, "int64[], the result of argmax", "Keep it a tensor"),
        (array, "float32[3], an argument", "return the tensor"),
        (mask, "nonzero", "where(mask"),
        (in_a_body, "bool[], the result of gt", "scan"),
    ],
)
def test_asking_for_a_traced_value_names_line_value_and_remedy(
    fn: Any, value: str, remedy: str
) -> None:
    with pytest.raises(RuntimeError) as caught:
        capture(fn)(data(0))
    message = str(caught.value)
    assert "test_capture.py:" in message
    assert "# line" in message
    assert value in message
    assert remedy in message


def test_a_function_counts_on_the_host() -> None:
    state = {"steps": [0], "rate": 0.5, "training": False}

    @capture
    def step(x: Any) -> Any:
        state["training"] = True
        state["steps"][0] += 1  # type: ignore[index]
        return x * state["rate"]

    for _ in range(4):
        step(ad.ones(2))
    assert state == {"steps": [4], "rate": 0.5, "training": True}
    assert step.traces == 1


def test_a_count_in_an_object_that_is_replaced() -> None:
    class Progress:
        steps = 0

        def __init__(self) -> None:
            self.steps = 0

    class Holder:
        def __init__(self) -> None:
            self.progress = Progress()

    holder = Holder()
    before = holder.progress

    @capture
    def step(x: Any) -> Any:
        holder.progress.steps += 1
        holder.progress = Progress()
        return x * 2

    step(ad.ones(2))
    assert before.steps == 1
    second = holder.progress
    assert second is not before
    step(ad.ones(2))
    assert (before.steps, second.steps, holder.progress.steps) == (1, 1, 0)
    assert holder.progress is not second


def test_what_changes_while_a_program_is_compiled_is_noticed() -> None:
    """As another thread might; the recording is of what was there before."""
    scale = {"by": 2.0}

    def compile_slowly(task: Any) -> Any:
        scale["by"] = 3.0
        return interpreted(task)

    step = capture(lambda x: x * scale["by"], compile_slowly)
    assert [step(ad.ones(1)).item() for _ in range(2)] == [2.0, 3.0]


def test_branching_on_a_host_scalar_guards() -> None:
    flag = {"on": 1.0}
    scalar = HostScalar(lambda: flag["on"], "flag")

    @capture
    def step(x: Any) -> Any:
        return x * 2 if scalar > 0 else x * 3

    assert step(ad.ones(1)).numpy().tolist() == [2]
    flag["on"] = -1.0
    assert step(ad.ones(1)).numpy().tolist() == [3]
    flag["on"] = 2.0
    assert step(ad.ones(1)).numpy().tolist() == [2]
    assert step.traces == 2


def test_unhashable_argument() -> None:
    with pytest.raises(TypeError, match="cannot be hashed"):
        capture(lambda x, s: x)(data(0), bytearray(2))


def test_text_runs_and_graph_verifies() -> None:
    w = data(3)

    @capture
    def step(x: Any) -> Any:
        w[1:] += x[:2]
        return ad.softmax(w * x, 0)

    x = data(1)
    step(x)
    program = step.latest
    verify(program.graph)
    inputs = [s.read([x]) for s in program.sources]
    want = interpret(program.graph, inputs)
    got = load(to_text(program.graph))(*inputs)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_composite_stays_one_node() -> None:
    step = capture(lambda x: ad.softmax(x, 0))
    step(data(0))
    (node,) = step.latest.graph.nodes
    assert node.record.name == "softmax"
    assert node.subgraph is not None
    assert len(node.subgraph) > 2


NETWORK = RecurrentNetwork("LSTM", "float32", 3, 2, 4, 5, 1, 1, biases=True)
WEIGHTS = tuple(ad.ones(s) for s in ((20, 4), (20, 5), (20,), (20,)))


def network(x: ad.Tensor, *weights: ad.Tensor) -> Any:
    how: dict[str, Any] = {"network": NETWORK, "given": 0, "training": True, "kept": 6}
    return RECURRENT_NETWORK(x, *weights, **how)[0]


def gradients_of_network(g: ad.Tensor, x: ad.Tensor, *weights: ad.Tensor) -> Any:
    """Of the outputs alone, by the input and the first weight."""
    got, wanted = (True, False, False), (True, True, False, False, False)
    how: dict[str, Any] = {"got": got, "wanted": wanted, "network": NETWORK, "given": 0}
    kept = ad.zeros(6, dtype=ad.uint8)
    return RECURRENT_GRADIENT(g, g, kept, x, *weights, **how)[1]


FORETOLD: list[tuple[str, Any, tuple[Any, ...]]] = [
    ("recurrent_network", network, (ad.ones(3, 2, 4), *WEIGHTS)),
    (
        "recurrent_network_gradient",
        gradients_of_network,
        (ad.ones(3, 2, 5), ad.ones(3, 2, 4), *WEIGHTS),
    ),
    ("linear", F.linear, (ad.ones(2, 3, 4), ad.ones(5, 4), ad.ones(5))),
    ("linear", F.linear, (ad.ones(4), ad.ones(5, 4))),
    ("linear", F.linear, (ad.ones(0, 4), ad.ones(5, 4))),
    ("linear", F.linear, (ad.ones(2, 4), ad.ones(4), ad.ones(()))),
    ("linear", F.linear, (ad.ones(2, 4, dtype=ad.float64), ad.ones(1, 4, dtype=ad.float64))),
    ("p_norm", lambda x: x.norm(3.0, dim=1), (ad.ones(2, 3, 4),)),
    ("p_norm", lambda x: x.norm(2.0, dim=(0, 2), keepdim=True), (ad.ones(2, 3, 4),)),
    ("p_norm", lambda x: x.norm(2.0), (ad.ones(2, 3, dtype=ad.complex64),)),
    ("p_norm", lambda x: x.norm(0.0), (ad.ones(0, 3),)),
    ("mean", lambda x: MEAN(x, dims=(0,), keepdim=False), (ad.ones(2, 3, dtype=ad.float64),)),
    ("nansum", lambda x: NANSUM(x, dims=(1,), keepdim=True), (ad.tensor([[1.0, float("nan")]]),)),
    ("max", lambda x: x.max(), (ad.ones(2, 3),)),
    ("min", lambda x: x.min(), (ad.ones(2, 3, dtype=ad.float64),)),
    ("softmax", lambda x: x.softmax(0), (ad.ones(2, 3, dtype=ad.float64),)),
    ("log_softmax", lambda x: x.log_softmax(-1), (ad.ones(2, 3),)),
    ("gelu", F.gelu, (ad.ones(2, 3, dtype=ad.bfloat16),)),
    ("layer_norm", lambda x: F.layer_norm(x, (3, 4)), (ad.ones(2, 3, 4),)),
    ("layer_norm", lambda x, w: F.layer_norm(x, (4,), w, w), (ad.ones(2, 4), ad.ones(4))),
    ("embedding", F.embedding, (ad.zeros(2, 3, dtype=ad.int32), ad.ones(7, 5))),
    ("embedding", lambda i, w: F.embedding(i, w, padding_idx=1), (ad.tensor(1), ad.ones(7, 5))),
]


@pytest.mark.parametrize(("name", "fn", "args"), FORETOLD)
def test_what_composites_foretell_is_what_their_compositions_give(
    name: str, fn: Any, args: tuple[Any, ...]
) -> None:
    captured = capture(fn)
    np.testing.assert_array_equal(captured(*args).numpy(), fn(*args).numpy())
    nodes = [node for node in captured.graph if node.record.name == name]
    assert nodes
    for node in nodes:
        composed = node.subgraph
        assert composed is not None
        assert composed is node.subgraph  # made once
        assert [v.spec for v in node.outputs] == [v.spec for v in composed.outputs]


def test_every_foretelling_composite_is_tested() -> None:
    foretelling = {record.name for record in REGISTRY.values() if record.infer_specs is not None}
    assert foretelling == {name for name, *_ in FORETOLD}
