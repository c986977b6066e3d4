"""Models: shapes, published parameter counts, weight names, and that each learns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
from adjoint import models, nn
from adjoint.models.bert import BertConfig
from adjoint.models.resnet import BasicBlock
from adjoint.nn import functional as F

LLAMA_TINY = models.LlamaConfig(17, 16, 32, 2, 4, 2)
GPT_TINY = models.GPT2Config(17, 16, 16, 2, 2, 0.0)

PUBLISHED: dict[str, tuple[Callable[[], Any], int]] = {
    "lenet": (models.LeNet, 61_706),
    "resnet18": (models.resnet18, 11_689_512),
    "resnet34": (models.resnet34, 21_797_672),
    "resnet50": (models.resnet50, 25_557_032),
    "resnet101": (models.resnet101, 44_549_160),
    "resnet152": (models.resnet152, 60_192_808),
    "vgg11": (models.vgg11, 132_863_336),
    "vgg16": (models.vgg16, 138_357_544),
    "vgg16_bn": (lambda: models.vgg16(batch_norm=True), 138_365_992),
    "mobilenet_v2": (models.mobilenet_v2, 3_504_872),
    "vit_b_16": (models.vit_b_16, 86_567_656),
    "unet": (models.UNet, 31_030_593),
    "gpt2": (models.GPT2, 124_439_808),
    "bert": (models.Bert, 109_482_240),
    "minilm": (models.minilm_l6, 22_713_216),
    "vae": (models.VAE, 652_824),
    "ddpm": (models.DiffusionUNet, 35_746_307),
}


def no_init(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave weights as allocated: counting parameters needs no random numbers."""
    for name in dir(nn.init):
        if name.endswith("_") and not name.startswith("_"):
            monkeypatch.setattr(nn.init, name, lambda tensor, *args, **kwargs: tensor)


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameter_counts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    no_init(monkeypatch)
    make, count = PUBLISHED[name]
    assert sum(p.numel() for p in make().parameters()) == count


def test_llama_counts() -> None:
    assert models.LlamaConfig().parameters() == 6_738_415_616
    eight = models.LlamaConfig(128256, 4096, 14336, 32, 32, 8)
    assert eight.parameters() == 8_030_261_248
    tiny = models.Llama(LLAMA_TINY)
    assert sum(p.numel() for p in tiny.parameters()) == LLAMA_TINY.parameters()


def test_lstm_count() -> None:
    count = sum(p.numel() for p in models.LSTMLanguageModel(100, 20, 2).parameters())
    assert count == 100 * 20 + 2 * (4 * 20 * 40 + 2 * 4 * 20) + 100 * 20 + 100


NAMES = {
    "layer4.1.bn2.running_var": lambda: models.ResNet(BasicBlock, (1, 1, 1, 2), 3, 4),
    "layer2.0.downsample.0.weight": lambda: models.ResNet(BasicBlock, (1, 1, 1, 1), 3, 4),
    "features.1.conv.0.0.weight": lambda: models.MobileNetV2(5, 0.25),
    "encoder.layers.encoder_layer_0.self_attention.in_proj_weight": lambda: (
        models.VisionTransformer(8, 4, 1, 2, 8, 16, 0.0, 3)
    ),
    "transformer.h.1.attn.c_attn.weight": lambda: models.GPT2(GPT_TINY),
    "model.layers.1.self_attn.q_proj.weight": lambda: models.Llama(LLAMA_TINY),
    "encoder.layer.0.attention.self.query.weight": lambda: models.Bert(
        BertConfig(17, 8, 1, 2, 16, 16)
    ),
}


@pytest.mark.parametrize("name", NAMES)
def test_weight_names(name: str) -> None:
    assert name in NAMES[name]().state_dict()


