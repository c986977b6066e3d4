"""kornia: cameras, groups of rotations, epipolar geometry, patches, features, matches, losses of pictures, points."""

import kornia
import torch
from common import parts, picture
from kornia.geometry import So2, So3, Se3
from kornia.geometry.quaternion import Quaternion

x = (picture(2, 3, 24, 24) + 1) / 2


def groups():
    """Rotations and motions."""
    turn = So3.exp(picture(3, 3))
    other = So3.exp(picture(3, 3).cos())
    motion = Se3.exp(picture(3, 6))
    quaternion = Quaternion(torch.nn.functional.normalize(picture(3, 4), dim=-1))
    return [
        turn.matrix(), (turn * other).log(), turn.inverse().matrix(), motion.matrix(), motion.log(), quaternion.matrix(), (quaternion * quaternion).data,
        So2.exp(picture(3)).matrix(), kornia.geometry.rotation_matrix_to_axis_angle(turn.matrix()), kornia.geometry.euler_from_quaternion(*quaternion.data.unbind(-1)),
    ]  # fmt: skip


def cameras():
    """Points through a camera and back."""
    matrix = torch.eye(4)[None].repeat(2, 1, 1)
    matrix[:, 0, 0] = matrix[:, 1, 1] = 20.0
    matrix[:, 0, 2] = matrix[:, 1, 2] = 12.0
    camera = kornia.geometry.PinholeCamera(
        matrix, torch.eye(4)[None].repeat(2, 1, 1), torch.full((2,), 24.0), torch.full((2,), 24.0)
    )
    points = picture(2, 5, 3) + torch.tensor([0.0, 0.0, 4.0])
    flat = kornia.geometry.project_points(points, matrix[:, None, :3, :3].expand(2, 5, 3, 3))
    back = kornia.geometry.unproject_points(
        flat, points[..., 2:], matrix[:, None, :3, :3].expand(2, 5, 3, 3)
    )
    bent = kornia.geometry.distort_points(
        flat, matrix[:, :3, :3], torch.tensor([[0.1, 0.01, 0.0, 0.0]]).repeat(2, 1)
    )
    depth = picture(2, 1, 24, 24).abs() + 1
    return [
        flat,
        back,
        bent,
        kornia.geometry.undistort_points(
            bent, matrix[:, :3, :3], torch.tensor([[0.1, 0.01, 0.0, 0.0]]).repeat(2, 1)
        ),
        kornia.geometry.depth_to_3d(depth, matrix[:, :3, :3]),
        kornia.geometry.depth_to_normals(depth, matrix[:, :3, :3]),
        camera.fx,
    ]


def epipolar():
    """Two views of one scene."""
    one, two = picture(1, 10, 2) * 5, picture(1, 10, 2).cos() * 5
    fundamental = picture(1, 3, 3)
    lines = kornia.geometry.compute_correspond_epilines(one, fundamental)
    essential = kornia.geometry.essential_from_fundamental(
        fundamental, torch.eye(3)[None], torch.eye(3)[None]
    )
    placed = kornia.geometry.triangulate_points(
        torch.eye(3, 4)[None], torch.eye(3, 4)[None] + 0.1, one, two
    )
    return [
        fundamental.abs(),
        lines.abs(),
        essential.abs(),
        kornia.geometry.sampson_epipolar_distance(one, two, fundamental),
        placed.abs().sum() > 0,
        kornia.geometry.symmetrical_epipolar_distance(one, two, fundamental),
    ]


def warps():
    """Pictures moved: flows, meshes, pyramids, shears, crops."""
    boxes = torch.tensor([[[2.0, 2.0], [10.0, 2.0], [10.0, 12.0], [2.0, 12.0]]]).repeat(2, 1, 1)
    found = [
        kornia.geometry.shear(x, torch.tensor([[0.1, 0.0], [0.0, 0.2]])), kornia.geometry.scale(x, torch.tensor([[1.2, 1.2], [0.8, 0.8]])), kornia.geometry.hflip(x), kornia.geometry.rot180(x),
        kornia.geometry.crop_and_resize(x, boxes, (6, 6)), kornia.geometry.center_crop(x, (8, 8)), *kornia.geometry.build_pyramid(x, 2), kornia.geometry.pyrup(x),
        kornia.geometry.remap(x, picture(2, 24, 24) * 5 + 12, picture(2, 24, 24).cos() * 5 + 12), kornia.geometry.warp_affine3d(picture(1, 1, 4, 4, 4), torch.eye(3, 4)[None], (4, 4, 4)),
        kornia.contrib.extract_tensor_patches(x, 8, stride=8), kornia.contrib.distance_transform((x[:, :1] > 0.5).float()), kornia.contrib.connected_components((x[:, :1] > 0.8).float(), 5),
    ]  # fmt: skip
    return found


def features():
    """Corners, descriptors, matches."""
    grey = x[:, :1]
    first, second = (
        torch.nn.functional.normalize(picture(8, 16), dim=-1),
        torch.nn.functional.normalize(picture(6, 16).cos(), dim=-1),
    )
    found = [
        each(grey)
        for each in (
            kornia.feature.gftt_response,
            kornia.feature.hessian_response,
            kornia.feature.dog_response_single,
        )
    ]
    for match in (kornia.feature.match_nn, kornia.feature.match_mnn):
        distances, places = match(first, second)
        found += [distances, places]
    found += [each.float() for each in kornia.feature.match_snn(first, second, 0.99)]
    frames = kornia.feature.laf_from_center_scale_ori(
        torch.full((1, 2, 2), 12.0), torch.full((1, 2, 1, 1), 4.0), torch.full((1, 2, 1), 30.0)
    )
    found += [
        kornia.feature.extract_patches_from_pyramid(grey[:1], frames, 8),
        kornia.feature.get_laf_orientation(frames),
        kornia.feature.HOGDescriptor()(grey)
        if hasattr(kornia.feature, "HOGDescriptor")
        else torch.zeros(1),
    ]
    return found


def colours():
    """Colours, tones, mixtures."""
    other = x.flip(-1)
    return [
        kornia.color.rgb_to_luv(x), kornia.color.lab_to_rgb(kornia.color.rgb_to_lab(x)), kornia.color.rgb_to_linear_rgb(x), kornia.color.sepia(x) if hasattr(kornia.color, "sepia") else x, kornia.color.rgb_to_yuv420(x)[0],
        kornia.color.apply_colormap(x[:, :1], kornia.color.ColorMap("jet", 16)), kornia.enhance.adjust_gamma(x, 1.5), kornia.enhance.adjust_log(x), kornia.enhance.adjust_sigmoid(x),
        kornia.enhance.solarize(x, 0.5), kornia.enhance.posterize(x, 3), kornia.enhance.sharpness(x, 0.5), kornia.enhance.zca_whiten(picture(8, 4)).abs(), kornia.enhance.add_weighted(x, 0.3, other, 0.7, 0.1),
        kornia.enhance.invert(x), kornia.enhance.image_histogram2d(x)[0], kornia.enhance.jpeg_codec_differentiable(x[..., :16, :16], torch.tensor([50.0, 80.0])),
    ]  # fmt: skip


parts(groups, cameras, epipolar, warps, features, colours)
