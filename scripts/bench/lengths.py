"""Which sequences are compared: document lengths, reduced to one representative batch."""

import math

# (share of documents, tokens): quantiles of the document lengths of an English encyclopedia, used
# where no --lengths file is given. Half of the documents are short, a few are a thousand times longer.
BUILT_IN_QUANTILES = [(0.0, 1), (0.01, 39), (0.05, 67), (0.25, 145), (0.5, 345), (0.75, 860),
                      (0.9, 2105), (0.95, 3719), (0.99, 10777), (0.999, 36652), (1.0, 300280)]


def read_lengths(path):
    lengths = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            text = line.split("#")[0].strip()
            if not text:
                continue
            if not text.isdigit() or int(text) < 1:
                raise SystemExit(f"{path}:{number}: '{text}' is not a length; write one positive "
                                 "number of tokens a line")
            lengths.append(int(text))
    if not lengths:
        raise SystemExit(f"{path} holds no length")
    return lengths


def built_in_lengths(count=10000):
    """Between two quantiles the logarithm of the length is linear in the share."""
    lengths = []
    for i in range(count):
        share = (i + 0.5) / count
        above = next(j for j, (end, _) in enumerate(BUILT_IN_QUANTILES) if share < end)
        (low_share, low), (high_share, high) = BUILT_IN_QUANTILES[above - 1: above + 1]
        part = (share - low_share) / (high_share - low_share)
        lengths.append(round(math.exp((1 - part) * math.log(low) + part * math.log(high))))
    return lengths


def cut(lengths, max_tokens):
    """Longer documents are split as `dcp train` splits them."""
    pieces = []
    for length in lengths:
        pieces += [max_tokens] * (length // max_tokens)
        if length % max_tokens:
            pieces.append(length % max_tokens)
    return pieces


def representative_batch(lengths, max_tokens, batch_tokens):
    """Evenly spaced quantiles of the cut lengths, as many as give about `batch_tokens` tokens."""
    pieces = sorted(cut(lengths, max_tokens))
    count = max(1, round(batch_tokens * len(pieces) / sum(pieces)))
    return [pieces[int((i + 0.5) / count * len(pieces))] for i in range(count)]
