"""Tokenizers made here, `pipeline` for texts, collators, schedules, a quantity of saved forms."""

import tempfile

import torch
from common import fill, say, train
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    BertForTokenClassification,
    DataCollatorForLanguageModeling,
    DataCollatorWithPadding,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
    get_cosine_schedule_with_warmup,
    get_linear_schedule_with_warmup,
    pipeline,
)

words = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    *"the cat sat on a mat dog ran far away".split(),
]
inner = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
inner.pre_tokenizer = pre_tokenizers.Whitespace()
inner.post_processor = processors.TemplateProcessing(
    single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
)
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=inner, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]",
    sep_token="[SEP]", mask_token="[MASK]",
)  # fmt: skip
config = BertConfig(
    vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
    intermediate_size=32, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=2,
)  # fmt: skip
found = []
texts = ["the cat sat on a mat", "a dog ran", "the dog ran far away"]
batch = tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
found += batch["input_ids"].flatten().tolist()
model = fill(BertForSequenceClassification(config))
labels = torch.tensor([0, 1, 1])
found += train(model, lambda: model(**batch, labels=labels).loss)
with tempfile.TemporaryDirectory() as folder:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    classify = pipeline("text-classification", model=folder, tokenizer=folder, device="cpu")
    found += [each["score"] for each in classify(texts, batch_size=2)]
    auto = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.bfloat16)
    found += [auto.dtype == torch.bfloat16, AutoConfig.from_pretrained(folder).hidden_size]
    found += AutoTokenizer.from_pretrained(folder)("a cat")["input_ids"]
    embed = pipeline("feature-extraction", model=folder, tokenizer=folder, device="cpu")
    found += embed("a cat")[0][0]
masked = pipeline("fill-mask", model=fill(BertForMaskedLM(config)).eval(), tokenizer=tokenizer)
found += [each["score"] for each in masked("the [MASK] sat", top_k=3)]
tags = pipeline(
    "token-classification",
    model=fill(BertForTokenClassification(config)).eval(),
    tokenizer=tokenizer,
)
found += [each["score"] for each in tags("the cat sat")]
gpt = fill(
    GPT2LMHeadModel(
        GPT2Config(vocab_size=len(words), n_positions=32, n_embd=16, n_layer=1, n_head=2)
    )
)
writer = pipeline("text-generation", model=gpt.eval(), tokenizer=tokenizer)
said = writer("the cat", max_new_tokens=4, do_sample=False, pad_token_id=0)[0]["generated_text"]
found += tokenizer(said)["input_ids"]
padded = DataCollatorWithPadding(tokenizer)([tokenizer(t) for t in texts])
found.append(padded["attention_mask"].sum())
causal = DataCollatorForLanguageModeling(tokenizer, mlm=False)([tokenizer(t) for t in texts])
found.append((causal["labels"] == -100).sum())
optimizer = torch.optim.AdamW(model.parameters(), lr=1.0)
for plan in (
    get_linear_schedule_with_warmup(optimizer, 2, 6), get_cosine_schedule_with_warmup(optimizer, 2, 6)
):  # fmt: skip
    for _ in range(5):
        optimizer.step()
        plan.step()
        found.append(plan.get_last_lr()[0])
say(*found)
