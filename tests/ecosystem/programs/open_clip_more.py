import lpips
import open_clip
import torch
from common import fill, picture, say
from open_clip.loss import ClipLoss, SigLipLoss
from open_clip.model import CLIP, CustomTextCLIP
from pytorch_msssim import ms_ssim, ssim
from torchvision.models import resnet18

vision = {"image_size": 32, "layers": 1, "width": 64, "patch_size": 8, "head_width": 32}
text = {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1}
words = open_clip.tokenize(["a cat", "the dog ran far away"])
found = [words.sum()]
for kind, loss in ((CLIP, ClipLoss()), (CustomTextCLIP, ClipLoss())):
    model = fill(kind(embed_dim=16, vision_cfg=dict(vision), text_cfg=dict(text)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(2):
        image_vectors, text_vectors, scale = model(picture(2, 3, 32, 32), words)
        value = loss(image_vectors, text_vectors, scale)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        found.append(value.item())
a, b = (
    torch.nn.functional.normalize(picture(4, 8), dim=-1),
    torch.nn.functional.normalize(picture(4, 8).cos(), dim=-1),
)
found.append(SigLipLoss()(a, b, torch.tensor(10.0), torch.tensor(-10.0)))
x, y = (picture(1, 3, 176, 176) + 1) / 2, (picture(1, 3, 176, 176).cos() + 1) / 2
found += [ssim(x, y, data_range=1), ms_ssim(x, y, data_range=1)]
perceptual = fill(
    lpips.LPIPS(net="squeeze", pretrained=False, pnet_rand=True, verbose=False)
).eval()
found += [perceptual(x, y).sum(), resnet18(num_classes=3)(x).shape[1]]
say(*found)
