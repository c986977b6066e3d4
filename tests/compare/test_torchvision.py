"""Images as torchvision has them: the same pixels, boxes and outputs, given the same weights."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
torchvision = pytest.importorskip("torchvision")

import torchvision.transforms.functional as theirs  # noqa: E402

import adjoint as ad  # noqa: E402
from adjoint import vision  # noqa: E402
from adjoint.vision.transforms import functional as ours  # noqa: E402

pytestmark = pytest.mark.compare
RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (3, 37, 53)).astype(np.uint8)
FLOATS = (PIXELS / 255).astype(np.float32)
MODES = ["NEAREST", "NEAREST_EXACT", "BILINEAR", "BICUBIC"]

CHANGES = {
    **{
        f"resize {m}": lambda f, x, m=m: f.resize(x, [20, 30], f.InterpolationMode[m])
        for m in MODES
    },
    **{
        f"rotate {m} {expand}": lambda f, x, m=m, e=expand: f.rotate(
            x, 30, f.InterpolationMode[m], expand=e, fill=[10.0]
        )
        for m in ("NEAREST", "BILINEAR")
        for expand in (False, True)
    },
    "affine": lambda f, x: f.affine(x, 20, [3, -4], 1.2, [10, 5]),
    "perspective": lambda f, x: f.perspective(
        x, [[0, 0], [52, 0], [52, 36], [0, 36]], [[3, 4], [48, 2], [50, 33], [2, 30]]
    ),
    "hue": lambda f, x: f.adjust_hue(x, 0.2),
    "contrast": lambda f, x: f.adjust_contrast(x, 1.7),
    "saturation": lambda f, x: f.adjust_saturation(x, 0.5),
    "sharpness": lambda f, x: f.adjust_sharpness(x, 1.7),
    "gamma": lambda f, x: f.adjust_gamma(x, 1.7),
    "autocontrast": lambda f, x: f.autocontrast(x),
    "blur": lambda f, x: f.gaussian_blur(x, [5, 3], [1.5, 0.7]),
    "grey": lambda f, x: f.rgb_to_grayscale(x, 3),
    "crop": lambda f, x: f.center_crop(x, [50, 20]),
}
# Of the second transforms, which take floating-point images too.
SECOND = {
    "equalize": lambda f, x: f.equalize(x),
    "posterize": lambda f, x: f.posterize(x, 3),
    "solarize": lambda f, x: f.solarize(x, 0.4 if x.is_floating_point() else 100),
    "autocontrast": lambda f, x: f.autocontrast(x),
    "invert": lambda f, x: f.invert(x),
}


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_tensors(name: str) -> None:
    for pixels in (PIXELS, FLOATS):
        want = CHANGES[name](theirs, torch.tensor(pixels)).numpy()
        got = CHANGES[name](ours, ad.tensor(pixels)).numpy()
        assert got.dtype == want.dtype
        off = 1 if pixels is PIXELS else 2e-4  # bytes are rounded from sums in another order
        assert np.abs(got.astype(float) - want.astype(float)).max() <= off


@pytest.mark.parametrize("name", sorted(SECOND))
def test_second_tones(name: str) -> None:
    from torchvision.transforms.v2 import functional as their_second

    from adjoint.vision.transforms.v2 import functional as our_second

    for pixels in (PIXELS, FLOATS, FLOATS.astype(np.float64)):
        want = SECOND[name](their_second, torch.tensor(pixels)).numpy()
        got = SECOND[name](our_second, ad.tensor(pixels)).numpy()
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


def test_flows_in_colour() -> None:
    for shape in ((2, 17, 19), (3, 2, 8, 9)):
        flow = RNG.normal(size=shape).astype(np.float32)
        want = torchvision.utils.flow_to_image(torch.tensor(flow)).numpy()
        np.testing.assert_array_equal(vision.utils.flow_to_image(ad.tensor(flow)).numpy(), want)


VIDEOS = {
    "r3d_18": [(1, 3, 4, 32, 32)],
    "mc3_18": [(1, 3, 4, 32, 32)],
    "r2plus1d_18": [(1, 3, 4, 32, 32)],
    "swin3d_t": [(1, 3, 6, 40, 44)],
    "raft_small": [(1, 3, 128, 136)] * 2,
}


def boxes(count: int) -> np.ndarray:
    corners = RNG.uniform(0, 25, (count, 2))
    return np.concatenate([corners, corners + RNG.uniform(2, 15, (count, 2))], 1).astype(np.float32)


def test_regions() -> None:
    image, found = RNG.normal(size=(2, 12, 20, 30)).astype(np.float32), [boxes(5), boxes(3)]
    calls = {
        "roi_align": lambda o, x, b: o.roi_align(x, b, (3, 4), 0.6, 2, True),
        "adaptive": lambda o, x, b: o.roi_align(x, b, (3, 4), 0.6),
        "roi_pool": lambda o, x, b: o.roi_pool(x, b, (3, 4), 0.7),
        "ps_roi_align": lambda o, x, b: o.ps_roi_align(x, b, 2, 0.5, 2),
        "ps_roi_pool": lambda o, x, b: o.ps_roi_pool(x, b, 2, 0.5),
    }
    for name, call in calls.items():
        want = call(torchvision.ops, torch.tensor(image), [torch.tensor(b) for b in found])
        got = call(vision.ops, ad.tensor(image), [ad.tensor(b) for b in found])
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-4, atol=1e-4, err_msg=name)


def filled(state: dict) -> dict:
    """Weights drawn by their names."""
    out = {}
    for key, value in state.items():
        draw = np.random.default_rng(zlib.crc32(key.encode()))
        shape = tuple(value.shape)
        if "float" not in str(value.dtype):
            continue
        scale = (2 / np.prod(shape[1:])) ** 0.5 if len(shape) > 1 else 0.1
        made = draw.normal(size=shape) * scale
        made = (
            np.abs(made) + 0.5
            if key.endswith(("running_var", "weight")) and len(shape) == 1
            else made
        )
        out[key] = made.astype(np.float32)
    return out


def small_mvit(package: Any, rel_pos_embed: bool) -> Any:
    video = package.models.video
    block = video.mvit.MSBlockConfig(2, 8, 16, [3] * 3, [3] * 3, [1, 2, 2], [1, 1, 1])
    last = video.mvit.MSBlockConfig(2, 16, 16, [], [3] * 3, [], [1, 2, 2])
    return video.MViT(
        (32, 48), 4, [block, last], rel_pos_embed, False, rel_pos_embed, rel_pos_embed
    )


@pytest.mark.parametrize("rel_pos_embed", [True, False])
def test_multiscale_video(rel_pos_embed: bool) -> None:
    want, got = small_mvit(torchvision, rel_pos_embed), small_mvit(vision, rel_pos_embed)
    agree(want, got, [(2, 3, 4, 32, 48)])


@pytest.mark.parametrize(
    "name", ["mobilenet_v3_small", "efficientnet_b0", "regnet_y_400mf", "swin_t", *VIDEOS]
)
def test_networks(name: str) -> None:
    want, got = torchvision.models.get_model(name), vision.models.get_model(name)
    agree(want, got, VIDEOS.get(name, [(2, 3, 64, 64)]))


def agree(want: Any, got: Any, shapes: list[tuple[int, ...]]) -> None:
    assert list(want.state_dict()) == list(got.state_dict())
    made = filled(want.state_dict())
    want.load_state_dict({k: torch.tensor(v) for k, v in made.items()}, strict=False)
    got.load_state_dict({k: ad.tensor(v) for k, v in made.items()}, strict=False)
    images = [RNG.normal(size=shape).astype(np.float32) for shape in shapes]
    with torch.no_grad(), ad.no_grad():
        one, two = want.eval()(*map(torch.tensor, images)), got.eval()(*map(ad.tensor, images))
    one, two = (out[-1] if isinstance(out, list) else out for out in (one, two))
    one, two = one.numpy(), two.numpy()
    np.testing.assert_allclose(two, one, rtol=2e-3, atol=2e-3 * np.abs(one).max())
