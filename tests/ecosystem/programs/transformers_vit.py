import torch
from common import fill, picture, say, train
from transformers import ViTConfig, ViTForImageClassification

model = fill(
    ViTForImageClassification(
        ViTConfig(
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=32,
            image_size=16,
            patch_size=4,
            num_labels=3,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
    )
)
x, y = picture(2, 3, 16, 16), torch.tensor([0, 2])
say(*train(model, lambda: model(pixel_values=x, labels=y).loss))
