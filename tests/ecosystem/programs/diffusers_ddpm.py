"""diffusers: a UNet2D trained on noise with EMA, DDPM and other pipelines, files, UNets of one dimension and of conditions."""

import tempfile

import torch
from common import fill, picture, say
from diffusers import (
    AutoencoderTiny,
    ControlNetModel,
    DDIMPipeline,
    DDIMScheduler,
    DDPMPipeline,
    DDPMScheduler,
    DiTTransformer2DModel,
    FlowMatchEulerDiscreteScheduler,
    PixArtTransformer2DModel,
    UNet1DModel,
    UNet2DConditionModel,
    UNet2DModel,
    VQModel,
)
from diffusers.optimization import get_scheduler
from diffusers.training_utils import EMAModel, compute_snr

found = []
sizes = {"sample_size": 8, "in_channels": 3, "out_channels": 3, "layers_per_block": 1, "block_out_channels": (8, 16), "norm_num_groups": 4,
         "down_block_types": ("DownBlock2D", "AttnDownBlock2D"), "up_block_types": ("AttnUpBlock2D", "UpBlock2D"), "attention_head_dim": 8}  # fmt: skip
net = fill(UNet2DModel(**sizes))
noising = DDPMScheduler(
    num_train_timesteps=50, beta_schedule="squaredcos_cap_v2", prediction_type="v_prediction"
)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
plan = get_scheduler("cosine", optimizer, num_warmup_steps=1, num_training_steps=4)
mean = EMAModel(net.parameters(), decay=0.9, use_ema_warmup=True)
clean, noise, times = picture(2, 3, 8, 8), picture(2, 3, 8, 8).flip(-1), torch.tensor([3, 40])
for _ in range(4):
    noisy = noising.add_noise(clean, noise, times)
    aim = noising.get_velocity(clean, noise, times)
    weights = (
        compute_snr(noising, times).clamp(max=5) / (compute_snr(noising, times) + 1)
    ).reshape(-1, 1, 1, 1)
    loss = (weights * (net(noisy, times).sample - aim).square()).mean()
    loss.backward()
    optimizer.step()
    plan.step()
    optimizer.zero_grad()
    mean.step(net.parameters())
    found.append(loss)
mean.copy_to(net.parameters())
net.eval()
with tempfile.TemporaryDirectory() as folder:
    DDPMPipeline(net, noising).save_pretrained(folder)
    again = DDIMPipeline.from_pretrained(folder)
    again.scheduler = DDIMScheduler.from_config(again.scheduler.config)
    again.set_progress_bar_config(disable=True)
    x = picture(1, 3, 8, 8)
    again.scheduler.set_timesteps(5)
    with torch.no_grad():
        for time in again.scheduler.timesteps:
            x = again.scheduler.step(again.unet(x, time).sample, time, x, eta=0.0).prev_sample
    found += [x.sum(), x.abs().sum()]
    pictures = again(
        batch_size=2,
        num_inference_steps=2,
        generator=torch.Generator().manual_seed(0),
        output_type="np",
    ).images
    found += [*pictures.shape, ((pictures >= 0) & (pictures <= 1)).all()]
line = fill(
    UNet1DModel(
        sample_size=32,
        in_channels=2,
        out_channels=2,
        block_out_channels=(32, 32, 64),
        extra_in_channels=64,
    )
).eval()
found.append(line(picture(1, 2, 32), torch.tensor([3])).sample.abs().sum())
told = {"sample_size": 8, "block_out_channels": (8, 16), "layers_per_block": 1, "cross_attention_dim": 12, "attention_head_dim": 4, "norm_num_groups": 4,
        "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D")}  # fmt: skip
guided = fill(
    UNet2DConditionModel(
        **told, in_channels=4, out_channels=4, up_block_types=("UpBlock2D", "CrossAttnUpBlock2D")
    )
)
guide = fill(
    ControlNetModel(
        **{k: v for k, v in told.items() if k != "sample_size"},
        in_channels=4,
        conditioning_embedding_out_channels=(4, 8),
    )
)
latent, words = picture(2, 4, 8, 8), picture(2, 5, 12)
optimizer = torch.optim.SGD([*guide.parameters(), *guided.parameters()], lr=0.01)
for _ in range(2):
    down, middle = guide(latent, 7, words, controlnet_cond=picture(2, 3, 16, 16), return_dict=False)
    out = guided(
        latent, 7, words, down_block_additional_residuals=down, mid_block_additional_residual=middle
    ).sample
    loss = (out - latent).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    found.append(loss)
flow = FlowMatchEulerDiscreteScheduler(shift=3.0)
flow.set_timesteps(4)
x = picture(1, 4, 4, 4)
dit = fill(
    DiTTransformer2DModel(
        num_attention_heads=2,
        attention_head_dim=8,
        in_channels=4,
        num_layers=2,
        sample_size=4,
        norm_num_groups=4,
    )
).eval()
with torch.no_grad():
    for time in flow.timesteps:
        x = flow.step(
            dit(x, time[None].expand(1), class_labels=torch.tensor([1])).sample, time, x
        ).prev_sample
found.append(x.abs().sum())
art = fill(PixArtTransformer2DModel(num_attention_heads=2, attention_head_dim=8, in_channels=4, out_channels=4, num_layers=1, sample_size=8, cross_attention_dim=16,
                                    caption_channels=12, use_additional_conditions=False, norm_num_groups=4)).eval()  # fmt: skip
found.append(art(picture(1, 4, 8, 8), words[:1], timestep=torch.tensor([3])).sample.abs().sum())
tiny = fill(
    AutoencoderTiny(
        encoder_block_out_channels=(8, 8),
        decoder_block_out_channels=(8, 8),
        num_encoder_blocks=(1, 1),
        num_decoder_blocks=(1, 1),
    )
).eval()
found.append(tiny(picture(1, 3, 16, 16)).sample.abs().sum())
code = fill(
    VQModel(block_out_channels=(8,), norm_num_groups=4, num_vq_embeddings=16, latent_channels=3)
).eval()
found.append(code(picture(1, 3, 8, 8)).sample.abs().sum())
say(*found)
