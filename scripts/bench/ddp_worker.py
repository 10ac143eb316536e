"""One of the processes of PyTorch's DistributedDataParallel (gloo): job (JSON) on stdin, its figures
(JSON) on stdout.

As torch_worker.py's packed form: all products on packed tokens, attention one sequence at a time.
The sequences are dealt to the processes so that their operations are as even as whole sequences
allow; a process with several micro-batches accumulates without communication until its last one.
"""

import json
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from dataset import random_documents
from torch_model import Llama, load_weights
from torch_worker import packed_micro_batches, processor_seconds


class Loss(nn.Module):
    """DDP reduces gradients of what its module's forward() returns."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *micro_batch):
        return self.model.packed(*micro_batch)


def operations(m, length):
    """Of a forward pass, up to a factor: products of every layer and causal attention."""
    heads = (2 * m["heads"] + 2 * m["kv_heads"]) * m["head_dim"]
    products = m["layers"] * m["hidden"] * (heads + 3 * m["ffn"]) + m["hidden"] * m["vocab"]
    return products * length + m["layers"] * m["heads"] * m["head_dim"] * length * length


def deal(m, documents, processes):
    """Longest first, each to the process that has least to do. No process goes without."""
    shares, load = [[] for _ in range(processes)], [0] * processes
    for document in sorted(documents, key=len, reverse=True):
        least = load.index(min(load))
        shares[least].append(document)
        load[least] += operations(m, len(document) - 1)
    return shares


def main():
    job = json.load(sys.stdin)
    torch.set_num_threads(job["threads"])
    torch.set_num_interop_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo", init_method=f"file://{job['rendezvous']}", rank=job["rank"],
                            world_size=job["processes"])
    m = job["model"]
    model = Llama(m)
    load_weights(model, job["weights"])
    if job["dtype"] == "bf16":
        model = model.bfloat16()
    if job["compiled"]:
        model.compile_pieces()
    loss_of = DistributedDataParallel(Loss(model), gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), eps=1e-8,
                                  weight_decay=0.1, fused=True)
    mine = deal(m, random_documents(job["lengths"], m["vocab"]), job["processes"])[job["rank"]]
    # DDP takes the mean over processes; the loss is that of all tokens.
    scale = job["processes"] / sum(job["lengths"])

    def train(micro_batches):
        total = 0
        for micro_batch in micro_batches[:-1]:
            with loss_of.no_sync():
                loss = loss_of(*micro_batch) * scale
                loss.backward()
            total += loss.item()
        loss = loss_of(*micro_batches[-1]) * scale
        loss.backward()
        return (total + loss.item()) / job["processes"]

    train(list(packed_micro_batches(mine, job["max_tokens"], max_pairs=64)))
    optimizer.zero_grad()

    micro_batches = list(packed_micro_batches(mine, job["max_tokens"]))
    losses, wall, processor = [], [], []
    for _ in range(job["iterations"]):
        dist.barrier()
        start, used = time.perf_counter(), processor_seconds()
        losses.append(train(micro_batches))
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
        optimizer.zero_grad()
        dist.barrier()  # an iteration is over when it is on all
        wall.append(time.perf_counter() - start)
        processor.append(processor_seconds() - used)
    json.dump({"first_loss": losses[0], "seconds": wall, "processor_seconds": processor},
              sys.stdout)
    dist.destroy_process_group()


main()
