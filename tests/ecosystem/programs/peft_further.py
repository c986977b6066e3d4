"""peft's further kinds of adapters, layers of pictures, patterns, mixtures, trained by Trainer, files."""

import tempfile

import peft
import torch
from common import fill, parts, picture, train
from small_transformers import GROUPED, QUIET, WORDS, ids, labels_of_pictures
from torch import nn
from transformers import BertConfig, BertForSequenceClassification, LlamaConfig, LlamaForCausalLM


def base():
    """A small Llama."""
    return fill(LlamaForCausalLM(LlamaConfig(**GROUPED)))


def spread(model):
    """Adapters' weights that no generator drew."""
    for place, value in enumerate(p for p in model.parameters() if p.requires_grad):
        steps = torch.arange(value.numel(), dtype=torch.float32)
        with torch.no_grad():
            value.copy_((torch.sin(steps * 0.53 + place) * 0.1).reshape(value.shape))
    return model


def learn(config, merges=True):
    """Three steps, a file, and the adapter merged."""
    model = spread(peft.get_peft_model(base(), config))
    found = train(model, lambda: model(input_ids=ids, labels=ids).loss, lr=0.1)
    model.eval()
    with torch.no_grad():
        before = model(input_ids=ids).logits
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            again = peft.PeftModel.from_pretrained(base(), folder).eval()
            found.append((again(input_ids=ids).logits - before).abs().max() < 1e-4)
        if merges:
            found.append(
                (model.merge_and_unload()(input_ids=ids).logits - before).abs().max() < 1e-3
            )
    return [found, before]


def lokr():
    """Kronecker products."""
    return learn(peft.LoKrConfig(r=2, alpha=4, target_modules=["q_proj", "v_proj"]))


def oft():
    """Orthogonal turns."""
    return learn(
        peft.OFTConfig(oft_block_size=4, target_modules=["q_proj"], use_cayley_neumann=False)
    )


def hra():
    """Reflections."""
    return learn(peft.HRAConfig(r=2, target_modules=["q_proj"]))


def layer_norms():
    """Norms alone."""
    return learn(peft.LNTuningConfig(target_modules=["input_layernorm"]))


def fourier():
    """Few numbers of a spectrum."""
    return learn(peft.FourierFTConfig(n_frequency=20, target_modules=["q_proj"]))


def bones():
    """Blocks added: MiSS."""
    return learn(peft.MissConfig(r=2, target_modules=["q_proj"]))


def p_tuning():
    """Prompts by an encoder."""
    return learn(
        peft.PromptEncoderConfig(
            task_type="CAUSAL_LM", num_virtual_tokens=3, encoder_hidden_size=8, encoder_dropout=0.0
        ),
        merges=False,
    )


def prefix_projected():
    """Prefixes by a projection."""
    config = peft.PrefixTuningConfig(
        task_type="CAUSAL_LM", num_virtual_tokens=3, prefix_projection=True, encoder_hidden_size=8
    )
    model = spread(peft.get_peft_model(base(), config))
    return train(model, lambda: model(input_ids=ids, labels=ids).loss, lr=0.1)


def patterns():
    """Ranks and scales by pattern, layers chosen, biases, weights kept whole."""
    config = peft.LoraConfig(
        r=2, lora_alpha=4, target_modules=["q_proj", "v_proj"], rank_pattern={"layers.0.self_attn.q_proj": 3},
        alpha_pattern={"v_proj": 8}, modules_to_save=["lm_head"], bias="lora_only", layers_to_transform=[0],
        task_type="CAUSAL_LM",
    )  # fmt: skip
    return learn(config)


def beginnings():
    """Factors that begin with the weights' own: PiSSA, OLoRA."""
    found = []
    for way in ("pissa", "olora", "gaussian", "orthogonal"):
        model = peft.get_peft_model(
            base(), peft.LoraConfig(r=2, target_modules=["q_proj"], init_lora_weights=way)
        )
        if way in ("pissa", "olora"):
            found += train(model, lambda: model(input_ids=ids, labels=ids).loss, lr=0.1, steps=2)
        else:
            found.append(model(input_ids=ids).logits.sum())
    return found


def mixtures():
    """Adapters added together, in several ways; one for each row."""
    model = spread(
        peft.get_peft_model(
            base(), peft.LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM")
        )
    )
    model.add_adapter(
        "other", peft.LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM")
    )
    model.set_adapter("other")
    spread(model)
    found = []
    with torch.no_grad():
        for way in ("linear", "svd", "cat", "ties", "dare_linear", "magnitude_prune"):
            density = {"density": 1.0} if way in ("ties", "dare_linear", "magnitude_prune") else {}
            model.add_weighted_adapter(
                ["default", "other"], [0.7, 0.4], way, combination_type=way, **density
            )
            model.set_adapter(way)
            found.append(model(input_ids=ids).logits)
        model.eval()
        found.append(model(input_ids=ids, adapter_names=["default", "other"]).logits)
        model.delete_adapter("svd")
        found.append(len(model.peft_config))
    return found


def layers_of_pictures():
    """Convolutions and embeddings."""
    net = fill(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(36, 3)))
    found = []
    for config in (
        peft.LoraConfig(r=2, target_modules=["0", "3"]),
        peft.LoHaConfig(r=2, target_modules=["0"], use_effective_conv2d=True),
        peft.LoKrConfig(r=2, target_modules=["0"]),
        peft.LoraConfig(r=2, target_modules=["0"], use_dora=True),
    ):
        model = spread(
            peft.get_peft_model(
                fill(
                    nn.Sequential(*[type(m) is nn.Conv2d and nn.Conv2d(3, 4, 3) or m for m in net])
                ),
                config,
            )
        )
        found += train(
            model,
            lambda: nn.functional.cross_entropy(model(picture(2, 3, 5, 5)), labels_of_pictures),
            steps=2,
        )
    words = fill(nn.Sequential(nn.Embedding(10, 4), nn.Flatten(), nn.Linear(12, 2)))
    model = spread(peft.get_peft_model(words, peft.LoraConfig(r=2, target_modules=["0"])))
    found += train(model, lambda: model(torch.arange(6).reshape(2, 3)).square().mean(), steps=2)
    return found


def classified():
    """A classifier's head trained beside adapters; injected without a wrapper."""
    model = fill(BertForSequenceClassification(BertConfig(**WORDS, **QUIET)))
    wrapped = spread(peft.get_peft_model(model, peft.LoraConfig(task_type="SEQ_CLS", r=2)))
    found = train(wrapped, lambda: wrapped(input_ids=ids, labels=labels_of_pictures // 2).loss)
    bare = peft.inject_adapter_in_model(
        peft.LoraConfig(r=2, target_modules=["query"]),
        fill(BertForSequenceClassification(BertConfig(**WORDS, **QUIET))),
    )
    spread(bare)
    state = peft.get_peft_model_state_dict(bare)
    return [found, len(state), bare(input_ids=ids).logits, wrapped.get_nb_trainable_parameters()]


parts(
    lokr, oft, hra, layer_norms, fourier, bones, p_tuning, prefix_projected, patterns, beginnings, mixtures,
    layers_of_pictures, classified,
)  # fmt: skip
