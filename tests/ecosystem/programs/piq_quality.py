import piq
import torch
from common import picture, say

x, y = (picture(2, 3, 64, 64) + 1) / 2, (picture(2, 3, 64, 64).cos() + 1) / 2
found = [
    piq.psnr(x, y), piq.ssim(x, y), piq.gmsd(x, y), piq.multi_scale_gmsd(x, y), piq.fsim(x, y), piq.vsi(x, y), piq.mdsi(x, y),
    piq.haarpsi(x, y), piq.total_variation(x), piq.srsim(x, y, scale=1), piq.dss(x, y), piq.information_weighted_ssim(x, y, scale_weights=torch.tensor([0.5, 0.5]), kernel_size=5),
    piq.vif_p(x, y), piq.multi_scale_ssim(x, y, kernel_size=3, scale_weights=torch.tensor([0.5, 0.5])),
]  # fmt: skip
image = x.clone().requires_grad_()
loss = piq.SSIMLoss()(image, y) + piq.MDSILoss()(image, y) + piq.VIFLoss()(image, y)
loss.backward()
found += [loss, image.grad.sum(), image.grad.abs().sum()]
features, others = picture(20, 6), picture(20, 6).cos()
found += [piq.FID()(features, others), *piq.PR()(features, others), piq.KID()(features, others)]
say(*found)
