"""What programs import torchvision for."""

from __future__ import annotations

import io
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import adjoint as ad
from adjoint import hub
from adjoint.data.readers.images import read_image
from adjoint.vision import datasets, models, ops, transforms, utils
from adjoint.vision import io as images
from adjoint.vision.transforms import functional as F
from adjoint.vision.transforms import v2
from tests.test_run import run, write

PIXELS = np.random.default_rng(0).integers(0, 256, (12, 10, 3)).astype(np.uint8)


def test_transforms_keep_the_kind_of_image() -> None:
    tensor = ad.from_numpy(PIXELS.transpose(2, 0, 1).copy())
    chain = transforms.Compose([transforms.Resize((6, 8)), transforms.CenterCrop(4)])
    array = chain(PIXELS)
    assert isinstance(array, np.ndarray)
    assert array.shape == (4, 4, 3)
    near = array.astype(int) - chain(tensor).permute(1, 2, 0).numpy()
    assert abs(near).max() <= 1  # rounded after each direction, as Pillow does, or once
    assert transforms.ToTensor()(array).shape == (3, 4, 4)
    grey = PIXELS[:, :, 0]
    assert transforms.Pad(1)(grey).shape == (14, 12)
    assert transforms.Pad(1)(grey[:, :, None]).shape == (14, 12, 1)
    assert transforms.Grayscale()(PIXELS).shape == (12, 10)


def test_images_of_pillow_stay_so() -> None:
    flipped = F.hflip(Image.fromarray(PIXELS))
    assert isinstance(flipped, Image.Image)
    assert (np.asarray(flipped) == PIXELS[:, ::-1]).all()
    made = transforms.ToPILImage()(ad.ones(1, 2, 2))
    assert np.asarray(made).tolist() == [[255, 255], [255, 255]]
    item, _ = datasets.FakeData(1, (3, 4, 4))[0]
    assert isinstance(item, Image.Image)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
def test_resizing_modes(mode: Any) -> None:
    flat = ad.full((1, 9, 9), 0.25)
    for size in (4, 9, 20):
        out = transforms.Resize((size, size), interpolation=mode)(flat)
        ad.testing.assert_close(out, ad.full((1, size, size), 0.25))


def test_cubic_interpolation_follows_the_operation() -> None:
    x = ad.from_numpy(np.random.default_rng(0).random((1, 1, 9, 7), np.float32))
    want = ad.nn.functional.interpolate(x, (14, 5), mode="bicubic", align_corners=False)
    got = F.resize(x[0], (14, 5), "bicubic", antialias=False)
    ad.testing.assert_close(got, want[0], rtol=1e-4, atol=1e-5)


def test_affine_maps() -> None:
    x = ad.from_numpy(PIXELS.transpose(2, 0, 1).copy())
    same = F.affine(x, 0.0, [0, 0], 1.0, 0.0)
    assert (same == x).all()
    moved = F.affine(x, 0.0, [2, 1], 1.0, 0.0)
    assert (moved[:, 1:, 2:] == x[:, :-1, :-2]).all()
    assert (moved[:, 0] == 0).all()
    quarter = F.affine(x[:, :10], 90.0, [0, 0], 1.0, 0.0)
    assert (quarter == x[:, :10].rot90(-1, (1, 2))).all()
    assert (quarter == F.rotate(x[:, :10], -90)).all()


def test_random_transforms_run() -> None:
    chain = transforms.Compose(
        [
            transforms.RandomAffine(20, (0.1, 0.2), (0.8, 1.2), 5),
            transforms.RandomOrder([transforms.GaussianBlur(3), transforms.RandomInvert()]),
            transforms.ColorJitter(0.2, 0.2, 0.2, 0.1),
            transforms.RandomErasing(),
        ]
    )
    assert chain(ad.rand(3, 12, 10)).shape == (3, 12, 10)
    ten = transforms.TenCrop(4)(PIXELS)
    assert len(ten) == 10
    assert (ten[0] == PIXELS[:4, :4]).all()
    assert (ten[5] == PIXELS[:4, ::-1][:, :4]).all()
    assert len(transforms.FiveCrop((4, 3))(ad.rand(1, 6, 6))) == 5


