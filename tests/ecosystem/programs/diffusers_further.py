"""diffusers: further networks, autoencoders, plans, adapters and pipelines."""

import tempfile

import diffusers as df
import torch
import torch.nn.functional as F
from common import fill, parts, picture, train

x, t = picture(2, 4, 8, 8), torch.tensor([3, 15])


def plans():
    """Plans of steps that no chance enters."""
    found = []
    for plan in (
        df.DEISMultistepScheduler(num_train_timesteps=50),
        df.KDPM2DiscreteScheduler(num_train_timesteps=50),
        df.DPMSolverSinglestepScheduler(num_train_timesteps=50),
        df.IPNDMScheduler(num_train_timesteps=50),
        df.EDMEulerScheduler(num_train_timesteps=50),
        df.EDMDPMSolverMultistepScheduler(num_train_timesteps=50),
        df.FlowMatchHeunDiscreteScheduler(num_train_timesteps=50),
        df.DDIMInverseScheduler(num_train_timesteps=50),
        df.CogVideoXDDIMScheduler(num_train_timesteps=50),
        df.EulerDiscreteScheduler(
            num_train_timesteps=50, use_karras_sigmas=True, timestep_spacing="trailing"
        ),
        df.DPMSolverMultistepScheduler(
            num_train_timesteps=50,
            algorithm_type="dpmsolver",
            final_sigmas_type="sigma_min",
            solver_order=3,
            use_exponential_sigmas=True,
        ),
        df.UniPCMultistepScheduler(
            num_train_timesteps=50,
            use_beta_sigmas=False,
            solver_type="bh1",
            prediction_type="v_prediction",
        ),
        df.DDIMScheduler(
            num_train_timesteps=50,
            rescale_betas_zero_snr=True,
            beta_schedule="scaled_linear",
            thresholding=True,
        ),
        df.LMSDiscreteScheduler(num_train_timesteps=50, use_karras_sigmas=True),
    ):
        plan.set_timesteps(5)
        y = picture(1, 3, 4, 4)
        for step in plan.timesteps:
            given = plan.scale_model_input(y, step) if hasattr(plan, "scale_model_input") else y
            y = plan.step(given * 0.3, step, y, return_dict=False)[0]
        found += [[float(s) for s in plan.timesteps], y]
    return found


def chance():
    """Plans that draw: what of them is sure."""
    found = []
    for plan in (
        df.LCMScheduler(),
        df.TCDScheduler(),
        df.KDPM2AncestralDiscreteScheduler(),
        df.DDPMParallelScheduler(),
    ):
        plan.set_timesteps(4)
        found.append([float(s) for s in plan.timesteps])
        if hasattr(plan, "alphas_cumprod"):
            found.append(plan.alphas_cumprod)
    noisy = df.DDPMScheduler().add_noise(x, x.cos(), t)
    return [*found, noisy]


