"""captum: layers and neurons, perturbations with fixed masks, attacks, embeddings."""

import torch
from captum.attr import (
    DeepLift,
    FeatureAblation,
    GuidedBackprop,
    GuidedGradCam,
    InputXGradient,
    IntegratedGradients,
    InternalInfluence,
    LayerActivation,
    LayerConductance,
    LayerDeepLift,
    LayerFeatureAblation,
    LayerGradCam,
    LayerIntegratedGradients,
    NeuronConductance,
    NeuronGradient,
    NeuronIntegratedGradients,
    Occlusion,
    Saliency,
    ShapleyValueSampling,
    configure_interpretable_embedding_layer,
    remove_interpretable_embedding_layer,
)
from captum.robust import FGSM, PGD
from common import fill, picture, say
from torch import nn

net = fill(
    nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 4, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16, 8),
        nn.ReLU(),
        nn.Linear(8, 3),
    )
).eval()
x = picture(2, 1, 10, 10)
found = []


def tell(given):
    """Two numbers."""
    for each in given if isinstance(given, tuple) else (given,):
        found.extend([each.sum(), each.abs().sum()])


blocks = torch.arange(100).reshape(1, 1, 10, 10) // 25
tell(IntegratedGradients(net).attribute(x, target=1, n_steps=20, method="riemann_trapezoid"))
values, delta = IntegratedGradients(net).attribute(
    x, x * 0 + 0.1, target=[0, 2], return_convergence_delta=True
)
tell((values, delta))
for kind in (Saliency, InputXGradient, GuidedBackprop, DeepLift):
    tell(kind(net).attribute(x, target=1))
tell(FeatureAblation(net).attribute(x, target=0, feature_mask=blocks, perturbations_per_eval=2))
tell(Occlusion(net).attribute(x, sliding_window_shapes=(1, 3, 3), strides=(1, 3, 3), target=2))
tell(GuidedGradCam(net, net[3]).attribute(x, target=1))
for kind in (
    LayerActivation,
    LayerConductance,
    LayerGradCam,
    LayerIntegratedGradients,
    LayerDeepLift,
    InternalInfluence,
    LayerFeatureAblation,
):
    extra = {} if kind is LayerActivation else {"target": 1}
    tell(kind(net, net[3]).attribute(x, **extra))
for kind in (NeuronConductance, NeuronGradient, NeuronIntegratedGradients):
    extra = {"target": 1} if kind is NeuronConductance else {}
    tell(kind(net, net[6]).attribute(x, 2, **extra))
torch.manual_seed(0)
shares = ShapleyValueSampling(net).attribute(x, target=0, feature_mask=blocks, n_samples=3)
found.append((shares.flatten(1).unique(dim=1).shape[0]))
tell(
    FGSM(net, nn.CrossEntropyLoss(reduction="none"), 0, 1).perturb(
        x.abs(), 0.1, torch.tensor([0, 1])
    )
)
tell(
    PGD(net, nn.CrossEntropyLoss(reduction="none"), 0, 1).perturb(
        x.abs(), 0.1, 0.05, 3, torch.tensor([0, 1])
    )
)
words = fill(nn.Sequential(nn.Embedding(12, 6), nn.Flatten(), nn.Linear(30, 2))).eval()
ids = torch.arange(10).reshape(2, 5)
tell(LayerIntegratedGradients(words, words[0]).attribute(ids, baselines=ids * 0, target=1))
layer = configure_interpretable_embedding_layer(words, "0")
tell(IntegratedGradients(words).attribute(layer.indices_to_embeddings(ids), target=0))
remove_interpretable_embedding_layer(words, layer)
say(*found)
