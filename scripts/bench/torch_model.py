"""The Llama-family model of `dcp train`, as fast as PyTorch runs it on a CPU.

Two forms share one set of parameters: `padded` ([batch, longest] with right padding; causal
attention then needs no mask) and `packed` (all tokens in one [tokens, hidden] matrix, attention one
sequence at a time). Projections that read the same input are one matrix product (q, k, v and gate,
up), which is PyTorch's faster way; a checkpoint with separate matrices is concatenated on loading.
"""

import json
import struct

import torch
import torch.nn.functional as F
from torch import nn


def rms_norm(x, weight, eps):
    return F.rms_norm(x, (x.shape[-1],), weight, eps)


def rotate(x, cos, sin):
    """RoPE, half-split: element i of a head pairs with i + d/2. cos, sin: [tokens, d/2]."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


class Block(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = m["heads"], m["kv_heads"], m["head_dim"]
        self.eps = m["norm_eps"]
        q_width, kv_width = self.heads * self.head_dim, self.kv_heads * self.head_dim
        self.widths = (q_width, kv_width, kv_width)
        self.input_norm = nn.Parameter(torch.ones(m["hidden"]))
        self.post_norm = nn.Parameter(torch.ones(m["hidden"]))
        self.qkv = nn.Linear(m["hidden"], q_width + 2 * kv_width, bias=False)
        self.out = nn.Linear(q_width, m["hidden"], bias=False)
        self.gate_up = nn.Linear(m["hidden"], 2 * m["ffn"], bias=False)
        self.down = nn.Linear(m["ffn"], m["hidden"], bias=False)

    def before_attention(self, x, cos, sin):
        """x [..., tokens, hidden] -> q, k, v [..., heads, tokens, head_dim]."""
        qkv = self.qkv(rms_norm(x, self.input_norm, self.eps))
        q, k, v = (part.unflatten(-1, (-1, self.head_dim)).transpose(-2, -3)
                   for part in qkv.split(self.widths, dim=-1))
        return rotate(q, cos, sin), rotate(k, cos, sin), v

    def after_attention(self, x, attended):
        """attended [..., heads, tokens, head_dim]."""
        x = x + self.out(attended.transpose(-2, -3).flatten(-2))
        gate, up = self.gate_up(rms_norm(x, self.post_norm, self.eps)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


class Llama(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.embedding = nn.Embedding(m["vocab"], m["hidden"])
        self.blocks = nn.ModuleList(Block(m) for _ in range(m["layers"]))
        self.norm = nn.Parameter(torch.ones(m["hidden"]))
        self.head = nn.Linear(m["hidden"], m["vocab"], bias=False)
        self.eps = m["norm_eps"]
        self.grouped = m["heads"] != m["kv_heads"]
        exponent = torch.arange(0, m["head_dim"], 2, dtype=torch.float64) / m["head_dim"]
        angle = torch.outer(torch.arange(m["max_tokens"], dtype=torch.float64),
                            m["rope_theta"] ** -exponent)
        self.register_buffer("cos", angle.cos().float(), persistent=False)
        self.register_buffer("sin", angle.sin().float(), persistent=False)

    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.grouped)

    def loss_sum(self, x, targets):
        logits = self.head(rms_norm(x, self.norm, self.eps))
        return F.cross_entropy(logits.float().flatten(0, -2), targets.flatten(), ignore_index=-100,
                               reduction="sum")

    def padded(self, tokens, targets):
        """tokens, targets [batch, longest]; targets are -100 on padding."""
        x = self.embedding(tokens)
        cos, sin = (table[: tokens.shape[1]].to(x.dtype) for table in (self.cos, self.sin))
        for block in self.blocks:
            q, k, v = block.before_attention(x, cos, sin)
            x = block.after_attention(x, self.attend(q, k, v))
        return self.loss_sum(x, targets)

    def packed(self, tokens, targets, lengths, positions):
        """tokens, targets, positions [sum of lengths]."""
        x = self.embedding(tokens)
        cos, sin = (table[positions].to(x.dtype) for table in (self.cos, self.sin))
        for block in self.blocks:
            q, k, v = block.before_attention(x, cos, sin)
            parts = zip(*(t.unsqueeze(0).split(lengths, dim=-2) for t in (q, k, v)))
            attended = torch.cat([self.attend(*part) for part in parts], dim=-2).squeeze(0)
            x = block.after_attention(x, attended)
        return self.loss_sum(x, targets)

    def compile_pieces(self):
        """Everything but attention and the products' own kernels is fused by the compiler."""
        for block in self.blocks:
            block.before_attention = torch.compile(block.before_attention, dynamic=True)
            block.after_attention = torch.compile(block.after_attention, dynamic=True)
        self.loss_sum = torch.compile(self.loss_sum, dynamic=True)


def read_safetensors(path):
    with open(path, "rb") as file:
        (header_bytes,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(header_bytes))
        buffer = bytearray(file.read())
    dtypes = {"F32": torch.float32, "BF16": torch.bfloat16}
    return {name: torch.frombuffer(buffer, dtype=dtypes[entry["dtype"]],
                                   count=(entry["data_offsets"][1] - entry["data_offsets"][0])
                                   // dtypes[entry["dtype"]].itemsize,
                                   offset=entry["data_offsets"][0]).view(entry["shape"])
            for name, entry in header.items() if name != "__metadata__"}


@torch.no_grad()
def load_weights(model, path):
    """Copies a Hugging Face Llama checkpoint, such as `dcp train` writes, into the model."""
    weights = read_safetensors(path)
    model.embedding.weight.copy_(weights["model.embed_tokens.weight"])
    model.norm.copy_(weights["model.norm.weight"])
    model.head.weight.copy_(weights.get("lm_head.weight", weights["model.embed_tokens.weight"]))
    for i, block in enumerate(model.blocks):
        def joined(*names):
            return torch.cat([weights[f"model.layers.{i}.{name}.weight"] for name in names])

        block.input_norm.copy_(joined("input_layernorm"))
        block.post_norm.copy_(joined("post_attention_layernorm"))
        block.qkv.weight.copy_(joined("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"))
        block.out.weight.copy_(joined("self_attn.o_proj"))
        block.gate_up.weight.copy_(joined("mlp.gate_proj", "mlp.up_proj"))
        block.down.weight.copy_(joined("mlp.down_proj"))
