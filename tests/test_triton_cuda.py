"""Programs on a GPU: compiled = eager = the CPU's; `pytest -m cuda`."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import quantization
from adjoint.engine.compiler.schedule.steps import EagerCall
from adjoint.engine.ops.quantized.products import INTEGER_MATMUL
from adjoint.models.gpt2 import GPT2, GPT2Config
from adjoint.nn import functional as F
from adjoint.quantization.modules.weight_only import WeightOnlyLinear
from adjoint.quantization.weights import group_weight

from . import grouped_products, scaled_products
from .triton_programs import PROGRAMS, put_into_state, training

pytestmark = pytest.mark.cuda
FINE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-4}
ROUGH: dict[str, Any] = {"rtol": 2e-2, "atol": 2e-2}  # of halves


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_equal_eager_and_the_cpu(name: str) -> None:
    fn, arguments = PROGRAMS[name]
    compiled = ad.compile(fn)
    halves = "16" in name or "halves" in name
    for seed in range(4):  # launched, captured, replayed twice
        ad.manual_seed(seed)
        given = arguments()
        moved = [x.to("cuda") if isinstance(x, ad.Tensor) else x for x in given]
        results = []
        for run, operands in ((fn, given), (fn, moved), (compiled, moved)):
            ad.manual_seed(seed)
            results.append(run(*operands))
        cpu, eager, got = results
        close = {**(ROUGH if halves else FINE), "equal_nan": True}
        ad.testing.assert_close(got, eager, **close)
        ad.testing.assert_close(got, cpu, check_device=False, **close)


@pytest.mark.parametrize("name", ["running", "ordered", "ordered long", "scattered", "routed"])
def test_no_call_of_the_eager_table_in_between(name: str) -> None:
    fn, arguments = PROGRAMS[name]
    compiled = ad.compile(fn)
    compiled(*[x.to("cuda") for x in arguments()])
    executable: Any = compiled.latest.executable
    assert not any(isinstance(step, EagerCall) for step in executable.plan.steps)


def test_layers_of_int8_have_the_cpu_s_numbers() -> None:
    ad.manual_seed(0)
    net = ad.nn.Sequential(ad.nn.Linear(256, 96), ad.nn.ReLU(), ad.nn.Linear(96, 10))
    quantization.quantize_(net, quantization.Int8DynamicActivationInt8WeightConfig())
    for rows in (1, 300):
        x = ad.randn(rows, 256)
        want = net.cpu()(x)
        compiled = ad.compile(net.to("cuda"))
        for run in (net, compiled):
            ad.testing.assert_close(run(x.to("cuda")).cpu(), want, rtol=1e-6, atol=1e-6)
        executable: Any = compiled.latest.executable
        assert not any(isinstance(step, EagerCall) for step in executable.plan.steps)


@pytest.mark.parametrize(("dtype", "start"), [(ad.float32, 0), (ad.bfloat16, 1), (ad.float16, 2)])
def test_weights_of_few_bits_are_multiplied_as_in_float64(dtype: Any, start: int) -> None:
    weights, modes = grouped_products.WEIGHTS[start::3], ("eager", "compiled")
    assert grouped_products.check("cuda", (dtype,), modes, [(1,), (2, 9)], (33,), weights)
    others = [(3,), (300,), (2, 0)], (70,)  # in several parts, by the library, nothing
    assert grouped_products.check("cuda", (dtype,), ("eager",), *others, weights[:1])


def test_layers_of_few_bits_have_the_cpu_s_numbers() -> None:
    ad.manual_seed(0)
    for bits, group in ((8, None), (4, 32)):
        layer = WeightOnlyLinear(group_weight(ad.randn(96, 256), bits, group, symmetric=bits == 8))
        for rows in (1, 7):
            x = ad.randn(rows, 256)
            want = layer.cpu()(x)
            for run in (layer.to("cuda"), ad.compile(layer)):
                ad.testing.assert_close(run(x.to("cuda")).cpu(), want, rtol=1e-4, atol=1e-4)


def test_products_of_float8_are_those_of_float64() -> None:
    sizes = [(70, 130, 33), (0, 4, 2)]
    assert scaled_products.check("cuda", ("eager",), sizes, rough=3.0)
    assert scaled_products.check("cuda", ("compiled",), [(16, 32, 16)], rough=3.0)


@pytest.mark.parametrize(("m", "n", "k"), [(16, 16, 16), (512, 384, 1024), (48, 64, 80)])
def test_products_of_int8_by_the_library_are_exact(m: int, n: int, k: int) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((m, k), (n, k)))
    want = x.astype(np.int64) @ y.astype(np.int64).T
    a, b = (ad.tensor(each).to("cuda") for each in (x, y))
    for run in (ad._int_mm, ad.compile(ad._int_mm)):
        assert (np.asarray(run(a, b.t()).cpu()) == want).all()
    batch = INTEGER_MATMUL(ad.stack([a, a]), ad.stack([b, b]))
    assert (np.asarray(batch.cpu()) == want).all()


def gradient(fn: Any, x: Any) -> Any:
    x = x.detach().requires_grad_()
    out = fn(x)
    return ad.autograd.grad(out, x, out.detach().cos())[0]


REPEATED: dict[str, Any] = {
    "index_add": lambda x, i, v: x.index_add(0, i, v),
    "scatter_add": lambda x, i, v: x.scatter_add(0, i[:, None].expand(v.shape), v),
    "scatter": lambda x, i, v: x.scatter(0, i[:, None].expand(v.shape), v),
    "index_put": lambda x, i, v: x.index_put((i,), v),
    "prod": lambda x, i, v: x.scatter_reduce(0, i[:, None].expand(v.shape), v, "prod"),
    "embedding": lambda x, i, v: gradient(lambda w: F.embedding(i, w), x),
    "gather": lambda x, i, v: gradient(lambda w: w.gather(0, i[:, None].expand(v.shape)), x),
    "convolution": lambda x, i, v: gradient(
        lambda w: F.conv2d(v[:480].reshape(4, 4, 30, 33), w, padding=1),
        x[:36, :8].reshape(8, 4, 3, 3),
    ),
    "max pooling": lambda x, i, v: gradient(
        lambda w: F.max_pool2d(w, 3, 2, 1), v[:480].reshape(4, 4, 30, 33)
    ),
    "average pooling": lambda x, i, v: gradient(
        lambda w: F.avg_pool2d(w, 3, 2, 1), v[:480].reshape(4, 4, 30, 33)
    ),
}


@pytest.mark.parametrize("name", REPEATED)
def test_deterministic_results_are_the_same_every_time(name: str) -> None:
    ad.manual_seed(0)
    x, v = ad.randn(50, 33, device="cuda"), ad.randn(5000, 33, device="cuda")
    i = ad.randint(0, 50, (5000,), device="cuda")
    ad.use_deterministic_algorithms(True)
    try:
        fn = REPEATED[name]
        compiled = ad.compile(fn)
        for run in (fn, compiled):
            first = run(x, i, v)
            for _ in range(3):
                again = run(x, i, v)
                assert bool((first == again).all())
        if name in ("index_add", "scatter_add", "scatter", "index_put"):  # in the CPU's order
            want = fn(x.cpu(), i.cpu(), v.cpu())
            assert bool((fn(x, i, v).cpu() == want).all())
            assert bool((first.cpu() == want).all())
    finally:
        ad.use_deterministic_algorithms(False)


@pytest.mark.parametrize("optimizer", ["SGD", "AdamW", "Adam", "RMSprop", "Adagrad", "Adadelta"])
def test_training_equals_eager(optimizer: str) -> None:
    eager, compiled = (training(b, optimizer, "cuda", 6) for b in ("eager", "native"))
    assert compiled == pytest.approx(eager, rel=1e-4)


def test_what_is_given_on_the_cpu_is_copied_by_a_program_with_loops() -> None:
    """Lengths and a batch on the CPU, a recurrent network on the GPU: one program, as in eager."""
    ad.manual_seed(0)
    layer, head = ad.nn.GRU(24, 40).to("cuda"), ad.nn.Linear(40, 9).to("cuda")
    batch, lengths = ad.randn(150, 20, 24), ad.full((20,), 150)
    targets, sizes = ad.randint(1, 9, (20, 11), device="cuda"), ad.full((20,), 11)
    parameters = [*layer.parameters(), *head.parameters()]

    def step(batch: Any) -> Any:
        rows = head(layer(batch.to("cuda"))[0]).log_softmax(-1)
        loss = F.ctc_loss(rows, targets, lengths, sizes)
        return loss, ad.autograd.grad(loss, parameters)

    compiled = ad.compile(step)
    for _ in range(3):
        ad.testing.assert_close(compiled(batch), step(batch), **FINE)
    assert compiled.latest.executable.explain()  # which what is interpreted has not


def test_rows_are_put_into_state_where_it_lies() -> None:
    put_into_state("cuda")


def test_results_that_are_held_stay() -> None:
    """Losses read at the end are those that are read at once."""
    found = []
    for at_once in (True, False):
        ad.manual_seed(0)
        net = ad.nn.Sequential(ad.nn.Linear(64, 64), ad.nn.GELU(), ad.nn.Linear(64, 8)).to("cuda")
        optimizer = ad.optim.AdamW(net.parameters(), lr=1e-2)

        @ad.compile
        def step(x: Any, net: Any = net, optimizer: Any = optimizer) -> Any:
            loss = net(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        losses = []
        for i in range(40):
            ad.manual_seed(i)
            loss = step(ad.randn(32, 64).to("cuda")).detach().float()
            losses.append(loss.item() if at_once else loss)
        found.append([float(x) for x in losses])
    assert found[0] == pytest.approx(found[1], rel=1e-5)


def test_products_that_are_held_stay() -> None:
    """Captured products know where their results are put."""
    w = ad.randn(256, 256, device="cuda") / 16

    def products(x: Any) -> Any:
        for _ in range(4):
            x = x @ w
        return x, x @ w

    compiled = ad.compile(products)
    given = [ad.randn(64, 256, device="cuda") for _ in range(16)]
    for got, x in zip([compiled(x) for x in given], given, strict=True):
        ad.testing.assert_close(got, products(x), **FINE)


def test_calls_on_several_streams_are_in_order() -> None:
    """Of one program, and of two whose products share a workspace; read where they were made."""
    w = ad.randn(512, 512, device="cuda") / 22

    def products(x: Any) -> Any:
        for _ in range(4):
            x = (x @ w).tanh()
        return x

    both = ad.compile(products), ad.compile(lambda x: products(x) * 2)
    given = [ad.randn(64, 512, device="cuda") for _ in range(48)]
    want = [products(x).sum(1) * (1 + k % 2) for k, x in enumerate(given)]
    streams = [ad.cuda.Stream() for _ in range(3)]
    ad.cuda.synchronize()
    found = []
    for k, x in enumerate(given):
        with ad.cuda.stream(streams[k * 7 % 3]):
            found.append(both[k % 2](x).sum(1))
    ad.cuda.synchronize()
    for got, expected in zip(found, want, strict=True):
        ad.testing.assert_close(got, expected, rtol=1e-3, atol=1e-2)


def test_a_fault_leaves_state() -> None:
    w = ad.randn(10, 16, device="cuda")
    first = w.clone()

    def update(i: Any) -> Any:
        y = w[i].sum()
        w.mul_(0.5)
        return y

    compiled = ad.compile(update)
    good, bad = ad.tensor([1, 2]).to("cuda"), ad.tensor([1, 99]).to("cuda")
    for _ in range(3):
        compiled(good)
    before = w.clone()
    for _ in range(2):
        with pytest.raises(IndexError, match="99"):
            compiled(bad).item()  # which waits for the GPU
    ad.testing.assert_close(w, before)
    compiled(good)
    ad.testing.assert_close(w, first * 0.5**4)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("bad", range(4))  # of several steps, at which nothing is waited for
def test_a_fault_leaves_counts_of_steps(compiled: bool, bad: int) -> None:
    ad.manual_seed(0)
    table = ad.nn.Embedding(10, 4).to("cuda")
    optimizer = ad.optim.Adam(table.parameters(), lr=0.1)

    def step(i: Any) -> Any:
        loss = table(i).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    run = ad.compile(step) if compiled else step
    rows = [ad.tensor([1, 2], device="cuda") for _ in range(3)]
    rows.insert(bad, ad.tensor([1, 99], device="cuda"))
    for _ in range(3):
        run(rows[bad - 1])
    ad.cuda.synchronize()

    def run_all() -> None:
        for i in rows:
            run(i)
        ad.cuda.synchronize()

    with pytest.raises(IndexError, match="99"):
        run_all()
    assert optimizer.state[table.weight]["step"].item() == 3 + bad
    run(rows[bad - 1])
    ad.cuda.synchronize()
    assert optimizer.state[table.weight]["step"].item() == 4 + bad


def test_host_numbers_and_addresses_change_between_replays() -> None:
    compiled = ad.compile(lambda x, a: x * a + 1)
    for k in range(6):
        x = ad.randn(33, device="cuda")
        shown = x[1:] if k % 2 else x[:-1]  # at addresses of other alignment
        ad.testing.assert_close(compiled(shown, float(k)), shown * float(k) + 1)


def gpt_step(compiled: bool, half: bool) -> tuple[list[float], dict[str, Any]]:
    """Losses of a small GPT's training, and the gradients of the first step."""
    config = GPT2Config(vocab_size=257, n_positions=64, n_embd=64, n_layer=2, n_head=4, dropout=0.0)
    ad.manual_seed(0)
    net = GPT2(config).to("cuda")
    optimizer = ad.optim.AdamW(net.parameters(), lr=3e-4)
    tokens = ad.randint(0, 257, (4, 65)).to("cuda")
    x, y = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()

    def step(x: Any, y: Any) -> Any:
        with ad.autocast("cuda", dtype=ad.bfloat16, enabled=half):
            logits = net(x)
            loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), y.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    run = ad.compile(step) if compiled else step
    losses = [run(x, y).item()]
    grads = {n: p.grad.float().cpu() for n, p in net.named_parameters() if p.grad is not None}
    return losses + [run(x, y).item() for _ in range(5)], grads


