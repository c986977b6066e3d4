import torch
from common import fill, picture, say
from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg

net = fill(
    CLIP(
        embed_dim=8,
        vision_cfg=CLIPVisionCfg(layers=1, width=64, head_width=32, image_size=16, patch_size=8),
        text_cfg=CLIPTextCfg(context_length=8, vocab_size=30, width=16, heads=2, layers=1),
    )
)
image, text, scale = net(picture(2, 3, 16, 16), torch.arange(16).reshape(2, 8) % 30)[:3]
loss = torch.nn.functional.cross_entropy(image @ text.T * 5, torch.arange(2))
loss.backward()
say(loss, sum(p.grad.abs().sum() for p in net.parameters() if p.grad is not None))
