"""A dataset of random tokens in the Megatron-style format that `dcp train` reads."""

import random
import struct


def random_documents(lengths, vocab, seed=1):
    """A document of n + 1 tokens gives a sequence of n (input, target) pairs."""
    generator = random.Random(seed)
    return [[generator.randrange(vocab) for _ in range(n + 1)] for n in lengths]


def write_dataset(prefix, documents):
    sizes = [len(document) for document in documents]
    offsets = [0]
    for size in sizes:
        offsets.append(offsets[-1] + 4 * size)
    with open(prefix + ".bin", "wb") as file:
        for document in documents:
            file.write(struct.pack(f"<{len(document)}i", *document))
    with open(prefix + ".idx", "wb") as file:
        file.write(b"MMIDIDX\0\0" + struct.pack("<QB", 1, 4))
        file.write(struct.pack("<QQ", len(sizes), len(sizes) + 1))
        file.write(struct.pack(f"<{len(sizes)}i", *sizes))
        file.write(struct.pack(f"<{len(sizes)}q", *offsets[:-1]))
        file.write(struct.pack(f"<{len(sizes) + 1}q", *range(len(sizes) + 1)))
