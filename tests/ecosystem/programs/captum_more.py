import torch
from captum.attr import (
    DeepLift,
    DeepLiftShap,
    FeatureAblation,
    FeaturePermutation,
    GradientShap,
    GuidedBackprop,
    GuidedGradCam,
    InputXGradient,
    IntegratedGradients,
    KernelShap,
    LayerActivation,
    LayerConductance,
    LayerGradCam,
    LayerGradientXActivation,
    LayerIntegratedGradients,
    Lime,
    LRP,
    NeuronGradient,
    NoiseTunnel,
    Occlusion,
    Saliency,
    ShapleyValueSampling,
)
from common import fill, picture, say


class Net(torch.nn.Module):
    """A small convolutional network with modules for all its steps."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 3, 3)
        self.relu = torch.nn.ReLU()
        self.pool = torch.nn.MaxPool2d(2)
        self.last = torch.nn.Linear(27, 3)

    def forward(self, x):
        return self.last(self.pool(self.relu(self.conv(x))).flatten(1))


net = fill(Net()).eval()
x, zero = picture(2, 1, 8, 8), torch.zeros(2, 1, 8, 8)
found = []


def tell(given):
    """Two numbers of an attribution."""
    found.extend([given.sum(), given.abs().sum()])


gauss, delta = IntegratedGradients(net).attribute(
    x, zero, target=1, n_steps=16, method="gausslegendre", return_convergence_delta=True
)
tell(gauss)
tell(delta)
tell(DeepLift(net).attribute(x, zero, target=1))
tell(DeepLiftShap(net).attribute(x, torch.cat([zero, zero + 0.1]), target=1))
tell(GuidedBackprop(net).attribute(x, target=[0, 1]))
tell(GuidedGradCam(net, net.conv).attribute(x, target=1))
tell(InputXGradient(net).attribute(x, target=2))
tell(FeatureAblation(net).attribute(x, target=1, feature_mask=torch.arange(64).reshape(8, 8) // 16))
tell(Occlusion(net).attribute(x, sliding_window_shapes=(1, 3, 3), strides=(1, 2, 2), target=1))
tell(LRP(net).attribute(x, target=1))
tell(LayerActivation(net, net.conv).attribute(x))
tell(LayerConductance(net, net.conv).attribute(x, zero, target=1, n_steps=8))
tell(LayerGradCam(net, net.conv).attribute(x, target=1))
tell(LayerGradientXActivation(net, net.pool).attribute(x, target=1))
tell(LayerIntegratedGradients(net, net.conv).attribute(x, zero, target=1, n_steps=8))
tell(NeuronGradient(net, net.conv).attribute(x, neuron_selector=(1, 2, 2)))
tell(
    NoiseTunnel(Saliency(net)).attribute(
        x, nt_type="smoothgrad", stdevs=0.0, nt_samples=3, target=1
    )
)
found += [*GradientShap(net).attribute(x, zero, target=1, n_samples=2).shape]
few = fill(torch.nn.Linear(3, 2))
tell(ShapleyValueSampling(few).attribute(picture(2, 3), target=1, n_samples=5))
found += [*KernelShap(few).attribute(picture(1, 3), target=1, n_samples=30).shape]
found += [*Lime(few).attribute(picture(1, 3), target=1, n_samples=30).shape]
found += [*FeaturePermutation(few).attribute(picture(4, 3), target=1).shape]
say(*found)
