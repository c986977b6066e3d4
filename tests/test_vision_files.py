"""Datasets, files and drawings under torchvision's names."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import adjoint as ad
from adjoint import unavailable
from adjoint.vision import datasets, models, utils
from adjoint.vision import io as images

Image = pytest.importorskip("PIL.Image")
PIXELS = np.random.default_rng(0).integers(0, 256, (8, 9, 3)).astype(np.uint8)
TENSOR = ad.tensor(np.ascontiguousarray(PIXELS.transpose(2, 0, 1)))


@pytest.fixture
def voc(tmp_path: Path) -> Path:
    base = tmp_path / "VOCdevkit" / "VOC2012"
    for folder in ("ImageSets/Main", "ImageSets/Segmentation", "JPEGImages", "Annotations"):
        (base / folder).mkdir(parents=True)
    (base / "SegmentationClass").mkdir()
    for kind in ("Main", "Segmentation"):
        (base / "ImageSets" / kind / "train.txt").write_text("one\n")
    Image.fromarray(PIXELS).save(base / "JPEGImages" / "one.jpg")
    Image.fromarray(PIXELS[:, :, 0] % 21).save(base / "SegmentationClass" / "one.png")
    (base / "Annotations" / "one.xml").write_text(
        "<annotation><folder>f</folder><object><name>cat</name><bndbox><xmin>1</xmin></bndbox>"
        "</object></annotation>"
    )
    return tmp_path


def test_pascal_voc(voc: Path) -> None:
    image, told = datasets.VOCDetection(voc, image_set="train")[0]
    assert image.size == (9, 8)
    box = {"name": "cat", "bndbox": {"xmin": "1"}}
    assert told == {"annotation": {"folder": "f", "object": [box]}}
    both = datasets.VOCSegmentation(voc, transforms=lambda a, b: (a.size, np.asarray(b)))
    assert both[0][0] == (9, 8)
    assert (both[0][1] == PIXELS[:, :, 0] % 21).all()
    with pytest.raises(RuntimeError, match="nothing is downloaded"):
        datasets.VOCDetection(voc, download=True)
    with pytest.raises(RuntimeError, match="not found"):
        datasets.VOCDetection(voc, year="2007")


def test_coco(tmp_path: Path) -> None:
    Image.fromarray(PIXELS).save(tmp_path / "a.png")
    notes = [
        {"id": 1, "image_id": 7, "caption": "a cat"},
        {"id": 2, "image_id": 7, "caption": "it"},
    ]
    told = {"images": [{"id": 7, "file_name": "a.png"}], "annotations": notes}
    (tmp_path / "notes.json").write_text(json.dumps(told))
    image, found = datasets.CocoDetection(tmp_path, tmp_path / "notes.json")[0]
    assert (np.asarray(image) == PIXELS).all()
    assert found == notes
    captions = datasets.CocoCaptions(tmp_path, tmp_path / "notes.json", target_transform=len)
    assert captions[0][1] == 2


def test_binary_files(tmp_path: Path) -> None:
    from scipy.io import savemat

    savemat(
        tmp_path / "test_32x32.mat", {"X": np.full((32, 32, 3, 2), 9, np.uint8), "y": [[10], [3]]}
    )
    data = datasets.SVHN(tmp_path, "test")
    assert [label for _, label in (data[0], data[1])] == [0, 3]
    assert np.asarray(data[0][0]).shape == (32, 32, 3)
    (tmp_path / "stl10_binary").mkdir()
    source = np.arange(3 * 96 * 96, dtype=np.uint8)
    source.tofile(tmp_path / "stl10_binary" / "train_X.bin")
    np.array([4], np.uint8).tofile(tmp_path / "stl10_binary" / "train_y.bin")
    image, label = datasets.STL10(tmp_path)[0]
    assert label == 3
    assert (np.asarray(image)[5, 7] == source.reshape(3, 96, 96)[:, 7, 5]).all()


def test_image_bytes(tmp_path: Path) -> None:
    assert ad.equal(images.decode_png(images.encode_png(TENSOR)), TENSOR)
    images.write_jpeg(TENSOR, tmp_path / "a.jpg", quality=95)
    bytes_ = images.read_file(tmp_path / "a.jpg")
    want = np.asarray(Image.open(tmp_path / "a.jpg")).transpose(2, 0, 1)
    assert (images.decode_jpeg(bytes_).numpy() == want).all()
    assert images.decode_image(bytes_, images.ImageReadMode.GRAY).shape == (1, 8, 9)
    assert images.decode_image(bytes_, "RGB_ALPHA").shape == (4, 8, 9)
    with pytest.raises(RuntimeError, match="uint8"):
        images.encode_jpeg(TENSOR.float())
    with pytest.raises(RuntimeError, match="decode_image: expected uint8 of one dimension"):
        images.decode_image(TENSOR)


@pytest.mark.parametrize("mode", ["UNCHANGED", "GRAY"])
def test_images_are_turned_as_their_camera_was(mode: str, tmp_path: Path) -> None:
    source = Image.fromarray(np.arange(8 * 9, dtype=np.uint8).reshape(8, 9))
    about = source.getexif()
    about[0x0112] = 6  # a quarter turn
    source.save(tmp_path / "a.jpg", exif=about, quality=95)
    data = images.read_file(tmp_path / "a.jpg")
    flat = images.decode_image(data, mode)
    turned = images.decode_image(data, mode, apply_exif_orientation=True)
    assert ad.equal(turned, flat.rot90(-1, (1, 2)))


def test_folds_name_images_that_there_are(tmp_path: Path) -> None:
    folder = tmp_path / "stl10_binary"
    folder.mkdir()
    np.zeros(3 * 3 * 96 * 96, np.uint8).tofile(folder / "train_X.bin")
    np.array([1, 2, 3], np.uint8).tofile(folder / "train_y.bin")
    (folder / "fold_indices.txt").write_text("0 2\n1 3\n-1\n")
    assert datasets.STL10(tmp_path, folds=0).labels.tolist() == [0, 2]
    for fold, error in ((1, "names image 3"), (2, "no list of images")):
        with pytest.raises(RuntimeError, match=error):
            datasets.STL10(tmp_path, folds=fold)
    with pytest.raises(ValueError, match="folds must be 0 to 2, received 3"):
        datasets.STL10(tmp_path, folds=3)


def test_drawn_boxes_and_masks() -> None:
    blank = ad.zeros(3, 8, 9, dtype=ad.uint8)
    drawn = utils.draw_bounding_boxes(blank, ad.tensor([[1, 2, 6, 5]]), colors="red").numpy()
    want = np.zeros((8, 9), bool)
    want[2:6, 1:7] = True
    want[3:5, 2:6] = False
    assert ((drawn[0] == 255) == want).all()
    assert not drawn[1:].any()
    masks = ad.zeros(2, 8, 9, dtype=ad.bool)
    masks[0, :4], masks[1, 3:5] = True, True
    shown = utils.draw_segmentation_masks(
        blank + 100, masks, alpha=0.5, colors=[(200, 0, 0), (0, 200, 0)]
    )
    assert shown[:, 0, 0].tolist() == [150, 50, 50]
    assert shown[:, 3, 0].tolist() == [50, 50, 50]  # both: dark
    assert shown[:, 7, 0].tolist() == [100, 100, 100]
    with pytest.raises(ValueError, match="box_convert"):
        utils.draw_bounding_boxes(blank, ad.tensor([[5, 5, 1, 1]]))
    with pytest.raises(ValueError, match="labels"):
        utils.draw_bounding_boxes(blank, ad.tensor([[1, 1, 5, 5]]), labels=[])


def test_what_is_not_there_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    path = "adjoint.vision.models.quantization"
    monkeypatch.setitem(sys.modules, path, sys)  # both are put back afterwards
    monkeypatch.setattr(models, "quantization", None, raising=False)
    quantised = unavailable.module(path)
    assert quantised is not None
    with pytest.raises(NotImplementedError, match="resnet18.*quantised networks"):
        quantised.resnet18(weights=None)
