import torch
from common import fill, picture, say, train
from diffusers import DDPMScheduler, UNet2DModel

model = fill(
    UNet2DModel(
        sample_size=8,
        in_channels=1,
        out_channels=1,
        layers_per_block=1,
        block_out_channels=(8, 16),
        norm_num_groups=4,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )
)
x, noise, t = picture(2, 1, 8, 8), picture(2, 1, 8, 8) * 0.5, torch.tensor([3, 7])
noisy = DDPMScheduler(num_train_timesteps=10).add_noise(x, noise, t)
say(*train(model, lambda: torch.nn.functional.mse_loss(model(noisy, t).sample, noise)))
