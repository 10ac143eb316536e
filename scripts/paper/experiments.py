"""What is simulated: each function returns the runs of one experiment."""

from simulation import SETS

PLANNERS = ["bucket", "packed", "dcp-inter", "dcp-intra", "dcp"]
SEQUENCES_PER_RANK = 8  # the batch, in all experiments that do not vary it
ITERATIONS = 6
VIDEO_FRAMES = (15, 30, 60, 120)
FRAME_TOKENS = (144, 405, 920, 1620, 3600)


def effort(quick):
    """How long each run is, and how long its planner may think."""
    return {"run__iterations": 2, "planner__effort": "fast"} if quick else {"run__iterations": ITERATIONS}


def speed_ups(simulator, quick):
    """All planners on the three sets of both models; beyond 32 ranks at fast effort."""
    found = {}
    for kind, sets in SETS.items():
        for name, data in sets.items():
            common = {"batch__sequences_per_rank": SEQUENCES_PER_RANK}
            small = simulator.run(f"speed-up-{kind}-{name}", kind, data, [8, 32] if quick else [8, 16, 32],
                                  PLANNERS, **common, **effort(quick))
            large = [] if quick else simulator.run(f"speed-up-large-{kind}-{name}", kind, data, [64, 128],
                                                   PLANNERS, **common, run__iterations=4,
                                                   planner__effort="fast")
            found[kind, name] = small + large
    return found


def scaling(simulator, quick):
    """The same sequences on more and more ranks; the batch grows with the ranks. Fast effort is content
    with less on large clusters, and its many iterations on small ones need no more."""
    found = {}
    for kind, sets in SETS.items():
        for name, data in sets.items():
            common = {"batch__sequences_per_rank": 16, "run__sequences": 1024 if quick else 16384}
            # Where nearly all work is in gangs of four nodes, a search takes minutes and finds nothing.
            fast = {"planner__effort": "fast"} if (kind, name) == ("1D", "long") else {}
            small = simulator.run(f"scaling-{kind}-{name}", kind, data, [8, 64] if quick else [8, 16, 32, 64, 128],
                                  ["dcp"], **common, planner__effort="fast")
            large = [] if quick else simulator.run(f"scaling-large-{kind}-{name}", kind, data, [256, 512, 1024],
                                                   ["dcp"], **common, **fast)
            found[kind, name] = small + large
    return found


def batch_sizes(simulator, quick):
    """How much the speed-up depends on the size of the batch: 32 ranks."""
    sizes = [4, 8] if quick else [2, 4, 8, 16, 32]
    return {(kind, name, size): simulator.run(f"batch-{kind}-{name}-{size}", kind, data, [32],
                                              ["bucket", "dcp-intra", "dcp"],
                                              batch__sequences_per_rank=size,
                                              run__iterations=1 if quick else max(2, 40 // size),
                                              planner__effort="fast")
            for kind, sets in SETS.items() for name, data in sets.items() for size in sizes}


def bucket_degrees(simulator, quick):
    """`bucket` at SP degrees that it would not choose: on 8 and on 32 ranks."""
    degrees = [4] if quick else [1, 2, 4, 8]
    found = {}
    for kind, sets in SETS.items():
        for name, data in sets.items():
            for degree in degrees:
                if kind == "1D" and degree < 4:
                    continue  # the longest sequence does not fit
                found[kind, name, degree] = simulator.run(
                    f"bucket-{kind}-{name}-sp{degree}", kind, data, [8, 32], ["bucket"],
                    batch__sequences_per_rank=SEQUENCES_PER_RANK,
                    planner__degrees=[degree], **effort(quick))
    return found


def elastic(simulator, quick):
    """Batches that float: time that ranks have left is filled with the sequences that come next."""
    return {(kind, name): simulator.run(f"elastic-{kind}-{name}", kind, data, [8] if quick else [8, 32], PLANNERS,
                                        batch__sequences_per_rank=SEQUENCES_PER_RANK, batch__mode="elastic",
                                        run__sequences=128 if quick else 2048, planner__effort="fast")
            for kind, sets in SETS.items() for name, data in sets.items()}


def laws(simulator, quick):
    """1D with the laws of the released code over octaves of length."""
    return {law: simulator.run(f"law-{law}", "1D", law, [32], PLANNERS,
                               batch__sequences_per_rank=SEQUENCES_PER_RANK,
                               **effort(quick))
            for law in ("zipf", "half-normal", "uniform")}


def recomputation(simulator, quick):
    """Sequences of one length: full recomputation, as little as memory allows, and the optimum."""
    found = {}
    lengths = [2**k for k in range(12, 21)]
    for tokens in lengths[::4] if quick else lengths:
        found["1D", tokens] = recomputation_of(simulator, "1D", [tokens], quick)
    buckets = [(frames, tokens) for tokens in FRAME_TOKENS for frames in VIDEO_FRAMES]
    for frames, tokens in buckets[::10] if quick else buckets:
        found["2D", frames * tokens, f"{frames}x{tokens}"] = recomputation_of(
            simulator, "2D", [f"{frames}x{tokens}"], quick)
    return found


def recomputation_of(simulator, kind, lengths, quick):
    name = f"recompute-{kind}-{lengths[0]}"
    common = {"batch__sequences": 64, "run__iterations": 1, "planner__effort": "fast"}
    allowed = simulator.run(name, kind, lengths, [32], ["dcp-inter", "dcp-intra", "dcp"], **common)
    return {run["planner"]: run for run in allowed}


def degrees(simulator, quick):
    """dcp with powers of two and with every degree."""
    found = {}
    for kind, sets in SETS.items():
        for name, data in sets.items():
            for allowed in ("pow2", "any"):
                found[kind, name, allowed] = simulator.run(
                    f"degrees-{kind}-{name}-{allowed}", kind, data, [32], ["dcp"],
                    batch__sequences_per_rank=SEQUENCES_PER_RANK,
                    planner__degrees=allowed, **effort(quick))[0]
    return found


def regrouping(simulator, quick):
    """Groups that stay as they are during an iteration, and dcp, both with powers of two."""
    return {(kind, name): simulator.run(f"regrouping-{kind}-{name}", kind, data, [32],
                                        ["fixed-groups", "dcp-intra", "dcp"],
                                        batch__sequences_per_rank=SEQUENCES_PER_RANK,
                                        planner__degrees="pow2", **effort(quick))
            for kind, sets in SETS.items() for name, data in sets.items()}
