"""What the compiler does not know about the CUDA kernels: threads and shared memory of a launch, bytes moved or operations
done beside the fewest that the formula needs. One Fact for each kernel of kernels/cuda, in the order of the table in
docs/cuda-kernels.md, which cuda_resources.py makes and checks.

Threads and shared memory follow the constants of the kernel's source. Bytes are for one element of the result in bf16
(parameters, statistics and logits are fp32), terms that do not grow with the row left out; operations of attention are for
one visible pair of query and key.
"""

from dataclasses import dataclass


@dataclass
class Fact:
    kernel: str  # as cuda_resources.py names it
    label: str
    threads: int
    shared: int
    moved: str
    fewest: str
    because: str = ""


def tile_row_bytes(element, head):
    """A row of a tile in shared memory (tile.cuh): an odd number of 16-byte chunks unless it is swizzled."""
    chunks = head * element // 16
    return 16 * (chunks if element == 2 and chunks % 8 == 0 else chunks | 1)


def attention_facts():
    key_step = {2: 64, 4: 32}
    dq_step = {2: {64: 64, 80: 64, 96: 64, 128: 32}, 4: dict.fromkeys((64, 80, 96, 128), 32)}
    query_step = {2: {64: 64, 80: 32, 96: 32, 128: 16}, 4: dict.fromkeys((64, 80, 96, 128), 32)}
    kernels = [
        ("forward", lambda e, d: 64 + 4 * key_step[e], 0, 4, "tiles"),
        ("dq", lambda e, d: 128 + 4 * dq_step[e][d], 0, 6, "tiles; S and dP are made here and for dk/dv"),
        ("dkdv", lambda e, d: 128 + 4 * query_step[e][d], 16, 8, "tiles; no atomics: 14 D with dq, not 10 D"),
    ]
    facts = []
    for name, rows, extra, products, because in kernels:
        for element, kind, symbol in ((2, "bf16", "bf16"), (4, "fp32", "float")):
            for head in (64, 80, 96, 128):
                row_extra = extra * query_step[element][head]
                operations = 64 * products // (2 * element)  # 64 rows meet a key's (query's) two rows of D
                facts.append(Fact(f"attention_{name}_kernel<{symbol}, {head}>", f"attention {name} {kind}, D {head}", 128,
                                  rows(element, head) * tile_row_bytes(element, head) + row_extra,
                                  f"{products} D operations, {operations} a byte", f"{products} D", because))
    return facts


def norm_facts():
    facts = []
    for norm, label, sums in (("rmsnorm", "RMSNorm", 1), ("layernorm", "LayerNorm", 2)):
        for direction in ("forward", "backward"):
            for vectors, columns in ((1, 4096), (2, 8192), (4, 16384)):
                forward = direction == "forward"
                moved = "4" if forward else f"8 + {8 * sums} / tokens a block"
                because = "" if forward else "sums of 16 or more tokens, written and read"
                if not forward and vectors == 4:
                    because += "; x and d_y again, from cache"
                facts.append(Fact(f"{norm}_{direction}_kernel<{vectors}>", f"{label} {direction}, C to {columns}", 512,
                                  128 * sums, moved, "4" if forward else "8", because))
    return facts


PADDING = "operands again for each 64 rows or columns, from L2"

FACTS = [
    *attention_facts(),
    Fact("attention_delta_kernel<bf16>", "attention delta bf16", 128, 0, "4", "4"),
    Fact("attention_delta_kernel<float>", "attention delta fp32", 128, 0, "8", "8"),
    Fact("attention_merge_kernel<bf16>", "attention merge bf16", 128, 0, "10", "10"),
    Fact("attention_merge_kernel<float>", "attention merge fp32", 128, 0, "12", "12"),
    Fact("matmul_bf16_kernel<true, true>", "product bf16, a b^T", 128, 20480, "2 K operations, 32 a byte", "2 K", PADDING),
    Fact("matmul_bf16_kernel<true, false>", "product bf16, a b", 128, 18432, "2 K operations, 32 a byte", "2 K", PADDING),
    Fact("matmul_bf16_kernel<false, false>", "product bf16, a^T b", 128, 16384, "2 K operations, 32 a byte", "2 K", PADDING),
    Fact("matmul_fp32_kernel<true, true>", "product fp32, a b^T", 256, 8704, "2 K operations, 16 a byte", "2 K", PADDING),
    Fact("matmul_fp32_kernel<true, false>", "product fp32, a b", 256, 8704, "2 K operations, 16 a byte", "2 K", PADDING),
    Fact("matmul_fp32_kernel<false, false>", "product fp32, a^T b", 256, 8704, "2 K operations, 16 a byte", "2 K", PADDING),
    *norm_facts(),
    Fact("column_sums_kernel", "sums of the norms' rows", 256, 1024, "4", "4"),
    Fact("swiglu_forward_kernel", "SwiGLU forward", 128, 0, "6", "6"),
    Fact("swiglu_backward_kernel", "SwiGLU backward, an element of y", 128, 0, "10", "10"),
    Fact("element_kernel<GeluForwardOf>", "GELU forward", 128, 0, "4", "4"),
    Fact("element_kernel<GeluBackwardOf>", "GELU backward", 128, 0, "6", "6"),
    Fact("element_kernel<AddOf>", "addition", 128, 0, "6", "6"),
    Fact("rope_kernel", "rotation", 128, 0, "4", "4", "tables, 4 bytes an element, from cache"),
    Fact("embedding_forward_kernel", "embedding forward", 128, 0, "6", "6"),
    Fact("embedding_backward_kernel", "embedding backward", 128, 16, "2 + 8 / occurrences + 2 T / min(C, 1024)",
         "2 + 8 / occurrences", "tokens searched for earlier occurrences, not sorted; from cache"),
    Fact("cross_entropy_kernel", "cross-entropy: loss; with gradient", 256, 64, "4; 10", "4; 6",
         "a row of logits again when its sum is known"),
    Fact("adamw_kernel", "AdamW; with the cast", 256, 0, "28; 30", "28; 30"),
    Fact("partial_sum_kernel", "sums over flat arrays (squares; products of two)", 256, 64, "4; 8", "4; 8"),
    Fact("total_kernel", "total of these sums", 256, 64, "8", "8"),
    Fact("zero_rows_kernel", "zeros in strided rows", 256, 0, "2", "2"),
    Fact("sum_rows_kernel", "rows put together, n sources", 128, 0, "2 n + 2", "2 n + 2"),
    Fact("pack_heads_kernel", "heads packed", 128, 0, "4", "4", "a head that several peers use is written for each"),
    Fact("unpack_heads_kernel", "heads unpacked", 128, 0, "4", "4", "a head that several peers use is read from each"),
]
