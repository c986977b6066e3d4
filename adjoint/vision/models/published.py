"""Published weights: the file of each version, and how images are prepared for it.

A line: network, version, file, then (of networks that classify) the size images are resized to,
the size of the middle that is kept, and the interpolation; of networks for video in its place how
their frames were normalised.
"""

from __future__ import annotations

from typing import NamedTuple


class Published(NamedTuple):
    """One version of a network's weights."""

    version: str
    file: str
    resize: int | tuple[int, int] = 0
    crop: int = 0
    interpolation: str = "bilinear"


def published(network: str) -> dict[str, Published]:
    """The versions of a network's weights, oldest first; none where there are none."""
    versions = {}
    for line in TABLE.strip().splitlines():
        name, version, file, *sizes = line.split()
        if name == network:
            resize, crop, mode = (_size(sizes[0]), int(sizes[1]), sizes[2]) if sizes else (0, 0, "")
            versions[version] = Published(version, file, resize, crop, mode)
    return versions


def default(network: str) -> str:
    """The version meant by DEFAULT: the second of two, unless the table below says otherwise."""
    versions = published(network)
    if not versions:
        raise ValueError(f"{network}: no weights are published")
    second = next((v for v in versions if v.endswith("V2")), next(iter(versions)))
    return DEFAULTS.get(network, second)


def _size(text: str) -> int | tuple[int, int]:
    """256, or 128x171."""
    height, _, width = text.partition("x")
    return (int(height), int(width)) if width else int(height)


DEFAULTS = {"raft_large": "C_T_SKHT_V2"}
# Means and deviations of the three colours, by the word of a network for video.
NORMALISED = {
    "kinetics": ((0.43216, 0.394666, 0.37645), (0.22803, 0.22145, 0.216989)),
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "even": ((0.45, 0.45, 0.45), (0.225, 0.225, 0.225)),
}


