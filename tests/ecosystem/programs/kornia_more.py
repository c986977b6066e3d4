import kornia
import kornia.augmentation as K
import torch
from common import picture, say

x = (picture(2, 3, 16, 16) + 1) / 2
found = []


def tell(given):
    """Two numbers of a tensor."""
    found.extend([given.float().sum(), given.float().square().sum()])


for name in (
    "rgb_to_grayscale",
    "rgb_to_hsv",
    "rgb_to_lab",
    "rgb_to_ycbcr",
    "rgb_to_yuv",
    "rgb_to_xyz",
    "rgb_to_hls",
):
    tell(getattr(kornia.color, name)(x))
for given in (
    kornia.filters.gaussian_blur2d(x, (3, 3), (1.0, 1.0)), kornia.filters.sobel(x),
    kornia.filters.canny(x)[0], kornia.filters.median_blur(x, (3, 3)), kornia.filters.laplacian(x, 3),
    kornia.filters.bilateral_blur(x, (3, 3), 0.1, (1.0, 1.0)), kornia.filters.unsharp_mask(x, (3, 3), (1.0, 1.0)),
    kornia.filters.box_blur(x, (3, 3)), kornia.filters.spatial_gradient(x), kornia.filters.motion_blur(x, 3, 30.0, 0.5),
):  # fmt: skip
    tell(given)
angle = torch.tensor([30.0, -20.0])
tell(kornia.geometry.rotate(x, angle))
tell(kornia.geometry.resize(x, (8, 12)))
tell(kornia.geometry.translate(x, torch.tensor([[1.0, 2.0], [0.5, 0.0]])))
matrix = kornia.geometry.get_rotation_matrix2d(torch.full((2, 2), 8.0), angle, torch.ones(2, 2))
tell(kornia.geometry.warp_affine(x, matrix, (16, 16)))
ends = torch.tensor([[[0.0, 0.0], [15.0, 0.0], [15.0, 15.0], [0.0, 15.0]]]).repeat(2, 1, 1)
homography = kornia.geometry.get_perspective_transform(ends, ends + picture(2, 4, 2))
tell(kornia.geometry.warp_perspective(x, homography, (16, 16)))
tell(homography)
tell(kornia.geometry.pyrdown(x))
tell(kornia.geometry.axis_angle_to_rotation_matrix(picture(4, 3)))
tell(
    kornia.geometry.quaternion_to_rotation_matrix(
        torch.nn.functional.normalize(picture(4, 4), dim=-1)
    )
)
tell(kornia.geometry.elastic_transform2d(x, torch.zeros(2, 2, 16, 16)))
tell(kornia.geometry.find_homography_dlt(picture(1, 8, 2), picture(1, 8, 2) * 2 + 1))
tell(kornia.morphology.dilation(x, torch.ones(3, 3)))
tell(kornia.morphology.opening(x, torch.ones(3, 3)))
tell(kornia.enhance.adjust_brightness(x, 0.2))
tell(kornia.enhance.adjust_hue(x, 0.2))
tell(kornia.enhance.adjust_saturation(x, 1.5))
tell(kornia.enhance.equalize_clahe(x))
tell(kornia.enhance.equalize(x))
tell(kornia.enhance.histogram(x[:, 0].flatten(1), torch.linspace(0, 1, 8), torch.tensor(0.1)))
for loss in (
    kornia.losses.ssim_loss(x, x.flip(-1), 5), kornia.losses.psnr_loss(x, x.flip(-1), 1.0),
    kornia.losses.total_variation(x).sum(), kornia.losses.focal_loss(picture(2, 3, 4, 4), torch.ones(2, 4, 4).long(), 0.5, reduction="mean"),
    kornia.losses.dice_loss(picture(2, 3, 4, 4), torch.ones(2, 4, 4).long()), kornia.losses.lovasz_softmax_loss(picture(2, 3, 4, 4), torch.ones(2, 4, 4).long()),
    kornia.losses.inverse_depth_smoothness_loss(x[:, :1], x), kornia.losses.MS_SSIMLoss()(x.repeat(1, 1, 4, 4), x.flip(-1).repeat(1, 1, 4, 4)),
):  # fmt: skip
    found.append(loss)
tell(kornia.feature.harris_response(x[:, :1]))
tell(kornia.feature.SIFTDescriptor(16)(x[:, :1]))
flip = K.AugmentationSequential(
    K.RandomHorizontalFlip(p=1.0), K.Normalize(torch.tensor([0.5]), torch.tensor([0.5])), K.CenterCrop((8, 8)),
    data_keys=["input", "mask", "keypoints"],
)  # fmt: skip
points = torch.tensor([[[2.0, 3.0]], [[4.0, 5.0]]])
for each in flip(x, x[:, :1], points):
    tell(each)
tell(flip.inverse(*flip(x, x[:, :1], points))[2])
drawn = K.ImageSequential(
    K.ColorJiggle(0.1, 0.1, 0.1, 0.1, p=1.0), K.RandomAffine(20.0, p=1.0), K.RandomErasing(p=1.0),
    K.RandomGaussianBlur((3, 3), (0.1, 2.0), p=1.0), K.RandomResizedCrop((8, 8), p=1.0), K.RandomPerspective(p=1.0),
    K.RandomGrayscale(p=1.0), K.RandomSolarize(p=1.0), K.RandomPosterize(p=1.0), K.RandomSharpness(p=1.0),
    K.RandomElasticTransform(p=1.0), K.RandomGaussianNoise(p=1.0),
)  # fmt: skip
found += [*drawn(x).shape, *K.RandomMixUpV2(p=1.0, data_keys=["input"])(x).shape]
found += [
    *K.auto.RandAugment(2, 5)(x).shape,
]
image = x.clone().requires_grad_()
kornia.geometry.rotate(image, angle).square().sum().backward()
tell(image.grad)
say(*found)
