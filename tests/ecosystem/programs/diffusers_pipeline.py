import diffusers.pipelines.ddim.pipeline_ddim
import torch
from common import fill, picture, say
from diffusers import AutoencoderKL, DDIMPipeline, DDIMScheduler, DDPMScheduler, UNet2DModel

net = fill(
    UNet2DModel(
        sample_size=8,
        in_channels=3,
        out_channels=3,
        block_out_channels=(8, 16),
        layers_per_block=1,
        norm_num_groups=4,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )
)
noise = DDPMScheduler(num_train_timesteps=50)
x, drawn, times = picture(2, 3, 8, 8), picture(2, 3, 8, 8).cos(), torch.tensor([3, 30])
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
found = []
for _ in range(3):
    loss = torch.nn.functional.mse_loss(net(noise.add_noise(x, drawn, times), times).sample, drawn)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    found.append(loss.item())
diffusers.pipelines.ddim.pipeline_ddim.randn_tensor = lambda shape, **_: picture(*shape)
pipeline = DDIMPipeline(net, DDIMScheduler(num_train_timesteps=50))
pipeline.set_progress_bar_config(disable=True)
picture_out = pipeline(
    batch_size=1,
    generator=torch.Generator().manual_seed(0),
    num_inference_steps=3,
    output_type="np",
).images
found += [float(picture_out.mean()), float(picture_out.std())]
coder = fill(
    AutoencoderKL(block_out_channels=(8,), norm_num_groups=4, sample_size=8, latent_channels=2)
)
found.append(coder(x).sample.sum().item())
say(*found)
