import tempfile

import torch
from common import fill, picture, say
from diffusers import (
    AutoencoderKL,
    DDPMPipeline,
    DDPMScheduler,
    DiTTransformer2DModel,
    DPMSolverMultistepScheduler,
    EulerDiscreteScheduler,
    PNDMScheduler,
    StableDiffusionPipeline,
    UNet2DConditionModel,
    UNet2DModel,
)
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import CLIPTextConfig, CLIPTextModel, PreTrainedTokenizerFast

words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"a cat on the mat".split()]
inner = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
inner.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=inner, unk_token="[UNK]", pad_token="[PAD]", model_max_length=8
)
text = fill(
    CLIPTextModel(
        CLIPTextConfig(
            vocab_size=len(words), hidden_size=12, intermediate_size=24, num_hidden_layers=1,
            num_attention_heads=2, max_position_embeddings=8, eos_token_id=3, bos_token_id=2,
        )
    )
).eval()  # fmt: skip
net = fill(
    UNet2DConditionModel(
        sample_size=8, in_channels=4, out_channels=4, layers_per_block=1, block_out_channels=(8, 16),
        norm_num_groups=4, cross_attention_dim=12, attention_head_dim=4,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
    )
).eval()  # fmt: skip
coder = fill(AutoencoderKL(block_out_channels=(8,), norm_num_groups=4, sample_size=8)).eval()
found = []
for plan in (
    PNDMScheduler(skip_prk_steps=True),
    EulerDiscreteScheduler(),
    DPMSolverMultistepScheduler(),
):
    paint = StableDiffusionPipeline(
        vae=coder, text_encoder=text, tokenizer=tokenizer, unet=net, scheduler=plan,
        safety_checker=None, feature_extractor=None, requires_safety_checker=False,
    )  # fmt: skip
    paint.set_progress_bar_config(disable=True)
    image = paint(
        "a cat on the mat", num_inference_steps=3, guidance_scale=5.0, output_type="np",
        latents=picture(1, 4, 8, 8), negative_prompt="the cat",
    ).images  # fmt: skip
    found += [float(image.mean()), float(image.std()), *image.shape]
with tempfile.TemporaryDirectory() as folder:
    paint.save_pretrained(folder)
    again = StableDiffusionPipeline.from_pretrained(folder)
    again.set_progress_bar_config(disable=True)
    image = again(
        "the mat", num_inference_steps=2, output_type="pt", latents=picture(1, 4, 8, 8)
    ).images
    found += [image.mean(), image.std()]
plain = fill(
    UNet2DModel(
        sample_size=8, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(8, 16),
        norm_num_groups=4, down_block_types=("DownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "UpBlock2D"),
    )
)  # fmt: skip
draw = DDPMPipeline(plain, DDPMScheduler(num_train_timesteps=10))
draw.set_progress_bar_config(disable=True)
made = draw(batch_size=2, num_inference_steps=2, generator=torch.Generator().manual_seed(0)).images
found += [len(made), *made[0].size]
transformer = fill(
    DiTTransformer2DModel(
        num_attention_heads=2, attention_head_dim=8, in_channels=4, num_layers=1, sample_size=8,
        patch_size=2, num_embeds_ada_norm=50, norm_num_groups=4,
    )
).eval()  # fmt: skip
hidden = transformer(
    picture(2, 4, 8, 8), timestep=torch.tensor([3, 4]), class_labels=torch.tensor([1, 2])
).sample
say(*found, hidden.sum())