TABLE = """
alexnet IMAGENET1K_V1 alexnet-owt-7be5be79 256 224 bilinear
convnext_base IMAGENET1K_V1 convnext_base-6075fbad 232 224 bilinear
convnext_large IMAGENET1K_V1 convnext_large-ea097f82 232 224 bilinear
convnext_small IMAGENET1K_V1 convnext_small-0c510722 230 224 bilinear
convnext_tiny IMAGENET1K_V1 convnext_tiny-983f1562 236 224 bilinear
deeplabv3_mobilenet_v3_large COCO_WITH_VOC_LABELS_V1 deeplabv3_mobilenet_v3_large-fc3c493d
deeplabv3_resnet101 COCO_WITH_VOC_LABELS_V1 deeplabv3_resnet101_coco-586e9e4e
deeplabv3_resnet50 COCO_WITH_VOC_LABELS_V1 deeplabv3_resnet50_coco-cd0a2569
densenet121 IMAGENET1K_V1 densenet121-a639ec97 256 224 bilinear
densenet161 IMAGENET1K_V1 densenet161-8d451a50 256 224 bilinear
densenet169 IMAGENET1K_V1 densenet169-b2777c0a 256 224 bilinear
densenet201 IMAGENET1K_V1 densenet201-c1103571 256 224 bilinear
efficientnet_b0 IMAGENET1K_V1 efficientnet_b0_rwightman-7f5810bc 256 224 bicubic
efficientnet_b1 IMAGENET1K_V1 efficientnet_b1_rwightman-bac287d4 256 240 bicubic
efficientnet_b1 IMAGENET1K_V2 efficientnet_b1-c27df63c 255 240 bilinear
efficientnet_b2 IMAGENET1K_V1 efficientnet_b2_rwightman-c35c1473 288 288 bicubic
efficientnet_b3 IMAGENET1K_V1 efficientnet_b3_rwightman-b3899882 320 300 bicubic
efficientnet_b4 IMAGENET1K_V1 efficientnet_b4_rwightman-23ab8bcd 384 380 bicubic
efficientnet_b5 IMAGENET1K_V1 efficientnet_b5_lukemelas-1a07897c 456 456 bicubic
efficientnet_b6 IMAGENET1K_V1 efficientnet_b6_lukemelas-24a108a5 528 528 bicubic
efficientnet_b7 IMAGENET1K_V1 efficientnet_b7_lukemelas-c5b4e57e 600 600 bicubic
efficientnet_v2_l IMAGENET1K_V1 efficientnet_v2_l-59c71312 480 480 bicubic
efficientnet_v2_m IMAGENET1K_V1 efficientnet_v2_m-dc08266a 480 480 bilinear
efficientnet_v2_s IMAGENET1K_V1 efficientnet_v2_s-dd5fe13b 384 384 bilinear
fasterrcnn_mobilenet_v3_large_320_fpn COCO_V1 fasterrcnn_mobilenet_v3_large_320_fpn-907ea3f9
fasterrcnn_mobilenet_v3_large_fpn COCO_V1 fasterrcnn_mobilenet_v3_large_fpn-fb6a3cc7
fasterrcnn_resnet50_fpn COCO_V1 fasterrcnn_resnet50_fpn_coco-258fb6c6
fasterrcnn_resnet50_fpn_v2 COCO_V1 fasterrcnn_resnet50_fpn_v2_coco-dd69338a
fcn_resnet101 COCO_WITH_VOC_LABELS_V1 fcn_resnet101_coco-7ecb50ca
fcn_resnet50 COCO_WITH_VOC_LABELS_V1 fcn_resnet50_coco-1167a1af
fcos_resnet50_fpn COCO_V1 fcos_resnet50_fpn_coco-99b0c9b7
googlenet IMAGENET1K_V1 googlenet-1378be20 256 224 bilinear
inception_v3 IMAGENET1K_V1 inception_v3_google-0cc3c7bd 342 299 bilinear
keypointrcnn_resnet50_fpn COCO_V1 keypointrcnn_resnet50_fpn_coco-fc266e95
lraspp_mobilenet_v3_large COCO_WITH_VOC_LABELS_V1 lraspp_mobilenet_v3_large-d234d4ea
maskrcnn_resnet50_fpn COCO_V1 maskrcnn_resnet50_fpn_coco-bf2d0c1e
maskrcnn_resnet50_fpn_v2 COCO_V1 maskrcnn_resnet50_fpn_v2_coco-73cbd019
maxvit_t IMAGENET1K_V1 maxvit_t-bc5ab103 224 224 bicubic
mc3_18 KINETICS400_V1 mc3_18-a90a0ba3 128x171 112 kinetics
mnasnet0_5 IMAGENET1K_V1 mnasnet0.5_top1_67.823-3ffadce67e 256 224 bilinear
mnasnet0_75 IMAGENET1K_V1 mnasnet0_75-7090bc5f 232 224 bilinear
mnasnet1_0 IMAGENET1K_V1 mnasnet1.0_top1_73.512-f206786ef8 256 224 bilinear
mnasnet1_3 IMAGENET1K_V1 mnasnet1_3-a4c69d6f 232 224 bilinear
mobilenet_v2 IMAGENET1K_V1 mobilenet_v2-b0353104 256 224 bilinear
mobilenet_v2 IMAGENET1K_V2 mobilenet_v2-7ebf99e0 232 224 bilinear
mobilenet_v3_large IMAGENET1K_V1 mobilenet_v3_large-8738ca79 256 224 bilinear
mobilenet_v3_large IMAGENET1K_V2 mobilenet_v3_large-5c1a4163 232 224 bilinear
mobilenet_v3_small IMAGENET1K_V1 mobilenet_v3_small-047dcff4 256 224 bilinear
mvit_v1_b KINETICS400_V1 mvit_v1_b-dbeb1030 256 224 even
mvit_v2_s KINETICS400_V1 mvit_v2_s-ae3be167 256 224 even
r2plus1d_18 KINETICS400_V1 r2plus1d_18-91a641e6 128x171 112 kinetics
r3d_18 KINETICS400_V1 r3d_18-b3b3357e 128x171 112 kinetics
raft_large C_T_V1 raft_large_C_T_V1-22a6c225
raft_large C_T_V2 raft_large_C_T_V2-1bb1363a
raft_large C_T_SKHT_V1 raft_large_C_T_SKHT_V1-0b8c9e55
raft_large C_T_SKHT_V2 raft_large_C_T_SKHT_V2-ff5fadd5
raft_large C_T_SKHT_K_V1 raft_large_C_T_SKHT_K_V1-4a6a5039
raft_large C_T_SKHT_K_V2 raft_large_C_T_SKHT_K_V2-b5c70766
raft_small C_T_V1 raft_small_C_T_V1-ad48884c
raft_small C_T_V2 raft_small_C_T_V2-01064c6d
regnet_x_16gf IMAGENET1K_V1 regnet_x_16gf-2007eb11 256 224 bilinear
regnet_x_16gf IMAGENET1K_V2 regnet_x_16gf-ba3796d7 232 224 bilinear
regnet_x_1_6gf IMAGENET1K_V1 regnet_x_1_6gf-e3633e7f 256 224 bilinear
regnet_x_1_6gf IMAGENET1K_V2 regnet_x_1_6gf-a12f2b72 232 224 bilinear
regnet_x_32gf IMAGENET1K_V1 regnet_x_32gf-9d47f8d0 256 224 bilinear
regnet_x_32gf IMAGENET1K_V2 regnet_x_32gf-6eb8fdc6 232 224 bilinear
regnet_x_3_2gf IMAGENET1K_V1 regnet_x_3_2gf-f342aeae 256 224 bilinear
regnet_x_3_2gf IMAGENET1K_V2 regnet_x_3_2gf-7071aa85 232 224 bilinear
regnet_x_400mf IMAGENET1K_V1 regnet_x_400mf-adf1edd5 256 224 bilinear
regnet_x_400mf IMAGENET1K_V2 regnet_x_400mf-62229a5f 232 224 bilinear
regnet_x_800mf IMAGENET1K_V1 regnet_x_800mf-ad17e45c 256 224 bilinear
regnet_x_800mf IMAGENET1K_V2 regnet_x_800mf-94a99ebd 232 224 bilinear
regnet_x_8gf IMAGENET1K_V1 regnet_x_8gf-03ceed89 256 224 bilinear
regnet_x_8gf IMAGENET1K_V2 regnet_x_8gf-2b70d774 232 224 bilinear
regnet_y_128gf IMAGENET1K_SWAG_E2E_V1 regnet_y_128gf_swag-c8ce3e52 384 384 bicubic
regnet_y_128gf IMAGENET1K_SWAG_LINEAR_V1 regnet_y_128gf_lc_swag-cbe8ce12 224 224 bicubic
regnet_y_16gf IMAGENET1K_V1 regnet_y_16gf-9e6ed7dd 256 224 bilinear
regnet_y_16gf IMAGENET1K_V2 regnet_y_16gf-3e4a00f9 232 224 bilinear
regnet_y_16gf IMAGENET1K_SWAG_E2E_V1 regnet_y_16gf_swag-43afe44d 384 384 bicubic
regnet_y_16gf IMAGENET1K_SWAG_LINEAR_V1 regnet_y_16gf_lc_swag-f3ec0043 224 224 bicubic
regnet_y_1_6gf IMAGENET1K_V1 regnet_y_1_6gf-b11a554e 256 224 bilinear
regnet_y_1_6gf IMAGENET1K_V2 regnet_y_1_6gf-0d7bc02a 232 224 bilinear
regnet_y_32gf IMAGENET1K_V1 regnet_y_32gf-4dee3f7a 256 224 bilinear
regnet_y_32gf IMAGENET1K_V2 regnet_y_32gf-8db6d4b5 232 224 bilinear
regnet_y_32gf IMAGENET1K_SWAG_E2E_V1 regnet_y_32gf_swag-04fdfa75 384 384 bicubic
regnet_y_32gf IMAGENET1K_SWAG_LINEAR_V1 regnet_y_32gf_lc_swag-e1583746 224 224 bicubic
regnet_y_3_2gf IMAGENET1K_V1 regnet_y_3_2gf-b5a9779c 256 224 bilinear
regnet_y_3_2gf IMAGENET1K_V2 regnet_y_3_2gf-9180c971 232 224 bilinear
regnet_y_400mf IMAGENET1K_V1 regnet_y_400mf-c65dace8 256 224 bilinear
regnet_y_400mf IMAGENET1K_V2 regnet_y_400mf-e6988f5f 232 224 bilinear
regnet_y_800mf IMAGENET1K_V1 regnet_y_800mf-1b27b58c 256 224 bilinear
regnet_y_800mf IMAGENET1K_V2 regnet_y_800mf-58fc7688 232 224 bilinear
regnet_y_8gf IMAGENET1K_V1 regnet_y_8gf-d0d0e4a8 256 224 bilinear
regnet_y_8gf IMAGENET1K_V2 regnet_y_8gf-dc2b1b54 232 224 bilinear
resnet101 IMAGENET1K_V1 resnet101-63fe2227 256 224 bilinear
resnet101 IMAGENET1K_V2 resnet101-cd907fc2 232 224 bilinear
resnet152 IMAGENET1K_V1 resnet152-394f9c45 256 224 bilinear
resnet152 IMAGENET1K_V2 resnet152-f82ba261 232 224 bilinear
resnet18 IMAGENET1K_V1 resnet18-f37072fd 256 224 bilinear
resnet34 IMAGENET1K_V1 resnet34-b627a593 256 224 bilinear
resnet50 IMAGENET1K_V1 resnet50-0676ba61 256 224 bilinear
resnet50 IMAGENET1K_V2 resnet50-11ad3fa6 232 224 bilinear
resnext101_32x8d IMAGENET1K_V1 resnext101_32x8d-8ba56ff5 256 224 bilinear
resnext101_32x8d IMAGENET1K_V2 resnext101_32x8d-110c445d 232 224 bilinear
resnext101_64x4d IMAGENET1K_V1 resnext101_64x4d-173b62eb 232 224 bilinear
resnext50_32x4d IMAGENET1K_V1 resnext50_32x4d-7cdf4587 256 224 bilinear
resnext50_32x4d IMAGENET1K_V2 resnext50_32x4d-1a0047aa 232 224 bilinear
retinanet_resnet50_fpn COCO_V1 retinanet_resnet50_fpn_coco-eeacb38b
retinanet_resnet50_fpn_v2 COCO_V1 retinanet_resnet50_fpn_v2_coco-5905b1c5
s3d KINETICS400_V1 s3d-d76dad2f 256x256 224 kinetics
shufflenet_v2_x0_5 IMAGENET1K_V1 shufflenetv2_x0.5-f707e7126e 256 224 bilinear
shufflenet_v2_x1_0 IMAGENET1K_V1 shufflenetv2_x1-5666bf0f80 256 224 bilinear
shufflenet_v2_x1_5 IMAGENET1K_V1 shufflenetv2_x1_5-3c479a10 232 224 bilinear
shufflenet_v2_x2_0 IMAGENET1K_V1 shufflenetv2_x2_0-8be3c8ee 232 224 bilinear
squeezenet1_0 IMAGENET1K_V1 squeezenet1_0-b66bff10 256 224 bilinear
squeezenet1_1 IMAGENET1K_V1 squeezenet1_1-b8a52dc0 256 224 bilinear
ssd300_vgg16 COCO_V1 ssd300_vgg16_coco-b556d3b4
ssdlite320_mobilenet_v3_large COCO_V1 ssdlite320_mobilenet_v3_large_coco-a79551df
swin3d_b KINETICS400_V1 swin3d_b_1k-24f7c7c6 256 224 imagenet
swin3d_b KINETICS400_IMAGENET22K_V1 swin3d_b_22k-7c6ae6fa 256 224 imagenet
swin3d_s KINETICS400_V1 swin3d_s-da41c237 256 224 imagenet
swin3d_t KINETICS400_V1 swin3d_t-7615ae03 256 224 imagenet
swin_b IMAGENET1K_V1 swin_b-68c6b09e 238 224 bicubic
swin_s IMAGENET1K_V1 swin_s-5e29d889 246 224 bicubic
swin_t IMAGENET1K_V1 swin_t-704ceda3 232 224 bicubic
swin_v2_b IMAGENET1K_V1 swin_v2_b-781e5279 272 256 bicubic
swin_v2_s IMAGENET1K_V1 swin_v2_s-637d8ceb 260 256 bicubic
swin_v2_t IMAGENET1K_V1 swin_v2_t-b137f0e2 260 256 bicubic
vgg11 IMAGENET1K_V1 vgg11-8a719046 256 224 bilinear
vgg11_bn IMAGENET1K_V1 vgg11_bn-6002323d 256 224 bilinear
vgg13 IMAGENET1K_V1 vgg13-19584684 256 224 bilinear
vgg13_bn IMAGENET1K_V1 vgg13_bn-abd245e5 256 224 bilinear
vgg16 IMAGENET1K_V1 vgg16-397923af 256 224 bilinear
vgg16 IMAGENET1K_FEATURES vgg16_features-amdegroot-88682ab5 256 224 bilinear
vgg16_bn IMAGENET1K_V1 vgg16_bn-6c64b313 256 224 bilinear
vgg19 IMAGENET1K_V1 vgg19-dcbb9e9d 256 224 bilinear
vgg19_bn IMAGENET1K_V1 vgg19_bn-c79401a0 256 224 bilinear
vit_b_16 IMAGENET1K_V1 vit_b_16-c867db91 256 224 bilinear
vit_b_16 IMAGENET1K_SWAG_E2E_V1 vit_b_16_swag-9ac1b537 384 384 bicubic
vit_b_16 IMAGENET1K_SWAG_LINEAR_V1 vit_b_16_lc_swag-4e70ced5 224 224 bicubic
vit_b_32 IMAGENET1K_V1 vit_b_32-d86f8d99 256 224 bilinear
vit_h_14 IMAGENET1K_SWAG_E2E_V1 vit_h_14_swag-80465313 518 518 bicubic
vit_h_14 IMAGENET1K_SWAG_LINEAR_V1 vit_h_14_lc_swag-c1eb923e 224 224 bicubic
vit_l_16 IMAGENET1K_V1 vit_l_16-852ce7e3 242 224 bilinear
vit_l_16 IMAGENET1K_SWAG_E2E_V1 vit_l_16_swag-4f3808c9 512 512 bicubic
vit_l_16 IMAGENET1K_SWAG_LINEAR_V1 vit_l_16_lc_swag-4d563306 224 224 bicubic
vit_l_32 IMAGENET1K_V1 vit_l_32-c7638314 256 224 bilinear
wide_resnet101_2 IMAGENET1K_V1 wide_resnet101_2-32ee1156 256 224 bilinear
wide_resnet101_2 IMAGENET1K_V2 wide_resnet101_2-d733dc28 232 224 bilinear
wide_resnet50_2 IMAGENET1K_V1 wide_resnet50_2-95faca4d 256 224 bilinear
wide_resnet50_2 IMAGENET1K_V2 wide_resnet50_2-9ba9bcbe 232 224 bilinear
"""