def test_transforms_are_layers() -> None:
    net = ad.nn.Sequential(transforms.CenterCrop(4), transforms.Normalize((0.5,), (0.5,)))
    ad.testing.assert_close(net(ad.ones(1, 6, 6)), ad.ones(1, 4, 4))
    assert repr(transforms.CenterCrop(4)) == "CenterCrop(size=(4, 4))"
    assert isinstance(pickle.loads(pickle.dumps(transforms.Resize(4))), ad.nn.Module)
    assert not isinstance(transforms.ToTensor(), ad.nn.Module)
    assert list(net.parameters()) == []


def test_blurring_keeps_the_mean_of_a_flat_image() -> None:
    assert (F.gaussian_blur(np.full((6, 6), 7, np.uint8), 5) == 7).all()
    with pytest.raises(ValueError, match="odd and positive"):
        F.gaussian_blur(PIXELS, 4)


def test_colour_functions() -> None:
    x = ad.rand(3, 4, 4)
    ad.testing.assert_close(F.adjust_brightness(x, 1.0), x)
    ad.testing.assert_close(F.adjust_contrast(x, 1.0), x)
    ad.testing.assert_close(F.adjust_saturation(x, 1.0), x)
    ad.testing.assert_close(F.adjust_hue(x, 0.0), x)
    assert F.adjust_brightness(PIXELS, 0.0).max() == 0
    assert F.invert(PIXELS)[0, 0, 0] == 255 - PIXELS[0, 0, 0]
    image = v2.Compose([v2.ToImage(), v2.ToDtype(ad.float32, scale=True)])(PIXELS)
    ad.testing.assert_close(image, F.to_tensor(PIXELS))


def _mnist(root: Path, count: int) -> None:
    folder = root / "MNIST" / "raw"
    folder.mkdir(parents=True)
    pixels = np.arange(count * 784, dtype=np.uint32).astype(np.uint8).tobytes()
    for part in ("train", "t10k"):
        head = struct.pack(">IIII", 2051, count, 28, 28)
        (folder / f"{part}-images-idx3-ubyte").write_bytes(head + pixels)
        labels = bytes(i % 10 for i in range(count))
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 2049, count) + labels)


def test_fake_data_and_folders(tmp_path: Path) -> None:
    fake = datasets.FakeData(3, (3, 4, 5), 2, transform=transforms.ToTensor())
    assert fake[1][0].shape == (3, 4, 5)
    assert (fake[1][0] == fake[1][0]).all()
    assert len(list(ad.utils.data.DataLoader(fake, batch_size=2))) == 2
    with pytest.raises(IndexError, match="out of range"):
        fake[3]
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.txt").write_text("hello")
    folder = datasets.DatasetFolder(tmp_path, lambda p: Path(p).read_text(), (".txt",))
    assert folder[0] == ("hello", 0)
    with pytest.raises(ValueError, match="extensions and is_valid_file"):
        datasets.DatasetFolder(tmp_path, str)


def test_grids() -> None:
    x = ad.stack([ad.full((3, 2, 2), float(i)) for i in range(3)])
    grid = utils.make_grid(x, nrow=2, padding=1, pad_value=9.0)
    assert grid.shape == (3, 7, 7)
    assert grid[0].tolist() == [
        [9, 9, 9, 9, 9, 9, 9],
        [9, 0, 0, 9, 1, 1, 9],
        [9, 0, 0, 9, 1, 1, 9],
        [9, 9, 9, 9, 9, 9, 9],
        [9, 2, 2, 9, 9, 9, 9],
        [9, 2, 2, 9, 9, 9, 9],
        [9, 9, 9, 9, 9, 9, 9],
    ]
    assert utils.make_grid(x, normalize=True).max() == 1
    each = utils.make_grid(
        ad.arange(8.0).reshape(2, 1, 2, 2), padding=0, normalize=True, scale_each=True
    )
    assert each[0, 0].tolist() == each[0, 0, :2].tolist() * 2
    assert utils.make_grid(ad.ones(2, 2)).shape == (3, 2, 2)
    with pytest.raises(TypeError, match="list of tensors expected"):
        utils.make_grid(3)


