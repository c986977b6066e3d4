"""Transforms, readers of file formats, synthetic and embedded data."""

from __future__ import annotations

import gzip
import os
import pickle
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import datasets
from adjoint.data import transforms as T
from adjoint.data.readers import png
from adjoint.utils.data import DataLoader


def idx(array: Any) -> bytes:
    sizes = b"".join(struct.pack(">I", n) for n in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes()


@pytest.mark.parametrize("zipped", [False, True])
def test_mnist(tmp_path: Path, zipped: bool) -> None:
    images = np.random.default_rng(0).integers(0, 256, (5, 28, 28), np.uint8)
    for name, array in [("images-idx3", images), ("labels-idx1", np.arange(5, dtype=np.uint8))]:
        packed = gzip.compress(idx(array)) if zipped else idx(array)
        (tmp_path / f"train-{name}-ubyte{'.gz' if zipped else ''}").write_bytes(packed)
    data = datasets.MNIST(tmp_path, transform=T.ToTensor())
    image, label = data[3]
    assert label == 3
    np.testing.assert_allclose(image.numpy()[0], images[3] / 255, rtol=1e-6)
    loader: DataLoader[Any] = DataLoader(data, 5)
    batch, labels = next(iter(loader))
    assert batch.shape == (5, 1, 28, 28)
    assert labels.tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(FileNotFoundError, match="t10k"):
        datasets.MNIST(tmp_path, train=False)
    path = tmp_path / "short"
    path.write_bytes(idx(images)[:-1])
    with pytest.raises(RuntimeError, match="truncated"):
        datasets.read_idx(path)


def test_cifar_binary_and_python(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pixels, labels = rng.integers(0, 256, (4, 3072), np.uint8), np.array([3, 1, 4, 1], np.uint8)
    binary, python = tmp_path / "b", tmp_path / "p"
    binary.mkdir()
    python.mkdir()
    (binary / "test_batch.bin").write_bytes(np.hstack([labels[:, None], pixels]).tobytes())
    for protocol in (2, 4):
        stored = {"data": pixels, "labels": labels.tolist(), "batch_label": "x"}
        (python / "test_batch").write_bytes(pickle.dumps(stored, protocol))
        for folder in (binary, python):
            data = datasets.CIFAR10(folder, train=False)
            image, label = data[2]
            assert label == 4
            np.testing.assert_array_equal(image, pixels[2].reshape(3, 32, 32).transpose(1, 2, 0))

    class Evil:
        def __reduce__(self) -> Any:
            return os.system, ("true",)

    (python / "test_batch").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(pickle.UnpicklingError, match="posix.system"):
        datasets.CIFAR10(python, train=False)
    (binary / "test_batch.bin").write_bytes(b"123")
    with pytest.raises(RuntimeError, match="truncated"):
        datasets.CIFAR10(binary, train=False)


def test_csv(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('a,b,kind\n1,2.5,cat\n3,4,"dog, big"\n')
    data = datasets.CSVDataset(path, target="kind")
    assert data.features.tolist() == [[1, 2.5], [3, 4]]
    assert data.targets is not None
    assert data.targets.tolist() == [0, 1]
    assert data.categories == {"kind": ["cat", "dog, big"]}
    path.write_text("1,2\n3\n")
    with pytest.raises(RuntimeError, match="row 2"):
        datasets.read_csv(path)
    path.write_text("a;b\n1;2,5\n3;4,5\n")
    assert datasets.read_csv(path)[0] == ["a", "b"]  # what divides them is found
    with pytest.raises(RuntimeError, match="Pass delimiter=';'"):
        datasets.read_csv(path, delimiter=",")
    path.write_text("kind\tprice\ndog\t1\ncat\t2\n")
    data = datasets.CSVDataset(path, target="price")
    assert data.features.tolist() == [[1], [0]]
    new = tmp_path / "new.csv"
    new.write_text("kind\ndog\n")
    again = datasets.CSVDataset(new, categories=data.categories)
    assert again.features.tolist() == [[1]]
    assert again.categories == data.categories
    new.write_text("kind\nbird\n")
    with pytest.raises(RuntimeError, match="'bird' in the column 'kind' is not among"):
        datasets.CSVDataset(new, categories=data.categories)
    with pytest.raises(KeyError, match="Did you mean 'price'"):
        datasets.CSVDataset(path, target="Price")
    path.write_text("a,b\n1,x\nNA,y\n3,z\n")
    with pytest.raises(
        RuntimeError, match="'a' has numbers and 1 cells that are none, such as 'NA'"
    ):
        datasets.CSVDataset(path, target="b")


def test_text(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_text("one\ntwo\nthree")
    assert [datasets.LineDataset(path, len)[i] for i in range(3)] == [3, 3, 5]
    assert list(datasets.LineStream([path, path])) == ["one", "two", "three"] * 2
    assert sorted(b[0] for b in DataLoader(datasets.LineStream(path), num_workers=2)) == [
        "one", "three", "two",
    ]  # fmt: skip
    characters = datasets.CharacterDataset.from_file(path, 4)
    x, y = characters[len(characters) - 1]
    assert characters.decode(x) + characters.decode(y)[-1] == "three"
    with pytest.raises(ValueError, match="vocabulary"):
        characters.encode("Z")


def test_shakespeare() -> None:
    text = datasets.shakespeare()
    plays, macbeth = datasets.Shakespeare(64), datasets.Shakespeare(64, train=False)
    assert plays.vocabulary == macbeth.vocabulary == "".join(sorted(set(text)))
    assert plays.decode(plays.data) + macbeth.decode(macbeth.data) == text
    assert macbeth.decode(macbeth.data[:7]) == "MACBETH"
    assert "To-morrow, and to-morrow, and to-morrow," in macbeth.decode(macbeth.data)
    x, y = plays[1000]
    assert plays.decode(x) == text[1000:1064]
    assert ad.equal(x[1:], y[:-1])
    batches = list(DataLoader(macbeth, batch_size=8, sampler=range(24)))
    assert [x.shape for x, _ in batches] == [(8, 64)] * 3


def filtered(pixels: Any, kind: int) -> bytes:
    """A PNG whose lines use one filter, by the definition in the specification."""
    height, _, channels = pixels.shape
    raw = pixels.reshape(height, -1).astype(int)
    out = []
    for y in range(height):
        line = []
        for i in range(raw.shape[1]):
            a = raw[y, i - channels] if i >= channels else 0
            b = raw[y - 1, i] if y else 0
            c = raw[y - 1, i - channels] if y and i >= channels else 0
            p = a + b - c
            nearest = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
            guess = [0, a, b, (a + b) // 2, nearest][kind]
            line.append((raw[y, i] - guess) % 256)
        out.append(bytes([kind, *line]))
    plain = png.encode(pixels)
    start = plain.index(b"IDAT") - 4
    body = zlib.compress(b"".join(out))
    chunk = struct.pack(">I", len(body)) + b"IDAT" + body
    chunk += struct.pack(">I", zlib.crc32(b"IDAT" + body))
    return plain[:start] + chunk + plain[-12:]


@pytest.mark.parametrize("kind", range(5))
@pytest.mark.parametrize("channels", [3, 4])
def test_png_filters(kind: int, channels: int) -> None:
    pixels = np.random.default_rng(kind).integers(0, 256, (5, 7, channels), np.uint8)
    np.testing.assert_array_equal(png.decode(filtered(pixels, kind), "x"), pixels)


def test_image_folder(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        for i in range(2):
            (tmp_path / name / f"{i}.png").write_bytes(
                png.encode(rng.integers(0, 256, (4, 5), np.uint8))
            )
    data = datasets.ImageFolder(tmp_path, transform=T.ToTensor())
    assert data.classes == ["cat", "dog"]
    assert data.targets == [0, 0, 1, 1]
    assert data[3][0].shape == (3, 4, 5)
    (tmp_path / "cat" / "0.png").write_bytes(b"\x89PNG\r\n\x1a\n123")
    with pytest.raises(RuntimeError, match=r"0\.png.*damaged"):
        data[0]
    (tmp_path / "dog" / "x.jpg").write_bytes(b"\xff\xd8\xff")
    with pytest.raises(Exception, match=r"Pillow|x\.jpg"):
        datasets.read_image(tmp_path / "dog" / "x.jpg")


def test_transforms() -> None:
    x = ad.rand(3, 8, 10)
    assert T.Resize((4, 5))(x).shape == (3, 4, 5)
    assert T.Resize(8, max_size=9)(x).shape == (3, 7, 9)
    with pytest.raises(ValueError, match="strictly greater"):
        T.Resize(4, max_size=4)(x)
    np.testing.assert_allclose(T.Resize((4, 5))(ad.ones(1, 8, 10)).numpy(), 1, rtol=1e-6)
    assert T.CenterCrop((4, 20))(x).shape == (3, 4, 20)
    assert T.RandomCrop(8, padding=2)(x).shape == (3, 8, 8)
    with pytest.raises(ValueError, match="larger than"):
        T.RandomCrop(20)(x)
    assert (T.RandomHorizontalFlip(1.0)(x) == x.flip(-1)).all()
    assert (T.RandomVerticalFlip(0.0)(x) == x).all()
    assert (T.RandomRotation((90, 90))(x[:, :8, :8]) == x[:, :8, :8].rot90(1, [1, 2])).all()
    assert (T.RandomRotation((0, 0), "bilinear")(x) - x).abs().max() < 1e-6
    assert T.RandomResizedCrop(6)(x).shape == (3, 6, 6)
    assert (T.Normalize([0.5] * 3, [2.0] * 3)(x) - (x - 0.5) / 2).abs().max() < 1e-6
    assert (T.ColorJitter()(x) == x).all()
    assert (T.ColorJitter(hue=(0.5, 0.5))(T.ColorJitter(hue=(0.5, 0.5))(x)) - x).abs().max() < 1e-5
    jittered = T.ColorJitter(0.5, 0.5, 0.5, 0.2)(x)
    assert jittered.min() >= 0
    assert jittered.max() <= 1
    assert T.Grayscale(3)(x).shape == x.shape
    assert T.Pad([1, 2])(x).shape == (3, 12, 12)
    erased = T.RandomErasing(1.0, value=0)(ad.ones(3, 16, 16))
    assert 0 < (erased == 0).sum() < erased.numel()
    chain = T.Compose([T.ToTensor(), T.ConvertImageDtype(ad.uint8)])
    assert chain(np.full((2, 2, 3), 200, np.uint8)).dtype is ad.uint8
    with pytest.raises(TypeError, match="ToTensor"):
        T.Normalize([0.0], [1.0])(ad.zeros(1, 2, 2, dtype=ad.uint8))
    assert (T.Normalize(ad.tensor([0.5]), [2.0] * 3)(x) - (x - 0.5) / 2).abs().max() < 1e-6
    for mean, std, told in (([0.5] * 3, [1.0], "mean has 3"), ([0.5], [1.0] * 3, "std has 3")):
        with pytest.raises(RuntimeError, match=f"{told} values, the image .1, 2, 2. 1 channels"):
            T.Normalize(mean, std)(ad.zeros(1, 2, 2))


def test_a_folder_of_images_describes_itself(tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    np.save(tmp_path / "cat" / "1.npy", np.zeros((2, 2, 3), np.uint8))
    data = datasets.ImageFolder(tmp_path, T.Compose([T.ToTensor()]))
    assert repr(data) == (
        f"Dataset ImageFolder\n    Number of datapoints: 1\n    Root location: {tmp_path}\n"
        "    Transform: Compose(\n        ToTensor()\n    )"
    )


def test_random_transforms_follow_the_seed() -> None:
    x = ad.rand(3, 8, 8)
    chain = T.Compose([T.RandomCrop(6), T.RandomHorizontalFlip(), T.ColorJitter(0.3)])
    ad.manual_seed(1)
    first = chain(x)
    ad.manual_seed(1)
    assert (chain(x) == first).all()


def test_synthetic_and_digits() -> None:
    generator = ad.Generator().manual_seed(0)
    points, classes = datasets.two_moons(101, generator=generator)
    assert points.shape == (101, 2)
    assert classes.sum() == 50
    assert datasets.spirals(30, 3)[1].bincount().tolist() == [10, 10, 10]
    x, y = datasets.sequences(3, 5, task="sort")
    assert (x.sort(1).values == y).all()
    train, test = datasets.Digits(), datasets.Digits(train=False)
    assert len(train) + len(test) == 1797
    assert train.data.max() == 1


def test_columns_of_one_name_and_numbers_that_no_float_has(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,a,b,y\n1,2,3,9007199254740993\n4,5,6,-9007199254740995\n")
    with pytest.raises(RuntimeError, match="more than one column is called 'a'"):
        datasets.CSVDataset(path, target="y")
    data = datasets.CSVDataset(path, target="y", columns=["b"])
    assert data.features.tolist() == [[3], [6]]
    assert data.targets is not None
    assert data.targets.tolist() == [9007199254740993, -9007199254740995]
    path.write_text("code,y\n1_0,1\n2_0,0\n")
    assert datasets.CSVDataset(path, target="y").categories == {"code": ["1_0", "2_0"]}


def test_lines_end_where_files_say(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_bytes("one\x0ctwo\r\n\u2028three\x85 \n\nfour".encode())
    want = ["one\x0ctwo", "\u2028three\x85 ", "", "four"]
    assert list(datasets.LineDataset(path)) == list(datasets.LineStream(path)) == want
