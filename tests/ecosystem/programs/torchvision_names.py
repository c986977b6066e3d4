"""torchvision: what the steps of networks are called, for features by name; features of a Swin."""

import warnings

import torch
import torchvision.models as models
from common import fill, picture, say
from torchvision.models.feature_extraction import create_feature_extractor, get_graph_node_names

warnings.simplefilter("ignore")
found = []
small = {
    "vit": models.VisionTransformer(32, 8, 2, 2, 16, 32),
    "swin": models.SwinTransformer([4, 4], 8, [1, 2], [2, 2], [2, 2]),
}
for name in (
    "mobilenet_v2",
    "shufflenet_v2_x0_5",
    "squeezenet1_1",
    "mobilenet_v3_small",
    "efficientnet_b0",
    "resnet18",
    "mnasnet0_5",
    "regnet_y_400mf",
    "densenet121",
):
    small[name] = models.get_model(name, weights=None)
for net in small.values():
    for names in get_graph_node_names(net):
        found += [
            len(names),
            sum((place + 1) * sum(each.encode()) for place, each in enumerate(names)) % 1000003,
        ]
for name, wanted in (("swin", {"features.1": "low", "features.3.1.attn.shifted_window_attention": "high"}), ("mobilenet_v2", ["features.3.conv", "features.10.add"]),
                     ("vit", ["encoder.layers.encoder_layer_0.mlp", "getitem_5"])):  # fmt: skip
    net = fill(small[name]).eval()
    x = picture(2, 3, 32, 32)
    for value in create_feature_extractor(net, wanted)(x).values():
        found += [*value.shape, value.abs().sum()]
    found.append(net(x).sum())
say(*found)
