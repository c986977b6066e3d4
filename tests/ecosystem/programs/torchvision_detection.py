"""Detectors in one stage and features by name, in torchvision's own shapes."""

import numpy as np
import torch
import torchvision
from common import flat, picture, say
from torchvision.models.feature_extraction import create_feature_extractor, get_graph_node_names

rng = np.random.default_rng(0)


def filled(model):
    """Weights of a generator that both sides have."""
    with torch.no_grad():
        for value in model.parameters():
            fan = max(1, int(np.prod(value.shape[1:])))
            drawn = rng.normal(size=tuple(value.shape)) / np.sqrt(fan)
            shift = 1.0 if value.ndim == 1 else 0.0
            value.copy_(torch.tensor(drawn * 0.5 + shift, dtype=torch.float32))
    return model


found = []
target = [{"boxes": torch.tensor([[10.0, 12.0, 40.0, 44.0]]), "labels": torch.tensor([1])}]
image = [(picture(3, 64, 64) + 1) / 2]
for name, options in (
    ("fcos_resnet50_fpn", {"min_size": 64, "max_size": 64}),
    ("ssd300_vgg16", {}),
    ("ssdlite320_mobilenet_v3_large", {}),
    ("retinanet_resnet50_fpn", {"min_size": 64, "max_size": 64}),
):
    make = torchvision.models.get_model_builder(name)
    model = filled(make(weights=None, weights_backbone=None, num_classes=3, **options)).eval()
    found.append(len(model.state_dict()))
    with torch.no_grad():
        features = model.backbone(model.transform(image)[0].tensors)
        found += flat({k: v.abs().mean() for k, v in model.head(list(features.values())).items()})
    found += [len(model.anchor_generator.num_anchors_per_location())]
net = filled(torchvision.models.resnet18(num_classes=3)).eval()
names = get_graph_node_names(net)[1]
found += [len(names), sum(len(name) for name in names)]
parts = create_feature_extractor(net, {"layer1": "early", "layer3.0.conv1": "middle"})
found += flat(parts(picture(2, 3, 64, 64)))
transformer = torchvision.models.VisionTransformer(
    32, 8, 2, 2, 16, 32, num_classes=3, representation_size=6
)
found += flat(filled(transformer)(picture(2, 3, 32, 32)))
say(*found)