def test_images_to_files_and_back(tmp_path: Path) -> None:
    x = ad.rand(3, 5, 6)
    utils.save_image(x, tmp_path / "x.png")
    back = images.read_image(str(tmp_path / "x.png"))
    assert (back - x.mul(255).add(0.5).byte()).abs().max() == 0
    images.write_png(back, str(tmp_path / "y.png"))
    assert (read_image(tmp_path / "y.png") == back.permute(1, 2, 0).numpy()).all()
    assert images.read_image(str(tmp_path / "x.png"), images.ImageReadMode.GRAY).shape == (1, 5, 6)
    buffer = io.BytesIO()
    utils.save_image([x, x], buffer, format="png")
    assert buffer.getvalue()[:4] == b"\x89PNG"


def test_boxes() -> None:
    boxes = ad.tensor([[0.0, 0, 2, 2], [0, 0, 2, 1.9], [5, 5, 6, 6]])
    assert ops.nms(boxes, ad.tensor([0.5, 0.9, 0.1]), 0.5).tolist() == [1, 2]
    ad.testing.assert_close(ops.box_iou(boxes, boxes).diagonal(), ad.ones(3))
    for a in ("xywh", "cxcywh"):
        ad.testing.assert_close(
            ops.box_convert(ops.box_convert(boxes, "xyxy", a), a, "xyxy"), boxes
        )
    with pytest.raises(ValueError, match="unknown format 'no'"):
        ops.box_convert(boxes, "no", "xyxy")
    loss = ops.sigmoid_focal_loss(ad.zeros(2), ad.tensor([1.0, 0.0]), reduction="sum")
    assert loss.item() == pytest.approx((0.25 + 0.75) * 0.25 * np.log(2))
    layer = ops.StochasticDepth(0.5, "row")
    assert set(layer(ad.ones(50, 2)).flatten().tolist()) == {0.0, 2.0}
    assert layer.eval()(ad.ones(2)).tolist() == [1, 1]


def test_networks_and_their_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "_dir", str(tmp_path))
    net = models.resnet18(weights=None, num_classes=3)
    assert net.fc.out_features == 3
    assert "resnet18" in models.list_models()
    assert models.ResNet18_Weights.DEFAULT.transforms()(PIXELS).shape == (3, 224, 224)
    with pytest.raises(FileNotFoundError, match="put torchvision's file there"):
        models.resnet18(weights="IMAGENET1K_V1")
    with pytest.raises(AttributeError, match="no attribute 'OTHER'"):
        _ = models.ResNet18_Weights.OTHER
    (tmp_path / "checkpoints").mkdir()
    state = models.resnet18().state_dict()
    state["fc.bias"].fill_(7.0)
    ad.save(state, tmp_path / "checkpoints" / "resnet18-0.pth")
    assert (models.resnet18(pretrained=True).fc.bias == 7).all()


PROGRAM = """
import torch
import torchvision
from torch import nn
from torchvision import datasets, transforms

normalise = transforms.Normalize((0.1307,), (0.3081,))
transform = transforms.Compose([transforms.Resize(14), transforms.ToTensor(), normalise])
data = datasets.MNIST("{}", train=True, download=True, transform=transform)
loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True, num_workers=1)
model = nn.Sequential(nn.Flatten(), nn.Linear(196, 10))
optimizer = torch.optim.Adam(model.parameters())
for images, labels in loader:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()
torchvision.utils.save_image(images, "{}/grid.png")
print(images.shape[1:], labels.dtype, len(data), data.data.shape, torchvision.__name__)
"""


def test_a_program_with_torchvision(tmp_path: Path) -> None:
    _mnist(tmp_path, 20)
    done = run(write(tmp_path, PROGRAM.replace("{}", str(tmp_path))))
    assert done.returncode == 0, done.stderr
    assert done.stdout == (
        "torch.Size([1, 14, 14]) torch.int64 20 torch.Size([20, 28, 28]) adjoint.vision\n"
    )
    assert (tmp_path / "grid.png").stat().st_size > 100


def test_a_list_of_one_shear_is_for_both_directions() -> None:
    x = ad.rand(3, 9, 11)
    both, across = (F.affine(x, 10.0, [1, 0], 0.9, shear) for shear in ([5.0, 5.0], [5.0, 0.0]))
    assert F.affine(x, 10.0, [1, 0], 0.9, [5.0]).equal(both)
    assert F.affine(x, 10.0, [1, 0], 0.9, 5.0).equal(across)
    with pytest.raises(ValueError, match="one or two"):
        F.affine(x, 0.0, [0, 0], 1.0, [1.0, 2.0, 3.0])
