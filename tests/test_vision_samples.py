"""Samples of images, masks, boxes and labels: closed forms say where each part must go."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.vision import tv_tensors
from adjoint.vision.transforms import v2
from adjoint.vision.transforms.v2 import functional as F
from adjoint.vision.tv_tensors import BoundingBoxes, Image, Mask, Video

HEIGHT, WIDTH = 20, 30
CORNERS = [[3, 4, 11, 12], [20, 1, 29, 9]]


def boxes(data: Any = CORNERS, **options: Any) -> BoundingBoxes:
    return BoundingBoxes(data, **({"format": "XYXY", "canvas_size": (HEIGHT, WIDTH)} | options))


def sample(data: Any = CORNERS) -> dict[str, Any]:
    """Objects as white rectangles in an image, and what is known of them."""
    masks = np.zeros((len(data), HEIGHT, WIDTH), np.uint8)
    for mask, (x1, y1, x2, y2) in zip(masks, data, strict=True):
        mask[y1:y2, x1:x2] = 1
    image = np.broadcast_to(masks.max(0) * 255, (3, HEIGHT, WIDTH))
    return {
        "image": Image(np.ascontiguousarray(image)),
        "masks": Mask(masks),
        "boxes": boxes(data),
        "labels": ad.arange(len(data)),
        "name": "a",
    }


def around(masks: Any) -> Any:
    """The box around each mask (N, H, W)."""
    found = []
    for mask in masks.numpy():
        y, x = np.nonzero(mask)
        found.append([x.min(), y.min(), x.max() + 1, y.max() + 1])
    return np.array(found)


def kind(value: Any) -> str:
    return type(value).__name__


def test_operations_give_plain_tensors() -> None:
    image, found = Image(ad.zeros(3, 2, 2)), boxes()
    plain = [
        image + 1,
        1 + image,
        image[0],
        image.float(),
        ad.cat([found, found]),
        found.unbind(0)[0],
    ]
    plain += [found.clone().add_(1), found * 2, found == found, ad.ones(2).to(image)]
    assert {kind(each) for each in plain} == {"Tensor"}
    kept = [found.clone(), found.to(ad.float32), found.detach(), found.to("cpu")]
    kept += [copy.copy(found), copy.deepcopy(found), pickle.loads(pickle.dumps(found))]
    for each in kept:
        assert isinstance(each, BoundingBoxes)
        assert (each.format, each.canvas_size) == (found.format, (HEIGHT, WIDTH))
        assert each.tolist() == CORNERS
    assert kind(image.requires_grad_()) == "Image"
    assert image.requires_grad
    (image * 3).sum().backward()
    assert image.grad is not None
    assert image.grad.unique().tolist() == [3.0]
    image = image.detach()
    image += 1
    assert kind(image) == "Tensor"


def test_classes_kept_where_asked_for() -> None:
    image, found = Image(ad.zeros(3, 2, 2)), boxes()
    with tv_tensors.set_return_type("TVTensor"):
        assert kind(image + 1) == kind(1 + image) == kind(ad.add(image, 1)) == "Image"
        assert kind(image.add_(1)) == "Image"
        first = found.unbind(0)[0]
        assert isinstance(first, BoundingBoxes)
        assert first.canvas_size == (HEIGHT, WIDTH)
    assert kind(image + 1) == kind(ad.add(image, 1)) == kind(image.add_(1)) == "Tensor"
    with pytest.raises(ValueError, match="TVTensor"):
        tv_tensors.set_return_type("list")


def test_own_classes() -> None:
    class Depth(tv_tensors.TVTensor):
        pass

    depth = Depth([[1.0, 2.0]])
    assert [kind(x) for x in (depth, depth + 1, ad.exp(depth), depth.clone())] == [
        "Depth", "Tensor", "Tensor", "Depth",
    ]  # fmt: skip
    with pytest.raises(TypeError, match="no kernel for Depth"):
        F.horizontal_flip(depth)
    assert v2.RandomHorizontalFlip(1)(depth) is depth

    @F.register_kernel("horizontal_flip", Depth)
    def flip(inpt: Depth) -> Depth:
        made: Depth = tv_tensors.wrap(inpt.flip(-1), like=inpt)
        return made

    assert v2.RandomHorizontalFlip(1)((depth, 3))[0].tolist() == [[2.0, 1.0]]
    with pytest.raises(ValueError, match="already"):
        F.register_kernel(F.horizontal_flip, Depth)(flip)


def test_what_they_show() -> None:
    assert repr(Image(ad.zeros(1, 1, 2))) == "Image([[[0., 0.]]], )"
    assert repr(Mask([[1, 2], [3, 4]])) == "Mask([[1, 2],\n      [3, 4]])"
    assert repr(boxes([1, 2, 3, 4])).endswith(
        "format=BoundingBoxFormat.XYXY, canvas_size=(20, 30), clamping_mode=soft)"
    )
    assert Image(ad.zeros(4, 5)).shape == (1, 4, 5)
    for wrong in (
        lambda: Image([1]),
        lambda: Video(ad.zeros(3, 4, 5)),
        lambda: boxes(ad.zeros(1, 1, 4)),
    ):
        with pytest.raises(ValueError, match="xpected"):
            wrong()


MOVES: dict[str, Callable[[Any], Any]] = {
    "flipped": F.horizontal_flip,
    "upside down": F.vertical_flip,
    "cropped": lambda x: F.crop(x, 2, 1, 15, 29),
    "reaching out": lambda x: F.crop(x, -2, -3, 30, 40),
    "middle": lambda x: F.center_crop(x, [18, 28]),
    "bordered": lambda x: F.pad(x, [1, 2, 3, 4]),
    "doubled": lambda x: F.resize(x, [2 * HEIGHT, 2 * WIDTH]),
    "cropped and doubled": lambda x: F.resized_crop(x, 1, 2, 19, 28, [38, 56]),
    "shifted": lambda x: F.affine(x, 0.0, [2, -1], 1.0, [0.0, 0.0]),
    "half a turn": lambda x: F.rotate(x, 180.0),
    "a quarter, with room": lambda x: F.rotate(x, 90.0, expand=True),
}


@pytest.mark.parametrize("name", sorted(MOVES))
@pytest.mark.parametrize("form", ["XYXY", "XYWH", "CXCYWH"])
def test_boxes_stay_around_their_masks(name: str, form: str) -> None:
    move, given = MOVES[name], sample()
    found = F.convert_bounding_box_format(given["boxes"].to(ad.float32), new_format=form)
    made, masks, image = move(found), move(given["masks"]), move(given["image"])
    assert (kind(made), kind(masks), kind(image)) == ("BoundingBoxes", "Mask", "Image")
    assert tuple(made.canvas_size) == tuple(masks.shape[-2:]) == tuple(image.shape[-2:])
    corners = F.convert_bounding_box_format(made, new_format="XYXY")
    np.testing.assert_allclose(corners.numpy(), around(masks), atol=1e-4)
    np.testing.assert_array_equal(
        move(given["masks"][0].as_subclass(Mask)).numpy(), masks[0].numpy()
    )


def test_formats() -> None:
    table = {"XYXY": [2, 3, 8, 13], "XYWH": [2, 3, 6, 10], "CXCYWH": [5, 8, 6, 10]}
    for old, data in table.items():
        for new, want in table.items():
            assert F.convert_bounding_box_format(ad.tensor(data), old, new).tolist() == want
    with pytest.raises(ValueError, match="old_format"):
        F.convert_bounding_box_format(ad.tensor([1, 2, 3, 4]), new_format="XYXY")


def test_masks_keep_their_numbers() -> None:
    numbers = Mask(np.random.default_rng(0).choice([0, 7, 255], (HEIGHT, WIDTH)))
    for move in (lambda m: F.resize(m, [33, 47]), lambda m: F.rotate(m, 33.0)):
        made = move(numbers)
        assert made.dtype is ad.int64
        assert made.ndim == 2
        assert set(made.unique().tolist()) <= {0, 7, 255}


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("size", [(13, 17), (29, 40), (HEIGHT, WIDTH)])
def test_bytes_are_averaged_in_whole_numbers(
    mode: str, antialias: bool, size: tuple[int, int]
) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (2, 3, HEIGHT, WIDTH), np.uint8)
    image = Image(ad.tensor(pixels))
    want = ad.nn.functional.interpolate(
        ad.tensor(pixels), size, mode=mode, align_corners=False, antialias=antialias
    )
    made = F.resize(image, [*size], F.InterpolationMode(mode), antialias=antialias)
    assert (kind(made), made.dtype) == ("Image", ad.uint8)
    np.testing.assert_array_equal(made.numpy(), want.numpy())
    cut = F.resized_crop(image[0], 0, 0, HEIGHT, WIDTH, [*size], mode, antialias)
    np.testing.assert_array_equal(cut.numpy(), want[0].numpy())
    if mode == "bilinear":  # between the two passes of the other, numbers beyond bytes are cut
        exact = F.resize(image.float(), [*size], F.InterpolationMode(mode), antialias=antialias)
        np.testing.assert_allclose(made.numpy(), exact.numpy(), atol=1.1)


RANDOM: dict[str, Callable[[], Any]] = {
    "RandomHorizontalFlip": lambda: v2.RandomHorizontalFlip(0.5),
    "RandomVerticalFlip": lambda: v2.RandomVerticalFlip(0.5),
    "RandomCrop": lambda: v2.RandomCrop((16, 24), padding=2),
    "RandomZoomOut": lambda: v2.RandomZoomOut(p=1),
    "RandomShortestSize": lambda: v2.RandomShortestSize([40, 60], interpolation=F.NEAREST),
    "RandomChoice": lambda: v2.RandomChoice([v2.RandomHorizontalFlip(1), v2.Pad(3)], p=[1, 2]),
    "RandomOrder": lambda: v2.RandomOrder([v2.RandomVerticalFlip(1), v2.Pad([1, 2, 3, 4])]),
    "RandomApply": lambda: v2.RandomApply([v2.Pad(2), v2.RandomCrop((20, 30))], p=0.5),
}


@pytest.mark.parametrize("name", sorted(RANDOM))
def test_one_draw_for_all_parts(name: str) -> None:
    ad.manual_seed(0)
    change, given, seen = RANDOM[name](), sample([[8, 7, 12, 11]]), set()
    for _ in range(12):
        made = change(given)
        np.testing.assert_array_equal(made["boxes"].numpy(), around(made["masks"]))
        white = (made["image"][:1] > 0).numpy()
        np.testing.assert_array_equal(white, made["masks"].numpy() > 0)
        assert made["labels"] is given["labels"]
        assert made["name"] == "a"
        seen.add((*made["boxes"].canvas_size, *made["boxes"].flatten().tolist()))
    assert len(seen) > 1


def test_any_structure() -> None:
    given = sample()
    image, target = given.pop("image"), given
    flip = v2.Compose([v2.RandomHorizontalFlip(1)])
    made_image, made_target = flip(image, target)
    assert list(made_target) == list(target)
    assert kind(made_image) == "Image"
    made = flip([image, (target["boxes"], [target["masks"]]), None])
    assert [kind(x) for x in made] == ["Image", "tuple", "NoneType"]
    assert made[1][0].tolist() == made_target["boxes"].tolist()
    # A plain tensor is the image only where there is no other, and then only the first.
    first, second = flip(ad.arange(3).reshape(1, 1, 3), ad.arange(3))
    assert (first.tolist(), second.tolist()) == ([[[2, 1, 0]]], [0, 1, 2])
    assert flip(image, ad.arange(3))[1].tolist() == [0, 1, 2]


def test_colours_are_alike_in_all_images() -> None:
    ad.manual_seed(0)
    image = Image(ad.rand(3, 6, 6))
    changes = [v2.ColorJitter(0.5, 0.5, 0.5, 0.2), v2.RandomPhotometricDistort(p=0.7)]
    for change in (*changes, v2.RandomChannelPermutation(), v2.RandomErasing(p=1)):
        one, found, other = change((image, boxes(), image.clone()))
        assert ad.equal(one, other)
        assert kind(one) == "Image"
        assert found.tolist() == CORNERS
    with pytest.raises(TypeError, match="BoundingBoxes are not supported by RandAugment"):
        v2.RandAugment()(image, boxes())


def test_kinds_and_dtypes() -> None:
    given = sample()
    made = v2.ToDtype({Image: ad.float32, Mask: ad.int64, "others": None}, scale=True)(given)
    assert [made[k].dtype for k in ("image", "masks", "boxes")] == [ad.float32, ad.int64, ad.int64]
    assert float(made["image"].max()) == 1.0
    assert int(made["masks"].max()) == 1
    made = v2.Normalize([0.5] * 3, [0.5] * 3)(v2.ToDtype(ad.float32, scale=True)(given))
    assert set(made["image"].unique().tolist()) == {-1.0, 1.0}
    assert made["masks"].dtype is ad.uint8
    assert {kind(x) for x in v2.ToPureTensor()(given).values()} == {"Tensor", "str"}
    assert kind(v2.ToImage()(ad.zeros(3, 2, 2))) == "Image"
    with pytest.raises(ValueError, match="others"):
        v2.ToDtype({Image: ad.float32})(given)


def test_pictures_among_the_parts() -> None:
    library = pytest.importorskip("PIL.Image")
    picture = library.fromarray(np.zeros((HEIGHT, WIDTH, 3), np.uint8))
    made, found = v2.Resize((40, 60))(picture, boxes())
    assert made.size == (60, 40)
    assert found.tolist() == (2 * np.array(CORNERS)).tolist()
    with pytest.warns(UserWarning, match="is for tensors"):
        assert v2.RandomErasing(1.0)(picture, boxes())[0] is picture
    made, mask = v2.ConvertImageDtype(ad.float32)(
        ad.full((1, 2, 2), 255, dtype=ad.uint8), Mask([[3]])
    )
    assert (made.unique().tolist(), mask.tolist(), mask.dtype) == ([1.0], [[3.0]], ad.float32)


def test_borders_of_each_kind() -> None:
    made = v2.Pad(1, fill={Image: (1, 2, 3), Mask: 9, "others": 0})(sample())
    assert made["image"][:, 0, 0].tolist() == [1, 2, 3]
    assert made["masks"][:, 0, 0].tolist() == [9, 9]
    with pytest.raises(ValueError, match="bounding boxes"):
        v2.Pad(1, padding_mode="edge")(sample())


def test_boxes_made_sound() -> None:
    given = sample([[3, 4, 11, 12], [5, 5, 5, 9], [20, 1, 31, 9]])
    made = v2.SanitizeBoundingBoxes()(given)
    assert (made["boxes"].tolist(), made["labels"].tolist()) == ([[3, 4, 11, 12]], [0])
    assert made["masks"].shape == (1, HEIGHT, WIDTH)
    made = v2.Compose([v2.ClampBoundingBoxes(), v2.SanitizeBoundingBoxes()])(given)
    assert made["boxes"].tolist() == [[3, 4, 11, 12], [20, 1, 30, 9]]
    assert made["labels"].tolist() == [0, 2]
    with pytest.raises(ValueError, match="labels"):
        v2.SanitizeBoundingBoxes()((given["image"], {"boxes": given["boxes"]}))
    kept = v2.SanitizeBoundingBoxes(labels_getter=None)(given["boxes"], given["labels"])
    assert len(kept[0]) == 1
    assert len(kept[1]) == 3
    loose = v2.SetClampingMode(None)(given["boxes"])
    assert F.crop(loose, 0, 0, 5, 5).tolist() == given["boxes"].tolist()


def test_crops_that_look_at_boxes() -> None:
    ad.manual_seed(0)
    crop = v2.Compose([v2.RandomIoUCrop(sampler_options=[0.0, 0.3]), v2.SanitizeBoundingBoxes()])
    for _ in range(20):
        made = crop(sample())
        assert len(made["boxes"]) == len(made["labels"]) == len(made["masks"]) > 0
        np.testing.assert_array_equal(made["boxes"].numpy(), around(made["masks"]))
        assert tuple(made["boxes"].canvas_size) == tuple(made["image"].shape[-2:])
    given = sample()
    assert v2.RandomIoUCrop(sampler_options=[1.0])(given)["boxes"].tolist() == CORNERS
    with pytest.raises(TypeError, match="bounding boxes"):
        v2.RandomIoUCrop()(given["image"])


def test_what_is_white_by_dtype() -> None:
    from adjoint.vision.transforms import functional as first
    from adjoint.vision.transforms.v2 import functional as second

    assert first.convert_image_dtype(ad.tensor([[[True, False]]])).tolist() == [[[1.0, 0.0]]]
    for dtype in (ad.uint8, ad.int8, ad.int16, ad.int32, ad.int64):
        top = ad.iinfo(dtype).max
        image = ad.tensor([[[0, 1, top]]], dtype=dtype)
        assert first.invert(image).tolist() == [[[top, top - 1, 0]]]
        upper = top - top // 4  # the two highest bits below the sign's
        assert second.posterize(image, 2).tolist() == [[[0, 0, upper]]]


def test_sizes_that_say_nothing_are_refused() -> None:
    from adjoint.vision.transforms import functional as first
    from adjoint.vision.transforms.v2 import functional as second

    image = ad.zeros(3, 6, 8, dtype=ad.uint8)
    for library in (first, second):
        for size, most in (([4, 4], 5), (4, 4), ([4], 3), ([1, 2, 3], None)):
            with pytest.raises(ValueError, match="size"):
                library.resize(image, size, max_size=most)
        with pytest.raises((ValueError, TypeError)):
            library.posterize(image, 9)


def test_refusals() -> None:
    with pytest.raises(ValueError, match="larger than input"):
        v2.RandomCrop(50)(sample())
    with pytest.raises(ValueError, match="multiple HxW"):
        v2.RandomCrop(5)(Image(ad.zeros(3, 9, 9)), boxes())
    with pytest.raises(ValueError, match="at least one"):
        v2.Compose([])
    with pytest.raises(TypeError, match="no kernel for Mask"):
        F.normalize(Mask(ad.zeros(2, 2)), [0.5], [0.5])
    with pytest.raises(ValueError, match="numbers for 3 channels"):
        F.pad(ad.zeros(3, 2, 2), 1, fill=[1, 2])


def test_transforms_of_ones_own() -> None:
    class Shift(v2.Transform):
        def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
            return {"size": v2.query_size(flat_inputs)}

        def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
            return self._call_kernel(F.crop, inpt, -1, -2, *params["size"])

    made = Shift()(sample())
    np.testing.assert_array_equal(made["boxes"][0].numpy(), np.add(CORNERS[0], [2, 1, 2, 1]))
    assert isinstance(pickle.loads(pickle.dumps(v2.Resize(4))), ad.nn.Module)
    assert repr(v2.Resize(4)).startswith("Resize(")
