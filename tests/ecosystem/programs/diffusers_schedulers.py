import torch
from common import fill, picture, say, train
from diffusers import (
    AutoencoderKL,
    DDIMScheduler,
    DDPMScheduler,
    DPMSolverMultistepScheduler,
    EulerAncestralDiscreteScheduler,
    EulerDiscreteScheduler,
    FlowMatchEulerDiscreteScheduler,
    HeunDiscreteScheduler,
    LMSDiscreteScheduler,
    PNDMScheduler,
    UniPCMultistepScheduler,
    UNet2DConditionModel,
    VQModel,
)
from diffusers.training_utils import EMAModel

found = []
for kind in (
    DDIMScheduler, DDPMScheduler, DPMSolverMultistepScheduler, EulerDiscreteScheduler,
    HeunDiscreteScheduler, LMSDiscreteScheduler, PNDMScheduler, UniPCMultistepScheduler,
    FlowMatchEulerDiscreteScheduler,
):  # fmt: skip
    plan = kind(num_train_timesteps=50)
    plan.set_timesteps(5)
    found += [float(t) for t in plan.timesteps]
    x = picture(1, 3, 4, 4)
    for t in plan.timesteps:
        if hasattr(plan, "scale_model_input"):
            x = plan.scale_model_input(x, t)
        if kind is DDPMScheduler and int(t) > 0:
            continue  # draws
        x = plan.step(x * 0.3, t, x).prev_sample
    found += [x.sum(), x.square().sum()]
plan = DDPMScheduler(
    num_train_timesteps=20, beta_schedule="squaredcos_cap_v2", prediction_type="v_prediction"
)
x, noise, t = picture(2, 4, 8, 8), picture(2, 4, 8, 8).cos(), torch.tensor([3, 15])
noisy, aim = plan.add_noise(x, noise, t), plan.get_velocity(x, noise, t)
net = fill(
    UNet2DConditionModel(
        sample_size=8, in_channels=4, out_channels=4, layers_per_block=1, block_out_channels=(8, 16),
        norm_num_groups=4, cross_attention_dim=12, attention_head_dim=4,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
    )
)  # fmt: skip
text = picture(2, 5, 12)
average = EMAModel(net.parameters(), decay=0.9)
mse = torch.nn.functional.mse_loss
found += train(net, lambda: mse(net(noisy, t, encoder_hidden_states=text).sample, aim), lr=0.01)
average.step(net.parameters())
average.copy_to(net.parameters())
found.append(net(noisy, t, encoder_hidden_states=text).sample.sum())
coder = fill(AutoencoderKL(block_out_channels=(8, 16), norm_num_groups=4, sample_size=8, latent_channels=2,
    down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2))  # fmt: skip
pixels = picture(2, 3, 16, 16)


def loss():
    """Reconstruction and divergence."""
    hidden = coder.encode(pixels).latent_dist
    return mse(coder.decode(hidden.mode()).sample, pixels) + 1e-3 * hidden.kl().mean()


found += train(coder, loss, lr=0.01)
words = fill(
    VQModel(block_out_channels=(8,), norm_num_groups=4, latent_channels=2, num_vq_embeddings=16)
)
found.append(words(pixels).sample.sum())
ancestral = EulerAncestralDiscreteScheduler()
ancestral.set_timesteps(3)
found += [float(s) for s in ancestral.sigmas]
say(*found)
