"""What mutate.py changes, one thing at a time: (name, file, old text, new text, sources that are compiled again, check that
must notice).

The check is `values` (wrong results, a deadlock or an error that the emulator reports), `conflicts` (values right, but the test that
matrix loads are free of bank conflicts fails) or `race` (right values under every schedule of the emulator; the thread
sanitizer reports it). A mutation that `values` catches is not run under the sanitizer.
"""

# The test programs that run a kernel source.
TESTS_OF = {
    "attention_forward.cu": ["test_cuda_attention"], "attention_dq.cu": ["test_cuda_attention"],
    "attention_dkdv.cu": ["test_cuda_attention"], "attention_delta.cu": ["test_cuda_attention"],
    "attention_merge.cu": ["test_cuda_exchange"], "sum_rows.cu": ["test_cuda_exchange"],
    "matmul_bf16.cu": ["test_cuda_matmul"], "matmul_fp32.cu": ["test_cuda_matmul"],
    "rmsnorm.cu": ["test_cuda_norms"], "layernorm.cu": ["test_cuda_norms"], "column_sums.cu": ["test_cuda_norms"],
    "activation.cu": ["test_cuda_rows"], "rope.cu": ["test_cuda_rows"],
    "embedding.cu": ["test_cuda_cross_entropy"], "cross_entropy.cu": ["test_cuda_cross_entropy"],
    "optimizer.cu": ["test_cuda_optimizer"],
}

FORWARD, DQ, DKDV = "attention_forward.cu", "attention_dq.cu", "attention_dkdv.cu"
BF16, FP32 = "matmul_bf16.cu", "matmul_fp32.cu"

BARRIER = "        __syncthreads();  // this step has arrived, and every warp has read the one before\n"
WAIT = "        ptx::cp_async_wait<0>();\n"
PREFETCH = "        if (step + 1 < num_steps) {\n            load_step(step + 1);\n        }\n"
COMMIT = "        ptx::cp_async_commit();\n\n"
LOADS_A = "row + m % 2 * 8 + r, k / 8 + m / 2"
LOADS_B_TRANSPOSED = "column + m / 2 * 8 + r, k / 8 + m % 2"
LOADS_B = "k + m % 2 * 8 + r, column / 8 + m / 2"
LOADS_A_TRANSPOSED = "k + m / 2 * 8 + r, row / 8 + m % 2"


def pipeline(source):
    """The four parts of the double-buffered loop that every tensor-core kernel has."""
    name = source.removesuffix(".cu")
    return [
        (f"{name}: no barrier in the loop", source, BARRIER, "", [source], "values"),
        (f"{name}: no wait for the copies in the loop", source, WAIT + BARRIER, BARRIER, [source], "values"),
        (f"{name}: prefetch before the barrier", source, WAIT + BARRIER + PREFETCH, WAIT + PREFETCH + BARRIER,
         [source], "values"),
        (f"{name}: no commit after the prefetch", source, COMMIT, "\n", [source], "values"),
    ]


