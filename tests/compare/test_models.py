"""Whole models against PyTorch's functions, written out from the papers over the published names.

The same weights give the same outputs, and the same gradients of every parameter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import models
from adjoint.models.resnet import BasicBlock, Bottleneck

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.compare

from tests.compare.bridge import to_numpy  # noqa: E402

F = torch.nn.functional
Weights = dict[str, Any]


def norm(w: Weights, at: str, x: Any, train: bool) -> Any:
    kept = [w[f"{at}.running_mean"].clone(), w[f"{at}.running_var"].clone()]
    return F.batch_norm(x, *kept, w[f"{at}.weight"], w[f"{at}.bias"], train)


def resnet(w: Weights, x: Any, train: bool) -> Any:
    """He et al. 2015; a 3x3 convolution of a bottleneck has the stride, as torchvision's has."""
    x = F.relu(norm(w, "bn1", F.conv2d(x, w["conv1.weight"], None, 2, 3), train))
    x = F.max_pool2d(x, 3, 2, 1)
    for stage in range(1, 5):
        for block in range(
            sum(k.startswith(f"layer{stage}.") and k.endswith("conv1.weight") for k in w)
        ):
            at, stride = f"layer{stage}.{block}", 2 if stage > 1 and block == 0 else 1
            deep = f"{at}.conv3.weight" in w
            y = x
            for n in (1, 2, 3) if deep else (1, 2):
                kernel = w[f"{at}.conv{n}.weight"]
                step = stride if n == (2 if deep else 1) else 1
                y = F.conv2d(y, kernel, None, step, kernel.shape[-1] // 2)
                y = norm(w, f"{at}.bn{n}", y, train)
                y = y if n == (3 if deep else 2) else F.relu(y)
            if f"{at}.downsample.0.weight" in w:
                x = F.conv2d(x, w[f"{at}.downsample.0.weight"], None, stride)
                x = norm(w, f"{at}.downsample.1", x, train)
            x = F.relu(x + y)
    return F.linear(x.mean((2, 3)), w["fc.weight"], w["fc.bias"])


def vgg(w: Weights, x: Any, train: bool) -> Any:
    """Simonyan and Zisserman 2014, its second configuration cut down: 8 M 16 16 M."""
    place = 0
    for word in "8 M 16 16 M".split():
        if word == "M":
            x, place = F.max_pool2d(x, 2), place + 1
            continue
        x = F.conv2d(x, w[f"features.{place}.weight"], w[f"features.{place}.bias"], padding=1)
        x, place = F.relu(norm(w, f"features.{place + 1}", x, train)), place + 3
    x = F.adaptive_avg_pool2d(x, 7).flatten(1)
    for index in (0, 3, 6):
        x = F.linear(x, w[f"classifier.{index}.weight"], w[f"classifier.{index}.bias"])
        x = x if index == 6 else F.relu(x)
    return x


def mobilenet(w: Weights, x: Any, train: bool) -> Any:
    """Sandler et al. 2018, table 2."""
    x = F.relu6(norm(w, "features.0.1", F.conv2d(x, w["features.0.0.weight"], None, 2, 1), train))
    strides = {2: 2, 4: 2, 7: 2, 14: 2}  # the blocks that begin a smaller map
    for block in range(1, 18):
        y, at = x, f"features.{block}.conv"
        inner = 0 if block == 1 else 1  # the first block does not widen
        if inner:
            y = F.relu6(norm(w, f"{at}.0.1", F.conv2d(y, w[f"{at}.0.0.weight"]), train))
        kernel = w[f"{at}.{inner}.0.weight"]
        y = F.conv2d(y, kernel, None, strides.get(block, 1), 1, groups=len(kernel))
        y = F.relu6(norm(w, f"{at}.{inner}.1", y, train))
        y = F.conv2d(y, w[f"{at}.{inner + 1}.weight"])
        y = norm(w, f"{at}.{inner + 2}", y, train)
        x = x + y if x.shape == y.shape else y
    x = F.relu6(norm(w, "features.18.1", F.conv2d(x, w["features.18.0.weight"]), train))
    return F.linear(x.mean((2, 3)), w["classifier.1.weight"], w["classifier.1.bias"])


def vit(w: Weights, x: Any, train: bool) -> Any:
    """Dosovitskiy et al. 2020; 8 by 8 patches, 2 heads."""
    x = F.conv2d(x, w["conv_proj.weight"], w["conv_proj.bias"], 8).flatten(2).transpose(1, 2)
    x = torch.cat([w["class_token"].expand(len(x), -1, -1), x], 1) + w["encoder.pos_embedding"]
    width = x.shape[-1]

    def layer_norm(at: str, x: Any) -> Any:
        return F.layer_norm(x, (width,), w[f"{at}.weight"], w[f"{at}.bias"], 1e-6)

    for block in range(2):
        at = f"encoder.layers.encoder_layer_{block}"
        y = layer_norm(f"{at}.ln_1", x)
        packed = F.linear(
            y, w[f"{at}.self_attention.in_proj_weight"], w[f"{at}.self_attention.in_proj_bias"]
        )
        q, k, v = (part.unflatten(2, (2, -1)).transpose(1, 2) for part in packed.chunk(3, -1))
        scores = (q @ k.transpose(2, 3) / (width // 2) ** 0.5).softmax(-1)
        y = (scores @ v).transpose(1, 2).flatten(2)
        out = f"{at}.self_attention.out_proj"
        x = x + F.linear(y, w[f"{out}.weight"], w[f"{out}.bias"])
        y = layer_norm(f"{at}.ln_2", x)
        y = F.gelu(F.linear(y, w[f"{at}.mlp.0.weight"], w[f"{at}.mlp.0.bias"]))
        x = x + F.linear(y, w[f"{at}.mlp.3.weight"], w[f"{at}.mlp.3.bias"])
    return F.linear(layer_norm("encoder.ln", x)[:, 0], w["heads.head.weight"], w["heads.head.bias"])


def ddpm(w: Weights, x: Any, train: bool) -> Any:
    """Ho et al. 2020, appendix B, at step 7; attention in the second size and the middle."""

    def group_norm(at: str, x: Any) -> Any:
        return F.group_norm(x, 32, w[f"{at}.weight"], w[f"{at}.bias"], 1e-6)

    def conv(at: str, x: Any, **options: Any) -> Any:
        return F.conv2d(x, w[f"{at}.weight"], w[f"{at}.bias"], **options)

    def linear(at: str, x: Any) -> Any:
        return F.linear(x, w[f"{at}.weight"], w[f"{at}.bias"])

    def block(at: str, x: Any) -> Any:
        y = conv(f"{at}.conv1", F.silu(group_norm(f"{at}.norm1", x)), padding=1)
        y = y + linear(f"{at}.time_emb_proj", F.silu(time))[:, :, None, None]
        y = conv(f"{at}.conv2", F.silu(group_norm(f"{at}.norm2", y)), padding=1)
        return y + (conv(f"{at}.conv_shortcut", x) if f"{at}.conv_shortcut.weight" in w else x)

    def attend(at: str, x: Any) -> Any:
        if f"{at}.to_q.weight" not in w:
            return x
        flat = group_norm(f"{at}.group_norm", x).flatten(2).transpose(1, 2)
        q, k, v = (linear(f"{at}.to_{part}", flat) for part in "qkv")
        y = (q @ k.transpose(1, 2) / q.shape[-1] ** 0.5).softmax(-1) @ v
        return x + linear(f"{at}.to_out.0", y).transpose(1, 2).unflatten(2, x.shape[2:])

    half = w["time_embedding.linear_1.weight"].shape[1] // 2
    rates = 10000.0 ** (-torch.arange(half) / (half - 1))  # in float32, as everyone has it
    time = torch.cat([(7 * rates).sin(), (7 * rates).cos()]).double().expand(len(x), -1)
    time = linear("time_embedding.linear_2", F.silu(linear("time_embedding.linear_1", time)))
    x = conv("conv_in", x[:, :, ::2, ::2], padding=1)
    kept = [x]
    for level in range(3):
        at = f"down_blocks.{level}"
        for n in range(2):
            x = attend(f"{at}.attentions.{n}", block(f"{at}.resnets.{n}", x))
            kept.append(x)
        if level < 2:
            x = conv(f"{at}.downsamplers.0.conv", F.pad(x, (0, 1, 0, 1)), stride=2)
            kept.append(x)
    x = attend("mid_block.attentions.0", block("mid_block.resnets.0", x))
    x = block("mid_block.resnets.1", x)
    for level in range(3):
        at = f"up_blocks.{level}"
        for n in range(3):
            x = torch.cat([x, kept.pop()], 1)
            x = attend(f"{at}.attentions.{n}", block(f"{at}.resnets.{n}", x))
        if level < 2:
            x = x.repeat_interleave(2, 2).repeat_interleave(2, 3)
            x = conv(f"{at}.upsamplers.0.conv", x, padding=1)
    x = conv("conv_out", F.silu(group_norm("conv_norm_out", x)), padding=1)
    return x.mean((2, 3))


def denoiser() -> Any:
    net = models.DiffusionUNet(3, 32, (1, 2, 2), 2, (1,), 0.0)
    net.conv_out = ad.nn.Conv2d(32, 5, 3, padding=1)
    return net


# How a model is called that takes more than an image, or gives more than scores.
CALLS = {"ddpm": lambda net, x: net(x[:, :, ::2, ::2], ad.full((len(x),), 7)).mean((2, 3))}
CASES: dict[str, tuple[Callable[[], Any], Callable[..., Any]]] = {
    "resnet18": (lambda: models.ResNet(BasicBlock, (2, 2, 2, 2), 5, 8), resnet),
    "resnet50": (lambda: models.ResNet(Bottleneck, (3, 4, 6, 3), 5, 4), resnet),
    "vgg": (lambda: models.VGG("8 M 16 16 M", 5, True, 32, 0.0), vgg),
    "mobilenet": (lambda: models.MobileNetV2(5, 0.25, 0.0), mobilenet),
    "ddpm": (denoiser, ddpm),
    "vit": (lambda: models.VisionTransformer(32, 8, 2, 2, 16, 32, num_classes=5), vit),
}


@pytest.mark.parametrize("train", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("name", CASES)
def test_outputs_and_gradients(name: str, train: bool) -> None:
    make, reference = CASES[name]
    ad.manual_seed(0)
    model = make().double().train(train)
    rng = np.random.default_rng(0)
    state = model.state_dict()
    for key, value in state.items():
        if key.endswith(("running_mean", "running_var", "bn1.weight", "class_token")):
            value.copy_(ad.from_numpy(np.asarray(rng.uniform(0.5, 1.5, value.shape))))
    theirs = {k: torch.from_numpy(v.numpy().copy()) for k, v in state.items()}
    learned = [key for key, _ in model.named_parameters()]
    for key in learned:
        theirs[key].requires_grad_()
    x, weight = rng.normal(size=(4, 3, 32, 32)), rng.normal(size=(4, 5))
    want = reference(theirs, torch.from_numpy(x), train)
    (want * torch.from_numpy(weight)).sum().backward()
    got = CALLS.get(name, lambda net, x: net(x))(model, ad.from_numpy(x))
    (got * ad.from_numpy(weight)).sum().backward()
    np.testing.assert_allclose(got.detach().numpy(), to_numpy(want), rtol=1e-6, atol=1e-7)
    for key, parameter in model.named_parameters():
        grad = to_numpy(theirs[key].grad)
        scale = max(1.0, float(np.abs(grad).max()))
        np.testing.assert_allclose(
            parameter.grad.numpy() / scale, grad / scale, atol=1e-6, err_msg=key
        )