@pytest.mark.parametrize("half", [False, True])
def test_a_gpt_step_equals_eager(half: bool) -> None:
    losses, grads = gpt_step(False, half)
    got, other = gpt_step(True, half)
    assert got == pytest.approx(losses, abs=3e-2 if half else 1e-4)
    assert grads.keys() == other.keys()
    for name, grad in grads.items():
        apart = ((grad - other[name]).norm() / (grad.norm() + 1e-12)).item()
        assert apart < (3e-2 if half else 1e-3), name


@pytest.mark.parametrize("keys", [64, 61])
@pytest.mark.parametrize("compiled", [False, True])
def test_attention_drops_what_the_cpu_drops(compiled: bool, keys: int) -> None:
    """The same weights, forward and backward, with heads that share keys."""

    def both(q: Any, k: Any, v: Any) -> Any:
        leaves = [x.detach().requires_grad_() for x in (q, k, v)]
        out = ad.nn.functional.scaled_dot_product_attention(*leaves, dropout_p=0.3, enable_gqa=True)
        return (out, *ad.autograd.grad((out * out).sum(), leaves))

    q, k, v = ad.randn(2, 4, 40, 32), ad.randn(2, 2, keys, 32), ad.randn(2, 2, keys, 16)
    ad.manual_seed(3)
    want = both(q, k, v)
    ad.manual_seed(3)
    got = (ad.compile(both) if compiled else both)(*[x.to("cuda") for x in (q, k, v)])
    ad.testing.assert_close([x.cpu() for x in got], [*want], rtol=1e-4, atol=1e-4)


def test_memory_of_attention_with_dropout_is_linear() -> None:
    """Eagerly: no weights and no factors in memory."""
    peaks = []
    for length in (2048, 4096):
        x = ad.randn(1, 4, length, 64, device="cuda").bfloat16().requires_grad_()
        ad.cuda.synchronize()
        gc.collect()  # what other tests left, which would be given back meanwhile
        ad.cuda.reset_peak_memory_stats()
        before = ad.cuda.memory_allocated()
        ad.nn.functional.scaled_dot_product_attention(x, x, x, None, 0.1, True).sum().backward()
        peaks.append(ad.cuda.max_memory_allocated() - before)
    assert peaks[1] < 2.2 * peaks[0], peaks