MUTATIONS = [
    *pipeline(FORWARD), *pipeline(DQ), *pipeline(DKDV), *pipeline(BF16),
    ("attention_forward: no barrier before the queries are read", FORWARD,
     "    __syncthreads();  // the queries are there\n", "", [FORWARD], "values"),
    ("attention_forward: the queries are not waited for", FORWARD, "cp_async_wait<1>", "cp_async_wait<2>", [FORWARD],
     "values"),
    ("attention_forward: causal edge off by one", FORWARD, "query + tile.q_offset + 1) - first",
     "query + tile.q_offset) - first", [FORWARD], "values"),
    ("attention_forward: hidden keys not masked", FORWARD, "if (has_hidden_keys) {", "if (false) {", [FORWARD], "values"),
    ("attention_forward: last key of the edge ignored", FORWARD, "first + kStep > tile.k_count ||",
     "first + kStep > tile.k_count + 1 ||", [FORWARD], "values"),
    ("attention_forward: row maximum over half of the lanes", FORWARD,
     "        top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, 2));\n", "", [FORWARD], "values"),
    ("attention_forward: head of the group", FORWARD, "head / problem.heads_per_group * problem.head_dim",
     "head % problem.heads_per_group * problem.head_dim", [FORWARD], "values"),
    ("attention_forward: lse of the rows past the end", FORWARD, "t == 0 && row < num_rows", "t == 0", [FORWARD], "values"),
    ("attention_dq: causal edge off by one", DQ, "query + tile.q_offset + 1) - first", "query + tile.q_offset) - first",
     [DQ], "values"),
    ("attention_dq: no barrier before staging when no key is seen", DQ, "        __syncthreads();  // q_tile becomes",
     "        // q_tile becomes", [DQ], "race"),
    ("attention_dq: delta of the other row", DQ, "- delta[r])", "- delta[1 - r])", [DQ], "values"),
    ("attention_dkdv: causal edge off by one", DKDV, "- first - 2 * t : -kStep", "- first - 2 * t + 1 : -kStep", [DKDV],
     "values"),
    ("attention_dkdv: dO from the other buffer", DKDV, "d_o_tiles + buffer * kStep * Layout::kRowElems;",
     "d_o_tiles + (1 - buffer) * kStep * Layout::kRowElems;", [DKDV], "values"),
    ("attention_dkdv: no barrier before staging when no query sees a key", DKDV,
     "        __syncthreads();  // k_tile and v_tile", "        // k_tile and v_tile", [DKDV], "race"),
    ("attention_delta: half of the row", "attention_delta.cu", "distance = kLanesARow / 2;", "distance = kLanesARow / 4;",
     ["attention_delta.cu"], "values"),
    ("attention_merge: no __syncwarp before the sum is replaced", "attention_merge.cu",
     "    __syncwarp();  // every lane has read", "    // every lane has read", ["attention_merge.cu"], "values"),
    ("attention_merge: weights exchanged", "attention_merge.cu", "weight * as_float(o[d]) + weight_sum * o_sum[d]",
     "weight_sum * as_float(o[d]) + weight * o_sum[d]", ["attention_merge.cu"], "values"),
    ("tile: A, addresses of the halves exchanged", "tile.cuh", LOADS_A, "row + m / 2 * 8 + r, k / 8 + m % 2", [FORWARD],
     "values"),
    ("tile: B transposed, addresses of the halves exchanged", "tile.cuh", LOADS_B_TRANSPOSED,
     "column + m % 2 * 8 + r, k / 8 + m / 2", [FORWARD], "values"),
    ("tile: B, addresses of the halves exchanged", "tile.cuh", LOADS_B, "k + m / 2 * 8 + r, column / 8 + m % 2", [FORWARD],
     "values"),
    ("tile: A transposed, addresses of the halves exchanged", "tile.cuh", LOADS_A_TRANSPOSED,
     "k + m % 2 * 8 + r, row / 8 + m / 2", [BF16], "values"),
    ("tile: B without .trans", "tile.cuh", f"ptx::ldmatrix_trans(b, tile + Layout::at({LOADS_B}));",
     f"ptx::ldmatrix(b, tile + Layout::at({LOADS_B}));", [FORWARD], "values"),
    ("tile: A one element too far", "tile.cuh", f"ptx::ldmatrix(a, tile + Layout::at({LOADS_A}));",
     f"ptx::ldmatrix(a, tile + 1 + Layout::at({LOADS_A}));", [FORWARD], "values"),
    ("tile: registers 1 and 2 of P exchanged", "tile.cuh", "pack_bf16(p[k][0], p[k][1]), pack_bf16(p[k][2], p[k][3]),",
     "pack_bf16(p[k][2], p[k][3]), pack_bf16(p[k][0], p[k][1]),", [FORWARD], "values"),
    ("tile: no swizzle", "tile.cuh", "(kIsSwizzled ? chunk ^ (row & 7) : chunk)", "chunk", [FORWARD, BF16], "conflicts"),
    ("tile: rows an even number of chunks apart", "tile.cuh", "(kIsSwizzled ? kChunks : kChunks | 1)", "kChunks", [FORWARD],
     "conflicts"),
    ("tile: rows past the end not zero", "tile.cuh", "row < num_rows ? left * static_cast<int>(sizeof(T)) : 0",
     "left * static_cast<int>(sizeof(T))", [FORWARD], "values"),
    ("tile: columns past the head not zero", "tile.cuh", "min(max(columns - chunk * kChunkElems, 0), kChunkElems)",
     "kChunkElems", [FORWARD], "values"),
    ("tile: fp32 P from the wrong lane", "tile.cuh", "p[tile][column % 2], column / 2, 4)", "p[tile][column % 2], column % 4, 4)",
     [FORWARD], "values"),
    ("store: no __syncwarp before staging", "store.cuh", "    __syncwarp();  // other lanes may still", "    // other lanes may still",
     [DQ, DKDV], "race"),
    ("store: no __syncwarp after staging", "store.cuh", "    __syncwarp();  // what a lane reads", "    // what a lane reads",
     [FORWARD], "values"),
    ("store: rows past the end written", "store.cuh", "if (r < num_rows && chunk", "if (chunk", [FORWARD], "values"),
    ("store: accumulation forgets what was there", "store.cuh", "target.accumulates ? *at : make_float2(0.0F, 0.0F)",
     "make_float2(0.0F, 0.0F)", [DQ], "values"),
    ("matmul_bf16: second column of an odd end written", BF16, "column + 1 < problem.num_columns", "true", [BF16], "values"),
    ("matmul_fp32: no barrier before the tiles are read", FP32, "        __syncthreads();  // the tiles are there\n", "",
     [FP32], "values"),
    ("matmul_fp32: no barrier after the tiles are read", FP32, "        __syncthreads();  // everybody has read them\n", "",
     [FP32], "values"),
    ("matmul_fp32: depth past the end not zero", FP32, " && depth + k < num_depth", "", [FP32], "values"),
    ("rows: no barrier before the sums of the warps are read", "rows.cuh",
     "    __syncthreads();  // the sums of all warps are there\n", "", ["rmsnorm.cu"], "values"),
    ("rows: no barrier before the scratch is used again", "rows.cuh",
     "    __syncthreads();  // everybody has read them\n", "", ["rmsnorm.cu", "layernorm.cu"], "values"),
    ("rows: vector load without the tail guard", "rows.cuh", "v[i] = i < count ? from[i] : 0.0F;", "v[i] = from[i];",
     ["rmsnorm.cu"], "values"),
    ("rows: vector store without the tail guard", "rows.cuh", "        if (i < count) {\n            to[i] = v[i];",
     "        {\n            to[i] = v[i];", ["activation.cu"], "values"),
    ("rows: unaligned rows stored as vectors", "rows.cuh", "if (count >= kVector && is_aligned(to)) {\n        *reinterpret_cast<uint4*>",
     "if (count >= kVector - 1) {\n        *reinterpret_cast<uint4*>", ["activation.cu"], "values"),
    ("rmsnorm: residual forgotten", "rmsnorm.cu", "if (args.residual.data != nullptr) {", "if (false) {", ["rmsnorm.cu"],
     "values"),
    ("rmsnorm: a block takes one token too many", "rmsnorm.cu", "min(begin + args.rows_per_block, args.num_rows)",
     "min(begin + args.rows_per_block + 1, args.num_rows)", ["rmsnorm.cu"], "values"),
    ("layernorm: columns past the end count", "layernorm.cu", "if (column + i < args.columns) {", "{", ["layernorm.cu"],
     "values"),
    ("column_sums: always accumulates", "column_sums.cu", "accumulates ? out_C[column] + sum : sum", "out_C[column] + sum",
     ["column_sums.cu"], "values"),
    ("activation: slope of the logistic function", "activation.cu", "(1.0F + gate[i] * (1.0F - s))", "(1.0F + gate[i] * s)",
     ["activation.cu"], "values"),
    ("rope: turns the wrong way", "rope.cu", "args.inverse ? -1.0F : 1.0F", "args.inverse ? 1.0F : -1.0F", ["rope.cu"],
     "values"),
    ("embedding: no barrier before the bits are read", "embedding.cu",
     "    __syncthreads();  // the bits of all warps are there\n", "", ["embedding.cu"], "values"),
    ("embedding: no barrier before the bits are written again", "embedding.cu",
     "    __syncthreads();  // everybody has read them\n", "", ["embedding.cu"], "values"),
    ("embedding: every occurrence owns the row", "embedding.cu", "if (any != 0) {", "if (false) {", ["embedding.cu"], "values"),
    ("cross_entropy: no barrier before the warps are combined", "cross_entropy.cu",
     "    __syncthreads();  // those of all warps are there\n", "", ["cross_entropy.cu"], "values"),
    ("cross_entropy: no barrier before the gradient takes the logits' place", "cross_entropy.cu",
     "    __syncthreads();  // the target's logit has been read", "    // the target's logit has been read",
     ["cross_entropy.cu"], "values"),
    ("cross_entropy: masked tokens have a gradient", "cross_entropy.cu", "v[i] = is_masked ? 0.0F : expf",
     "v[i] = expf", ["cross_entropy.cu"], "values"),
    ("optimizer: no barrier before the sums of the warps are read", "optimizer.cu",
     "    __syncthreads();  // the sums of all warps are there\n", "", ["optimizer.cu"], "values"),
    ("optimizer: decay after the step", "optimizer.cu", "p[i] -= fmaf(args.decay, p[i], args.rate * m[i] / spread);",
     "p[i] -= args.rate * m[i] / spread;", ["optimizer.cu"], "values"),
    ("sum_rows: the first source counts twice", "sum_rows.cu", "source == 0 ? v[i] : sum[i] + v[i]", "sum[i] + 2.0F * v[i]",
     ["sum_rows.cu"], "values"),
]
