"""One measured PyTorch process: reads a job (JSON) on stdin, prints its figures (JSON) on stdout.

An iteration is forward, backward, gradient clipping and AdamW over all sequences of the job, in
micro-batches of at most `max_tokens` tokens, exactly as `dcp train` runs it. Before the first one,
every micro-batch goes through forward and backward with its sequences cut to a few tokens, so that
nothing is compiled while the time is taken.

Left out because they cannot train on a processor (PyTorch 2.15): flex_attention has no backward
there, varlen_attn and attention on nested tensors need a GPU.
"""

import json
import resource
import sys
import time

import torch

from dataset import random_documents
from torch_model import Llama, load_weights


def processor_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def shortened(documents, max_pairs):
    return [document[: max_pairs + 1] for document in documents]


def padded_micro_batches(documents, max_tokens, max_pairs=None):
    """Sorted by length, so that little is padded: rows x longest stays within max_tokens."""
    groups, group = [], []
    for document in sorted(documents, key=len, reverse=True):
        if group and (len(group) + 1) * (len(group[0]) - 1) > max_tokens:
            groups.append(group)
            group = []
        group.append(document)
    groups.append(group)
    for group in groups:
        group = shortened(group, max_pairs) if max_pairs else group
        longest = len(group[0]) - 1
        tokens = torch.zeros(len(group), longest, dtype=torch.int64)
        targets = torch.full((len(group), longest), -100, dtype=torch.int64)
        for row, document in enumerate(group):
            tokens[row, : len(document) - 1] = torch.tensor(document[:-1])
            targets[row, : len(document) - 1] = torch.tensor(document[1:])
        yield tokens, targets


def packed_micro_batches(documents, max_tokens, max_pairs=None):
    groups, group, filled = [], [], 0
    for document in documents:
        if group and filled + len(document) - 1 > max_tokens:
            groups.append(group)
            group, filled = [], 0
        group.append(document)
        filled += len(document) - 1
    groups.append(group)
    for group in groups:
        group = shortened(group, max_pairs) if max_pairs else group
        lengths = [len(document) - 1 for document in group]
        yield (torch.tensor([t for document in group for t in document[:-1]]),
               torch.tensor([t for document in group for t in document[1:]]),
               lengths, torch.cat([torch.arange(n) for n in lengths]))


def main():
    job = json.load(sys.stdin)
    torch.set_num_threads(job["threads"])
    torch.set_num_interop_threads(1)
    torch.manual_seed(1)
    m = job["model"]
    model = Llama(m)
    if job.get("weights"):
        load_weights(model, job["weights"])
    mixed = job["dtype"] == "bf16-autocast"
    if job["dtype"] == "bf16":
        model = model.bfloat16()

    form, _, compiled = job["way"].partition("+")
    documents = random_documents(job["lengths"], m["vocab"])
    split = {"padded": padded_micro_batches, "packed": packed_micro_batches}[form]
    micro_batches = list(split(documents, job["max_tokens"]))
    loss_of = getattr(model, form)
    if compiled == "compiled" and form == "padded":
        loss_of = torch.compile(model.padded, dynamic=True)
    elif compiled == "compiled":
        model.compile_pieces()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), eps=1e-8,
                                  weight_decay=0.1, fused=True)
    num_tokens = sum(job["lengths"])

    def train(micro_batch):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=mixed):
            loss = loss_of(*micro_batch) / num_tokens
        loss.backward()
        return loss.item()

    for micro_batch in split(documents, job["max_tokens"], max_pairs=64):
        train(micro_batch)
    optimizer.zero_grad(set_to_none=True)

    losses, wall, processor = [], [], []
    for _ in range(job["iterations"]):
        start, used = time.perf_counter(), processor_seconds()
        losses.append(sum(train(micro_batch) for micro_batch in micro_batches))
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        wall.append(time.perf_counter() - start)
        processor.append(processor_seconds() - used)
    json.dump({"first_loss": losses[0], "seconds": wall, "processor_seconds": processor},
              sys.stdout)


if __name__ == "__main__":
    main()
