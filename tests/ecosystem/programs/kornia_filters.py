import kornia
from common import picture, say

x = picture(1, 3, 12, 12).abs().requires_grad_()
y = kornia.filters.gaussian_blur2d(x, (3, 3), (1.0, 1.0))
z = kornia.color.rgb_to_grayscale(y)
e = kornia.filters.sobel(z)
e.sum().backward()
say(y.sum(), z.sum(), e.sum(), x.grad.abs().sum(), kornia.losses.ssim_loss(x, y.detach(), 5))
