"""Networks of torchvision's: the names and shapes of their weights, and what they give."""

from __future__ import annotations

import tarfile
import zipfile
import zlib
from pathlib import Path

import pytest

import adjoint as ad
from adjoint import hub, nn
from adjoint.vision import models
from adjoint.vision.datasets import utils as dataset_files
from adjoint.vision.datasets.folder import make_dataset
from adjoint.vision.models.feature_extraction import create_feature_extractor, get_graph_node_names
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
    "maxvit_t": 2272299291,
    "mc3_18": 3910481279,
    "mvit_v1_b": 623728857,
    "mvit_v2_s": 4188673971,
    "r2plus1d_18": 2736236232,
    "r3d_18": 911929490,
    "raft_large": 2909768262,
    "raft_small": 4071568281,
    "s3d": 1219396582,
    "swin3d_t": 177204156,
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


def test_video_and_flow_networks_train() -> None:
    ad.manual_seed(0)
    heads = [models.video.mvit.MSBlockConfig(1, 8, 8, [3] * 3, [3] * 3, [1, 2, 2], [1, 2, 2])] * 2
    nets: dict[str, tuple[nn.Module, tuple[int, ...], int]] = {
        "swin3d": (
            models.video.SwinTransformer3d([2, 4, 4], 8, [2, 2], [2, 4], [2, 3, 3], num_classes=5),
            (1, 3, 5, 30, 26), 1,
        ),
        "mvit": (
            models.video.MViT((32, 32), 4, heads, True, False, True, True, num_classes=5),
            (1, 3, 4, 32, 32), 1,
        ),
        "maxvit": (
            models.MaxVit((64, 64), 8, 2, [8, 16], [1, 2], 8, 0.2, num_classes=5), (1, 3, 64, 64), 1
        ),
        "raft": (models.optical_flow.raft_small(), (1, 3, 128, 128), 2),
    }  # fmt: skip
    for name, (net, shape, images) in nets.items():
        options = {"num_flow_updates": 1} if name == "raft" else {}
        out = net(*(ad.randn(*shape) for _ in range(images)), **options)
        out = out[-1] if isinstance(out, list) else out
        assert tuple(out.shape) == ((1, 2, 128, 128) if name == "raft" else (1, 5)), name
        out.square().sum().backward()
        assert all(p.grad is not None for p in net.parameters()), name


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


def test_all_networks_can_be_taken_at_once() -> None:
    taken = {name: getattr(models, name) for name in models.__all__}
    assert taken["resnet18"] is models.resnet18
    assert {"ResNet", "get_model", "detection"} <= {*taken}
    assert {name for name in models.list_models() if not hasattr(models, name)} <= {
        *models.list_models(models.detection),
        *models.list_models(models.segmentation),
        *models.list_models(models.optical_flow),
        *models.list_models(models.video),
    }
    assert not {"re", "sys", "Any"} & {*taken}


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
    prepare = models.video.R3D_18_Weights.DEFAULT.transforms()
    assert tuple(prepare(ad.zeros(4, 3, 30, 40)).shape) == (3, 4, 112, 112)
    large = models.optical_flow.Raft_Large_Weights.DEFAULT
    assert large._published().version == "C_T_SKHT_V2"
    assert float(large.transforms()(ad.ones(3, 2, 2), ad.zeros(3, 2, 2))[1].max()) == -1.0
    with pytest.raises(AttributeError, match="no attribute"):
        models.ResNet18_Weights.IMAGENET1K_V9  # noqa: B018


def test_features_are_what_the_network_computes_there() -> None:
    net = models.resnet18(num_classes=3).eval()
    names = get_graph_node_names(net)[1]
    assert names[:5] == ["x", "conv1", "bn1", "relu", "maxpool"]
    assert {"layer1.0.add", "layer1.0.relu_1", "layer2.0.downsample.0", "flatten"} <= set(names)
    parts = create_feature_extractor(net, {"layer1": "early", "layer3.0.conv1": "middle"})
    assert not parts.training
    seen = []
    net.layer1.register_forward_hook(lambda module, given, out: seen.append(out))
    net.layer3[0].conv1.register_forward_hook(lambda module, given, out: seen.append(out))
    x = ad.rand(1, 3, 32, 32)
    net(x)
    found = parts(x)
    assert list(found) == ["early", "middle"]
    assert all(ad.equal(a, b) for a, b in zip(found.values(), seen[:2], strict=True))
    assert set(parts.state_dict()) < set(net.state_dict())
    parts.train()
    before = net.bn1.running_mean.clone()
    parts(x)
    assert not ad.equal(net.bn1.running_mean, before)  # shared, and the graph for training


def test_features_that_differ_between_modes_are_told() -> None:
    class Branch(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x: ad.Tensor) -> ad.Tensor:
            return self.two(self.one(x)) if self.training else self.one(x)

    with pytest.warns(UserWarning, match="eval mode are a subsequence"):
        assert get_graph_node_names(Branch()) == (["x", "one", "two"], ["x", "one"])
    with pytest.raises(ValueError, match="'two' is not present"):
        create_feature_extractor(Branch(), ["two"], suppress_diff_warning=True)
    with pytest.raises(ValueError, match="Either `return_nodes`"):
        create_feature_extractor(Branch())


def test_vision_transformer_options() -> None:
    stem = [models.vision_transformer.ConvStemConfig(8, 3, 2) for _ in range(2)]
    net = models.vit_b_16(
        image_size=16, patch_size=4, num_layers=1, num_heads=2, hidden_dim=8, mlp_dim=16,
        num_classes=3, representation_size=6, conv_stem_configs=stem,
    )  # fmt: skip
    assert net(ad.rand(2, 3, 16, 16)).shape == (2, 3)
    assert net.seq_length == 17
    names = {"conv_proj.conv_bn_relu_1.1.running_mean", "conv_proj.conv_last.weight"}
    assert names | {"heads.pre_logits.weight", "heads.head.weight"} <= set(net.state_dict())


def test_archives_stay_in_their_folder(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    assert dataset_files.check_integrity(tmp_path / "a.txt", "5d41402abc4b2a76b9719d911017c592")
    assert not dataset_files.check_integrity(tmp_path / "a.txt", "0" * 32)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as packed:
        packed.writestr("cat/1.png", "x")
    dataset_files.extract_archive(tmp_path / "a.zip", tmp_path / "out", remove_finished=True)
    assert make_dataset(tmp_path / "out", extensions=(".png",)) == [
        (str(tmp_path / "out" / "cat" / "1.png"), 0)
    ]
    with tarfile.open(tmp_path / "b.tar", "w") as rolled:
        rolled.add(tmp_path / "a.txt", "../outside.txt")
    with pytest.raises(tarfile.TarError):
        dataset_files.extract_archive(tmp_path / "b.tar", tmp_path / "out")
    with pytest.raises(RuntimeError, match="no zip or tar file"):
        dataset_files.extract_archive(tmp_path / "a.txt")
