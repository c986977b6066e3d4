"""tokenizers trained, datasets mapped, collated and trained on; masked words, labels of words, streams."""

import torch
from common import fill, say
from datasets import Dataset, IterableDataset, concatenate_datasets
from small_transformers import QUIET, WORDS
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from torch.utils.data import DataLoader
from transformers import (
    BertConfig,
    BertForTokenClassification,
    DataCollatorForLanguageModeling,
    DataCollatorForTokenClassification,
    DataCollatorWithPadding,
    DistilBertConfig,
    DistilBertForSequenceClassification,
    PreTrainedTokenizerFast,
    get_linear_schedule_with_warmup,
)

lines = [
    "a quick brown fox",
    "the lazy dog sleeps all day",
    "foxes and dogs are friends",
    "one more line of words",
]
pieces = Tokenizer(models.BPE(unk_token="[UNK]"))
pieces.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase()])
pieces.pre_tokenizer = pre_tokenizers.Whitespace()
pieces.train_from_iterator(
    lines,
    trainers.BpeTrainer(
        vocab_size=60, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    ),
)
pieces.post_processor = processors.TemplateProcessing(
    "[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
)
words = PreTrainedTokenizerFast(
    tokenizer_object=pieces,
    pad_token="[PAD]",
    unk_token="[UNK]",
    cls_token="[CLS]",
    sep_token="[SEP]",
    mask_token="[MASK]",
)
data = Dataset.from_dict({"text": lines, "label": [0, 1, 1, 0]}).map(
    lambda row: words(row["text"]), batched=True, remove_columns=["text"]
)
data = concatenate_datasets([data, data.select([1, 3])])
found = [
    len(data),
    sum(map(sum, data["input_ids"])),
    data.train_test_split(0.5, shuffle=False)["test"].num_rows,
]
net = fill(
    DistilBertForSequenceClassification(
        DistilBertConfig(
            vocab_size=60,
            dim=16,
            n_layers=2,
            n_heads=2,
            hidden_dim=32,
            dropout=0.0,
            attention_dropout=0.0,
            seq_classif_dropout=0.0,
        )
    )
)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
plan = get_linear_schedule_with_warmup(optimizer, 1, 6)
for _ in range(2):
    for batch in DataLoader(
        data, batch_size=2, collate_fn=DataCollatorWithPadding(words, pad_to_multiple_of=4)
    ):
        out = net(**{name: value for name, value in batch.items() if name != "token_type_ids"})
        out.loss.backward()
        optimizer.step()
        plan.step()
        optimizer.zero_grad()
        found += [out.loss, *batch["input_ids"].shape]
shown = data.with_format("torch", columns=["input_ids", "label"])
found += [shown[0]["input_ids"].sum(), shown["label"][:].sum()]
tagged = data.remove_columns("label").map(lambda row: {"labels": [t % 3 for t in row["input_ids"]]})
tagger = fill(
    BertForTokenClassification(BertConfig(**{**WORDS, "vocab_size": 60}, **QUIET, num_labels=3))
)
batch = DataCollatorForTokenClassification(words)([tagged[i] for i in range(3)])
found += [tagger(**batch).loss, batch["labels"].sum()]
torch.manual_seed(0)
hidden = DataCollatorForLanguageModeling(words, mlm=True, mlm_probability=0.3)(
    [{"input_ids": data[i]["input_ids"]} for i in range(4)]
)
found += [*hidden["labels"].shape, (hidden["labels"] != -100).any()]


def numbers():
    """A stream."""
    for place in range(10):
        yield {"x": [float(place)] * 3, "y": place % 2}


stream = (
    IterableDataset.from_generator(numbers)
    .map(lambda row: {"z": sum(row["x"])})
    .filter(lambda row: row["y"] == 1)
    .with_format("torch")
)
found += [
    sum(batch["z"].sum() for batch in DataLoader(stream, batch_size=2)),
    next(iter(stream.skip(2)))["x"].sum(),
]
with data.formatted_as("numpy"):
    found.append(data[0]["input_ids"].sum())
say(*found)
