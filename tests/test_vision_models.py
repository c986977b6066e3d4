"""Networks of torchvision's: the names and shapes of their weights, and what they give."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

import adjoint as ad
from adjoint import hub, nn
from adjoint.vision import models
from adjoint.vision.models.published import published

# CRC-32 of the names and shapes of torchvision 0.28's state_dict, in its order.
WEIGHTS = {
    "alexnet": 990559497,
    "convnext_tiny": 3091411833,
    "densenet121": 1597313681,
    "efficientnet_b0": 2968073114,
    "efficientnet_b3": 2561334505,
    "efficientnet_v2_s": 2122137152,
    "googlenet": 3556939486,
    "inception_v3": 3217365932,
    "mnasnet0_5": 3848627407,
    "mnasnet1_0": 389615009,
    "mobilenet_v2": 4264682448,
    "mobilenet_v3_large": 3518311706,
    "mobilenet_v3_small": 1860385590,
    "resnet18": 351499654,
    "resnext50_32x4d": 139515360,
    "wide_resnet50_2": 1440332364,
    "shufflenet_v2_x0_5": 21199373,
    "shufflenet_v2_x1_5": 3778652064,
    "squeezenet1_0": 25875822,
    "squeezenet1_1": 1787695745,
    "swin_t": 1735194209,
    "swin_v2_t": 1641427374,
    "vgg11_bn": 3720782700,
    "vit_b_16": 3343707104,
    "deeplabv3_resnet50": 2721474722,
}
# Parameters, of networks whose weights torchvision cannot make without memory.
SIZES = {"regnet_y_400mf": 4344144, "regnet_x_400mf": 5495976}


def on_meta(name: str) -> nn.Module:
    with ad.device("meta"):
        return models.get_model(name)


@pytest.mark.parametrize("name", sorted(WEIGHTS))
def test_weights_have_torchvisions_names(name: str) -> None:
    state = on_meta(name).state_dict()
    described = repr([(key, tuple(value.shape)) for key, value in state.items()])
    assert zlib.crc32(described.encode()) == WEIGHTS[name]


@pytest.mark.parametrize("name", sorted(SIZES))
def test_sizes(name: str) -> None:
    assert sum(p.numel() for p in on_meta(name).parameters()) == SIZES[name]


@pytest.mark.parametrize("name", ["shufflenet_v2_x0_5", "mnasnet0_5"])
def test_networks_train(name: str) -> None:
    ad.manual_seed(0)
    model = models.get_model(name, num_classes=4)
    out = model(ad.randn(2, 3, 32, 32))
    assert out.shape == (2, 4)
    out.square().sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_segmentation_keeps_the_size() -> None:
    model = models.segmentation.lraspp_mobilenet_v3_large(num_classes=3).eval()
    with ad.no_grad():
        assert model(ad.randn(1, 3, 32, 48))["out"].shape == (1, 3, 32, 48)


def test_auxiliary_answers_come_while_training() -> None:
    model = models.googlenet(num_classes=3, init_weights=False)
    out = model(ad.randn(2, 3, 64, 64))
    assert [tuple(each.shape) for each in out] == [(2, 3)] * 3
    assert isinstance(model.eval()(ad.randn(1, 3, 64, 64)), ad.Tensor)


def test_models_are_found_by_name() -> None:
    assert "convnext_tiny" in models.list_models()
    assert models.list_models(include="swin_v2*") == ["swin_v2_b", "swin_v2_s", "swin_v2_t"]
    assert "fcn_resnet50" in models.list_models(module=models.segmentation)
    assert models.get_model_builder("ResNet18").__name__ == "resnet18"
    with pytest.raises(ValueError, match="Unknown model"):
        models.get_model("resnet19")
    with pytest.raises(AttributeError, match="no attribute 'resnet19'"):
        models.resnet19  # noqa: B018


def test_published_weights_are_files_in_the_hub(tmp_path: Path) -> None:
    before = hub.get_dir()
    hub.set_dir(str(tmp_path))
    try:
        weights = models.ResNet50_Weights.IMAGENET1K_V2
        with pytest.raises(FileNotFoundError, match="resnet50-11ad3fa6.pth"):
            weights.path()
        (tmp_path / "checkpoints").mkdir()
        wanted = tmp_path / "checkpoints" / "resnet50-11ad3fa6.pth"
        wanted.write_bytes(b"")
        assert weights.path() == wanted
        with pytest.raises(FileNotFoundError):  # another version is not what was asked for
            models.ResNet50_Weights.IMAGENET1K_V1.path()
    finally:
        hub.set_dir(before)
    assert models.get_weight("ResNet50_Weights.DEFAULT").transforms().resize_size == [232]
    assert models.Swin_T_Weights.DEFAULT.transforms().interpolation.value == "bicubic"
    assert published("efficientnet_b1")["IMAGENET1K_V2"].crop == 240
    with pytest.raises(AttributeError, match="no attribute"):
        models.ResNet18_Weights.IMAGENET1K_V9  # noqa: B018
