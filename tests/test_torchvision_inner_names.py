"""What copies of torchvision's networks and transforms import from inside it."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.vision import models, utils
from adjoint.vision.models import _utils as parts
from adjoint.vision.models import resnet, vgg
from adjoint.vision.ops import _utils as box_parts
from adjoint.vision.ops import boxes
from adjoint.vision.transforms import _functional_video as clips
from adjoint.vision.transforms import _setup_size, functional
from adjoint.vision.transforms import _transforms_video as video


def test_networks_of_ones_own_are_found_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "_BUILDERS", dict(models._BUILDERS))

    @models.register_model()
    def my_small_net(width: int = 2) -> ad.nn.Module:
        utils._log_api_usage_once(my_small_net)
        return ad.nn.Linear(width, parts._make_divisible(width * 3.0, 8))

    assert models.get_model("my_small_net", width=4).out_features == 16
    assert "my_small_net" in models.list_models(include="my_*")
    assert "my_small_net" not in models.list_models(models)
    for name in ("my_small_net", "resnet18"):
        with pytest.raises(ValueError, match="already registered"):
            models.register_model(name)(my_small_net)
    with pytest.raises(ValueError, match="Unknown model"):
        models.get_model_builder("my_large_net")


def test_older_flags_of_weights() -> None:
    @parts.handle_legacy_interface(weights=("pretrained", "IMAGENET"))
    def build(*, weights: Any = None, **options: Any) -> Any:
        if weights is not None:
            parts._ovewrite_named_param(options, "num_classes", 1000)
        return weights, options

    assert build() == (None, {})
    assert build(weights="IMAGENET") == ("IMAGENET", {"num_classes": 1000})
    with pytest.warns(UserWarning, match="'pretrained' is deprecated"):
        assert build(pretrained=True) == ("IMAGENET", {"num_classes": 1000})
    with pytest.warns(UserWarning, match="'pretrained' is deprecated"):
        assert build(False) == (None, {})
    with pytest.raises(ValueError, match="expected value 1000 but got 10"):
        build(weights="IMAGENET", num_classes=10)
    assert parts._ovewrite_value_param("size", None, 3) == 3
    with pytest.raises(ValueError, match="expected value 3 but got 4"):
        parts._ovewrite_value_param("size", 4, 3)


@pytest.mark.parametrize("dtype", [ad.float16, ad.bfloat16, ad.float32, ad.uint8, ad.int64])
def test_areas_of_halves_and_bytes_do_not_overflow(dtype: ad.dtype) -> None:
    corners = np.array([[0, 0, 200, 250], [100, 50, 240, 255]], np.float64)
    box = ad.tensor(corners).to(dtype)
    seen = box.double().numpy()  # what the dtype keeps of the corners
    area = (seen[:, 2] - seen[:, 0]) * (seen[:, 3] - seen[:, 1])
    got = boxes.box_area(box)
    np.testing.assert_array_equal(got.double().numpy(), area)
    assert got.dtype in (ad.float32, ad.int32, ad.int64)
    common, union = boxes._box_inter_union(box, box)
    inside = (seen[0, 2] - seen[1, 0]) * (seen[0, 3] - seen[1, 1])
    np.testing.assert_array_equal(common[0, 1].item(), inside)
    np.testing.assert_array_equal(union[0, 1].item(), area.sum() - inside)
    np.testing.assert_allclose(
        boxes.box_iou(box, box)[0, 1].item(), inside / (area.sum() - inside), rtol=1e-6
    )
    around = boxes.generalized_box_iou(box, box)
    assert bool(around.isfinite().all())


def test_clips() -> None:
    raw = ad.arange(2 * 4 * 6 * 3).view(2, 4, 6, 3).to(ad.uint8)
    clip = video.ToTensorVideo()(raw)
    assert clip.shape == (3, 2, 4, 6)
    assert clip[1, 0, 2, 3].item() == pytest.approx(raw[0, 2, 3, 1].item() / 255)
    assert video.CenterCropVideo(2)(clip).tolist() == clip[..., 1:3, 2:4].tolist()
    scaled = video.NormalizeVideo([0.0, 0.5, 1.0], [1.0, 2.0, 4.0])(clip)
    ad.testing.assert_close(scaled[2], (clip[2] - 1) / 4)
    assert clips.hflip(clip).tolist() == clip[..., [5, 4, 3, 2, 1, 0]].tolist()
    assert video.RandomHorizontalFlipVideo(p=0.0)(clip) is clip
    assert video.RandomHorizontalFlipVideo(p=1.0)(clip).tolist() == clips.hflip(clip).tolist()
    random.seed(0)
    assert video.RandomCropVideo((3, 2))(clip).shape == (3, 2, 3, 2)
    assert video.RandomResizedCropVideo(5)(clip).shape == (3, 2, 5, 5)
    wanted = ad.nn.functional.interpolate(clip[..., :2, 1:4], size=(4, 4), mode="bilinear")
    ad.testing.assert_close(clips.resized_crop(clip, 0, 1, 2, 3, (4, 4)), wanted)
    assert repr(video.CenterCropVideo(2)) == "CenterCropVideo(crop_size=(2, 2))"
    for bad, error in ((clip[0], ValueError), ([1], TypeError)):
        with pytest.raises(error, match="clip should be"):
            clips.hflip(bad)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="uint8"):
        clips.to_tensor(clip)
    with pytest.raises(ValueError, match="no smaller than crop_size"):
        clips.center_crop(clip, (5, 5))


def test_helpers_of_transforms() -> None:
    assert _setup_size(3, "words") == (3, 3)
    assert _setup_size([3], "words") == (3, 3)
    assert _setup_size((3, 4), "words") == (3, 4)
    with pytest.raises(ValueError, match="words"):
        _setup_size((1, 2, 3), "words")
    assert functional._interpolation_modes_from_int(2) is functional.InterpolationMode.BILINEAR
    assert functional.pil_modes_mapping[functional.InterpolationMode.BICUBIC] == 3
    assert functional._is_numpy(np.zeros(1))
    assert not functional._is_pil_image(np.zeros(1))
    assert utils._make_ntuple(2, 3) == (2, 2, 2)
    square = [[0, 0], [4, 0], [4, 4], [0, 4]]
    same = functional._get_perspective_coeffs(square, square)
    np.testing.assert_allclose(same, [1, 0, 0, 0, 1, 0, 0, 0], atol=1e-6)
    quarter = functional._get_inverse_affine_matrix([0, 0], 90, [0, 0], 1.0, [0, 0])
    np.testing.assert_allclose(quarter, [0, 1, 0, -1, 0, 0], atol=1e-9)


def test_networks_of_other_plans() -> None:
    assert [sum(word != "M" for word in vgg.cfgs[x]) + 3 for x in "ABDE"] == [11, 13, 16, 19]
    with ad.device("meta"):
        pairs: list[Any] = [
            (resnet._resnet(resnet.BasicBlock, [2, 2, 2, 2], None, True), resnet.resnet18()),
            (vgg._vgg("A", True, None, True, num_classes=5), vgg.vgg11_bn(num_classes=5)),
        ]
    for ours, named in pairs:
        shapes = [{k: tuple(v.shape) for k, v in m.state_dict().items()} for m in (ours, named)]
        assert shapes[0] == shapes[1]


class _Published:
    def __init__(self, state: Any) -> None:
        self.state = state

    def get_state_dict(self) -> Any:
        return self.state


def test_weights_of_other_plans_are_read() -> None:
    small = resnet._resnet(resnet.BasicBlock, [1, 1, 1, 1], num_classes=2)
    weights: Any = _Published(small.state_dict())
    again = resnet._resnet(resnet.BasicBlock, [1, 1, 1, 1], weights, num_classes=2)
    for a, b in zip(small.parameters(), again.parameters(), strict=True):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


def test_boxes_of_several_images() -> None:
    first, second = ad.tensor([[0.0, 1, 2, 3]]), ad.tensor([[4.0, 5, 6, 7], [1, 1, 2, 2]])
    rois = box_parts.convert_boxes_to_roi_format([first, second])
    assert rois.tolist() == [[0, 0, 1, 2, 3], [1, 4, 5, 6, 7], [1, 1, 1, 2, 2]]
    for good in (rois, [first, second]):
        box_parts.check_roi_boxes_shape(good)
    for bad in (first, [rois]):
        with pytest.raises(ValueError, match="expected boxes"):
            box_parts.check_roi_boxes_shape(bad)
    assert box_parts._upcast is boxes._upcast
    nn = ad.nn
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Sequential(nn.LayerNorm(3)))
    norms, others = box_parts.split_normalization_params(net)
    assert [tuple(p.shape) for p in norms] == [(3,)] * 4
    assert [tuple(p.shape) for p in others] == [(3, 2), (3,)]
    assert len(box_parts.split_normalization_params(net, [nn.LayerNorm])[0]) == 2