def attended():
    """Networks that attend to words: with class labels, text and time; 3D; in one dimension."""
    found = []
    net = fill(df.UNet2DConditionModel(
        sample_size=8, in_channels=4, out_channels=4, layers_per_block=1, block_out_channels=(8, 16), norm_num_groups=4, cross_attention_dim=12,
        attention_head_dim=(2, 4), addition_embed_type="text_time", addition_time_embed_dim=4, projection_class_embeddings_input_dim=36,
        transformer_layers_per_block=(1, 2), use_linear_projection=True,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D")))  # fmt: skip
    added = {"text_embeds": picture(2, 12), "time_ids": torch.arange(12).reshape(2, 6)}
    words = picture(2, 5, 12)
    found += train(
        net,
        lambda: F.mse_loss(
            net(x, t, encoder_hidden_states=words, added_cond_kwargs=added).sample, x.cos()
        ),
        steps=2,
        lr=0.01,
    )
    net.enable_gradient_checkpointing()
    found += train(
        net,
        lambda: F.mse_loss(
            net(x, t, encoder_hidden_states=words, added_cond_kwargs=added).sample, x.cos()
        ),
        steps=1,
        lr=0.01,
    )
    video = fill(df.UNet3DConditionModel(
        sample_size=8, in_channels=4, out_channels=4, layers_per_block=1, block_out_channels=(8, 16), norm_num_groups=4, cross_attention_dim=12, attention_head_dim=4,
        down_block_types=("CrossAttnDownBlock3D", "DownBlock3D"), up_block_types=("UpBlock3D", "CrossAttnUpBlock3D"))).eval()  # fmt: skip
    found.append(video(picture(1, 4, 2, 8, 8), t[:1], encoder_hidden_states=words[:1]).sample)
    line = fill(df.UNet1DModel(
        sample_size=16, in_channels=2, out_channels=2, extra_in_channels=64, block_out_channels=(32, 32),
        down_block_types=("DownBlock1DNoSkip", "AttnDownBlock1D"), up_block_types=("AttnUpBlock1D", "UpBlock1DNoSkip"))).eval()  # fmt: skip
    found.append(line(picture(2, 2, 16), t).sample)
    return found


def transformers():
    """Transformers of pictures: PixArt, SD3, Flux, Lumina, Aura."""
    found = []
    sd3 = fill(df.SD3Transformer2DModel(
        sample_size=8, patch_size=2, in_channels=4, num_layers=2, attention_head_dim=8, num_attention_heads=2, joint_attention_dim=12,
        caption_projection_dim=16, pooled_projection_dim=10, out_channels=4, pos_embed_max_size=8)).eval()  # fmt: skip
    found.append(
        sd3(
            x,
            encoder_hidden_states=picture(2, 5, 12),
            pooled_projections=picture(2, 10),
            timestep=t,
        ).sample
    )
    pix = fill(df.PixArtTransformer2DModel(
        num_attention_heads=2, attention_head_dim=8, in_channels=4, out_channels=8, num_layers=1, cross_attention_dim=16, sample_size=8, patch_size=2,
        caption_channels=12, norm_elementwise_affine=False, norm_eps=1e-6, use_additional_conditions=False)).eval()  # fmt: skip
    found.append(
        pix(
            x,
            encoder_hidden_states=picture(2, 5, 12),
            timestep=t,
            added_cond_kwargs={"resolution": None, "aspect_ratio": None},
        ).sample
    )
    flux = fill(df.FluxTransformer2DModel(
        patch_size=1, in_channels=4, num_layers=1, num_single_layers=1, attention_head_dim=16, num_attention_heads=2, joint_attention_dim=12,
        pooled_projection_dim=10, axes_dims_rope=[4, 4, 8], guidance_embeds=True)).eval()  # fmt: skip
    places = torch.zeros(16, 3)
    places[:, 1], places[:, 2] = torch.arange(16) // 4, torch.arange(16) % 4
    found.append(
        flux(
            picture(2, 16, 4),
            picture(2, 5, 12),
            picture(2, 10),
            torch.tensor([0.3, 0.7]),
            places,
            torch.zeros(5, 3),
            torch.tensor([3.0, 3.0]),
        ).sample
    )
    aura = fill(df.AuraFlowTransformer2DModel(
        sample_size=8, patch_size=2, in_channels=4, num_mmdit_layers=1, num_single_dit_layers=1, attention_head_dim=8, num_attention_heads=2,
        caption_projection_dim=16, joint_attention_dim=12, out_channels=4, pos_embed_max_size=16)).eval()  # fmt: skip
    found.append(aura(x, picture(2, 5, 12), t.float() / 20).sample)
    plain = fill(
        df.Transformer2DModel(
            num_attention_heads=2,
            attention_head_dim=8,
            in_channels=4,
            num_layers=1,
            norm_num_groups=4,
            cross_attention_dim=12,
        )
    ).eval()
    found.append(plain(x, encoder_hidden_states=picture(2, 5, 12)).sample)
    prior = fill(
        df.PriorTransformer(
            num_attention_heads=2,
            attention_head_dim=8,
            num_layers=1,
            embedding_dim=12,
            num_embeddings=5,
            additional_embeddings=4,
        )
    ).eval()
    found.append(
        prior(
            picture(2, 12),
            t,
            proj_embedding=picture(2, 12),
            encoder_hidden_states=picture(2, 5, 12),
        ).predicted_image_embedding
    )
    return found


def coders():
    """Autoencoders: tiny, asymmetric, of videos, tiled, sliced."""
    found = []
    pixels = picture(2, 3, 16, 16)
    tiny = fill(
        df.AutoencoderTiny(
            encoder_block_out_channels=(8, 8),
            decoder_block_out_channels=(8, 8),
            num_encoder_blocks=(1, 1),
            num_decoder_blocks=(1, 1),
        )
    )
    found += train(tiny, lambda: F.mse_loss(tiny(pixels).sample, pixels), steps=2, lr=0.01)
    lopsided = fill(df.AsymmetricAutoencoderKL(
        down_block_types=("DownEncoderBlock2D",), down_block_out_channels=(8,), up_block_types=("UpDecoderBlock2D",), up_block_out_channels=(8,),
        layers_per_down_block=1, layers_per_up_block=1, norm_num_groups=4, latent_channels=2)).eval()  # fmt: skip
    found.append(lopsided(pixels).sample)
    plain = fill(df.AutoencoderKL(block_out_channels=(8, 16), norm_num_groups=4, sample_size=16, latent_channels=2,
        down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2)).eval()  # fmt: skip
    with torch.no_grad():
        plain.enable_slicing()
        found.append(plain.decode(plain.encode(pixels).latent_dist.mode()).sample)
        plain.enable_tiling()
        found.append(plain.decode(plain.encode(picture(1, 3, 32, 32)).latent_dist.mode()).sample)
    moving = fill(
        df.AutoencoderKLTemporalDecoder(block_out_channels=(32,), latent_channels=2, sample_size=8)
    ).eval()
    found.append(moving.decode(picture(2, 2, 4, 4), num_frames=2).sample)
    return found


def guided():
    """A ControlNet beside its network; T2I adapters; weights by LoRA; freed frequencies."""
    shape = dict(in_channels=4, layers_per_block=1, block_out_channels=(8, 16), norm_num_groups=4, cross_attention_dim=12, attention_head_dim=4,
                 down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"))  # fmt: skip
    net = fill(
        df.UNet2DConditionModel(
            sample_size=8,
            out_channels=4,
            up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
            **shape,
        )
    ).eval()
    words = picture(2, 5, 12)
    control = fill(df.ControlNetModel(conditioning_embedding_out_channels=(4, 8), **shape))
    down, mid = control(
        x, t, encoder_hidden_states=words, controlnet_cond=picture(2, 3, 16, 16), return_dict=False
    )
    found = [
        net(
            x,
            t,
            encoder_hidden_states=words,
            down_block_additional_residuals=down,
            mid_block_additional_residual=mid,
        ).sample
    ]
    adapter = fill(
        df.T2IAdapter(
            in_channels=3,
            channels=[8, 16],
            num_res_blocks=1,
            downscale_factor=2,
            adapter_type="full_adapter",
        )
    )
    found += adapter(picture(2, 3, 16, 16))
    from peft import LoraConfig

    net.add_adapter(LoraConfig(r=2, target_modules=["to_q", "to_v"], init_lora_weights=True))
    for place, value in enumerate(p for p in net.parameters() if p.requires_grad):
        with torch.no_grad():
            value.copy_(
                (torch.sin(torch.arange(value.numel()) * 0.5 + place) * 0.1).reshape(value.shape)
            )
    found += train(
        net, lambda: F.mse_loss(net(x, t, encoder_hidden_states=words).sample, x.cos()), steps=2
    )
    net.disable_adapters()
    found.append(net(x, t, encoder_hidden_states=words).sample)
    net.enable_freeu(0.9, 0.2, 1.2, 1.4)
    found.append(net(x, t, encoder_hidden_states=words).sample)
    return found


def files():
    """Networks in files and back, by parts and in other types."""
    net = fill(df.UNet2DModel(sample_size=8, layers_per_block=1, block_out_channels=(8, 16), norm_num_groups=4,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"))).eval()  # fmt: skip
    given = picture(1, 3, 8, 8)
    with tempfile.TemporaryDirectory() as folder:
        net.save_pretrained(folder, max_shard_size="20KB")
        again = df.UNet2DModel.from_pretrained(folder).eval()
        half = df.UNet2DModel.from_pretrained(folder, torch_dtype=torch.bfloat16)
        plan = df.DDIMScheduler(num_train_timesteps=50)
        paint = df.DDIMPipeline(net, plan)
        paint.save_pretrained(folder + "/whole")
        back = df.DDIMPipeline.from_pretrained(folder + "/whole")
        back.set_progress_bar_config(disable=True)
        size = back(
            num_inference_steps=2, generator=torch.Generator().manual_seed(0), output_type="np"
        ).images.shape
    return [again(given, 3).sample, half.dtype == torch.bfloat16, list(size), net.num_parameters()]


parts(plans, chance, attended, transformers, coders, guided, files)
