"""Libraries around networks of pictures: distances, maps, attacks, views, diffusion."""

import lpips
import torch
import torch.nn.functional as F
import torchattacks
import ttach
from common import fill, picture, say, train
from denoising_diffusion_pytorch import GaussianDiffusion, Unet
from efficientnet_pytorch import EfficientNet
from pytorch_grad_cam import GradCAM, GradCAMPlusPlus, LayerCAM
from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget
from pytorch_msssim import ms_ssim, ssim
from torch import nn

found = []
distance = fill(lpips.LPIPS(net="alex", pretrained=False, pnet_rand=True, verbose=False)).eval()
left = picture(1, 3, 64, 64).requires_grad_()
distance(left, picture(1, 3, 64, 64).flip(3)).sum().backward()
found.append(left.grad.abs().sum())
shown = ((picture(1, 3, 176, 176) + 1) / 2).requires_grad_()
likeness = ssim(shown, shown.detach() * 0.9, data_range=1.0)
likeness = likeness + ms_ssim(shown, shown.detach() * 0.9, data_range=1.0)
likeness.backward()
found += [likeness.detach(), shown.grad.abs().sum()]
net = nn.Sequential(
    nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2),
    nn.Flatten(), nn.Linear(16, 3),
)  # fmt: skip
fill(net).eval()
for kind in (GradCAM, GradCAMPlusPlus, LayerCAM):
    with kind(model=net, target_layers=[net[2]]) as maps:
        aim = [ClassifierOutputTarget(1)]
        found.append(maps(input_tensor=picture(1, 3, 16, 16), targets=aim).sum())
pixels, labels = (picture(3, 3, 16, 16) + 1) / 2, torch.tensor([0, 1, 2])
for attack in (
    torchattacks.FGSM(net, eps=8 / 255),
    torchattacks.PGD(net, steps=3, random_start=False),
    torchattacks.MIFGSM(net, steps=3),
    torchattacks.CW(net, steps=5),
):
    found.append(attack(pixels, labels).sum())
views = ttach.ClassificationTTAWrapper(net, ttach.aliases.d4_transform(), merge_mode="mean")
found.append(views(picture(2, 3, 16, 16)).sum().detach())
scaled = fill(EfficientNet.from_name("efficientnet-b0", num_classes=3, image_size=64)).eval()
found += train(
    scaled, lambda: F.cross_entropy(scaled(picture(2, 3, 64, 64)), labels[:2]), steps=1, lr=1e-3
)
cleaner = fill(Unet(dim=8, dim_mults=(1, 2), flash_attn=False))
process = GaussianDiffusion(cleaner, image_size=16, timesteps=10)
noise, steps = picture(2, 3, 16, 16) * 0.5, torch.tensor([3, 7])
clear = process.normalize((picture(2, 3, 16, 16) + 1) / 2)
found += train(cleaner, lambda: process.p_losses(clear, steps, noise=noise), steps=2, lr=0.01)
say(*found)