def images(channels: int = 3, size: int = 32, count: int = 8) -> tuple[Any, Any]:
    labels = ad.arange(count) % 2
    x = ad.randn(count, channels, size, size) * 0.2
    x[labels == 1, :, : size // 2] += 1
    return x, labels


def tokens() -> Any:
    return (ad.arange(12).view(1, 12) * 3 + ad.arange(4).view(4, 1)) % 17


def classify(model: Any, x: Any, y: Any) -> Callable[[], Any]:
    return lambda: F.cross_entropy(model(x), y)


def predict_next(model: Any) -> Callable[[], Any]:
    t = tokens()

    def loss() -> Any:
        scores = model(t[:, :-1])
        scores = scores[0] if isinstance(scores, tuple) else scores
        return F.cross_entropy(scores.flatten(0, 1), t[:, 1:].flatten())

    return loss


def segment(model: Any) -> Callable[[], Any]:
    x = ad.randn(2, 1, 16, 16)
    return lambda: F.cross_entropy(model(x), (x[:, 0] > 0).long())


def fill_in(model: Any) -> Callable[[], Any]:
    head = nn.Linear(16, 2)
    model.head = head
    t = tokens()
    return lambda: F.cross_entropy(head(model.pool(model(t))), ad.tensor([0, 1, 0, 1]))


def learners() -> dict[str, tuple[Any, Any]]:
    return {
        "mlp": (lambda: models.MLP([4, 16, 2]), lambda m: classify(m, *_points())),
        "lenet": (lambda: models.LeNet(2), lambda m: classify(m, *images(1, 28))),
        "resnet": (
            lambda: models.ResNet(BasicBlock, (1, 1, 1, 1), 2, 4),
            lambda m: classify(m, *images()),
        ),
        "vgg": (
            lambda: models.VGG("8 M 16 M", 2, True, 16, 0.0),
            lambda m: classify(m, *images(size=28)),
        ),
        "mobilenet": (
            lambda: models.MobileNetV2(2, 0.1, 0.0),
            lambda m: classify(m, *images()),
        ),
        "vit": (
            lambda: models.VisionTransformer(16, 4, 1, 2, 16, 32, 0.0, 2),
            lambda m: classify(m, *images(size=16)),
        ),
        "unet": (lambda: models.UNet(1, 2, 4, 2), segment),
        "lstm": (lambda: models.LSTMLanguageModel(17, 16, 1), predict_next),
        "gpt2": (lambda: models.GPT2(GPT_TINY), predict_next),
        "llama": (lambda: models.Llama(LLAMA_TINY), predict_next),
        "bert": (lambda: models.Bert(BertConfig(17, 16, 1, 2, 32, 16, dropout=0.0)), fill_in),
        "vae": (lambda: models.VAE(16, 32, 2), lambda m: _reconstruct(m)),
        "ddpm": (
            lambda: models.DDPM(models.DiffusionUNet(1, 8, (1, 2), 1, (1,), 0.0), 10, 1e-2, 0.3),
            lambda m: lambda: m.loss(ad.ones(16, 1, 8, 8)),
        ),
    }


def _points() -> tuple[Any, Any]:
    x = ad.randn(32, 4)
    return x, (x[:, 0] > 0).long()


def _reconstruct(model: Any) -> Callable[[], Any]:
    x = (ad.arange(16) % 2).float().expand(16, 16)
    return lambda: model.loss(x)


@pytest.mark.parametrize("name", learners())
def test_learns(name: str) -> None:
    ad.manual_seed(0)
    make, problem = learners()[name]
    model = make()
    loss_of = problem(model)
    optimizer = ad.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(30):
        loss = loss_of()
        optimizer.zero_grad()
        loss.backward()
        assert all(p.grad is not None for p in model.parameters() if name not in ("bert",))
        optimizer.step()
        losses.append(loss.item())
    assert sum(losses[-3:]) / 3 < 0.75 * losses[0], losses


def test_generation_and_bounds() -> None:
    ad.manual_seed(0)
    model = models.GPT2(GPT_TINY).eval()
    out = model.generate(tokens()[:, :3], 20, temperature=0)
    assert out.shape == (4, 23)
    assert model.generate(tokens()[:, :3], 2, top_k=1).tolist() == out[:, :5].tolist()
    with pytest.raises(RuntimeError, match="positions"):
        model(ad.zeros(1, 17).long())
    with pytest.raises(RuntimeError, match="multiples of 4"):
        models.UNet(1, 1, 4, 2)(ad.zeros(1, 1, 10, 8))
    with pytest.raises(RuntimeError, match="16 by 16"):
        models.VisionTransformer(16, 4, 1, 2, 8, 16)(ad.zeros(1, 3, 8, 8))


def test_sentence_embeddings_ignore_padding() -> None:
    ad.manual_seed(0)
    model = models.Bert(BertConfig(17, 16, 2, 2, 32, 16)).eval()
    t = tokens()[:2, :6]
    padded = ad.cat([t, ad.zeros(2, 3).long()], 1)
    mask = ad.cat([ad.ones(2, 6), ad.zeros(2, 3)], 1).long()
    short = models.sentence_embedding(model, t, ad.ones(2, 6).long())
    assert ad.allclose(models.sentence_embedding(model, padded, mask), short, atol=1e-5)
    assert ad.allclose(short.norm(dim=1), ad.ones(2))
