#!/usr/bin/env python3
"""The weights folder against transformers: what it writes we read, what we write it loads.

    check_hf_layout.py make FOLDER [--tied] [--shards] [--dtype float32|bfloat16]
        writes a small random LlamaForCausalLM, and FOLDER/expected.json with the loss of every
        sequence of FOLDER/tokens.json in double precision
    check_hf_layout.py load FOLDER
        loads our folder; fails on any missing or unexpected key, and prints the model's sizes
    check_hf_layout.py compare ONE OTHER
        fails unless the two folders load as models with equal configuration and equal weights
    check_hf_layout.py roundtrip DCP
        make -> `dcp export` -> compare, for untied, tied, sharded and bfloat16 models
    check_hf_layout.py losses DCP
        make -> `dcp eval`: the loss of every sequence against transformers in double precision

Needs torch, transformers and safetensors; exits with 77 (skipped) where they are not installed.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import torch
    from safetensors import safe_open
    from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM
    from transformers.utils import logging
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

logging.disable_progress_bar()

SIZES = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
         "num_key_value_heads", "head_dim", "vocab_size", "rms_norm_eps",
         "max_position_embeddings", "tie_word_embeddings", "hidden_act")


def rope_theta(config):
    """The base of the rotary angles, where transformers 5 or an older one keeps it."""
    parameters = getattr(config, "rope_parameters", None) or {}
    return parameters.get("rope_theta", getattr(config, "rope_theta", None))


def small_model(tied):
    torch.manual_seed(1)
    config = LlamaConfig(hidden_size=48, intermediate_size=80, num_hidden_layers=3,
                         num_attention_heads=6, num_key_value_heads=2, head_dim=10,
                         vocab_size=257, rms_norm_eps=2e-6, rope_theta=5000.0,
                         max_position_embeddings=128, tie_word_embeddings=tied,
                         bos_token_id=None, eos_token_id=256,
                         initializer_range=0.3)  # large: with the usual 0.02 attention hardly matters
    return LlamaForCausalLM(config)


def sequence_losses(model, sequences):
    """Summed cross-entropy of predicting each token from those before it, one by one in double."""
    losses = []
    for tokens in sequences:
        ids = torch.tensor([tokens])
        with torch.no_grad():
            logits = model(ids[:, :-1]).logits[0].double()
        losses.append(float(torch.nn.functional.cross_entropy(logits, ids[0, 1:],
                                                              reduction="sum")))
    return losses


def make(folder, tied, shards, dtype):
    model = small_model(tied).to(getattr(torch, dtype))
    model.save_pretrained(folder, max_shard_size="40KB" if shards else "5GB")
    generator = torch.Generator().manual_seed(2)
    sequences = [torch.randint(0, 257, (length,), generator=generator).tolist()
                 for length in (2, 3, 17, 129)]
    losses = sequence_losses(model.double(), sequences)
    Path(folder, "tokens.json").write_text(json.dumps(sequences))
    Path(folder, "expected.json").write_text(json.dumps(losses))


def load(folder):
    model, info = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True,
                                                       dtype=torch.float32)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if info[kind]:
            sys.exit(f"{folder}: {kind}: {sorted(info[kind])}")
    if not isinstance(model, LlamaForCausalLM):
        sys.exit(f"{folder}: loads as {type(model).__name__}, expected LlamaForCausalLM")
    for file in Path(folder).glob("*.safetensors"):
        with safe_open(file, framework="pt") as tensors:
            if tensors.metadata() != {"format": "pt"}:
                sys.exit(f"{file}: metadata {tensors.metadata()}")
            if model.config.tie_word_embeddings and "lm_head.weight" in tensors.keys():
                sys.exit(f"{file}: holds lm_head.weight although it is tied")
    return model


def compare(one, other):
    a, b = load(one), load(other)
    for key in SIZES:
        if getattr(a.config, key) != getattr(b.config, key):
            sys.exit(f"{key}: {getattr(a.config, key)} and {getattr(b.config, key)}")
    if rope_theta(a.config) != rope_theta(b.config):
        sys.exit(f"rope_theta: {rope_theta(a.config)} and {rope_theta(b.config)}")
    weights, others = a.state_dict(), b.state_dict()
    if weights.keys() != others.keys():
        sys.exit(f"other tensors: {sorted(weights.keys() ^ others.keys())}")
    for name, tensor in weights.items():
        if not torch.equal(tensor, others[name]):
            sys.exit(f"{name} differs")
    return len(weights)


def roundtrip(dcp):
    for tied, shards, dtype in ((False, False, "float32"), (True, False, "float32"),
                                (False, True, "float32"), (True, True, "bfloat16")):
        with tempfile.TemporaryDirectory() as folder:
            run = Path(folder, "run")
            make(run / "weights", tied, shards, dtype)
            subprocess.run([dcp, "export", "--run", run, "--out", f"{folder}/out"], check=True)
            tensors = compare(run / "weights", f"{folder}/out")
            print(f"tied {tied}, shards {shards}, {dtype}: {tensors} tensors are equal")


def largest_difference(dcp, folder, expected):
    subprocess.run([dcp, "eval", "--weights", folder, "--dataset", f"{folder}/data",
                    "--per-sequence", f"{folder}/ours.jsonl"], check=True, stdout=subprocess.PIPE)
    lines = [json.loads(line) for line in Path(folder, "ours.jsonl").read_text().splitlines()]
    if len(lines) != len(expected):
        sys.exit(f"{len(lines)} sequences, expected {len(expected)}")
    return max(abs(line["loss_sum"] - loss) / loss for line, loss in zip(lines, expected))


def losses(dcp):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cli"))
    from support import write_dataset
    with tempfile.TemporaryDirectory() as folder:
        make(folder, tied=False, shards=False, dtype="float32")
        write_dataset(Path(folder, "data"), json.loads(Path(folder, "tokens.json").read_text()))
        expected = json.loads(Path(folder, "expected.json").read_text())
        right = largest_difference(dcp, folder, expected)
        config = Path(folder, "config.json")
        config.write_text(config.read_text().replace("5000.0", "5500.0"))  # rope_theta
        wrong = largest_difference(dcp, folder, expected)
        print(f"largest relative difference of a loss: {right:.1e}; with a wrong base: {wrong:.1e}")
        if not right < 1e-5 or not wrong > 1e-4:
            sys.exit("the losses differ, or the comparison would not notice")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("make")
    command.add_argument("folder")
    command.add_argument("--tied", action="store_true")
    command.add_argument("--shards", action="store_true")
    command.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    command = commands.add_parser("load")
    command.add_argument("folder")
    command = commands.add_parser("compare")
    command.add_argument("one")
    command.add_argument("other")
    for name in ("roundtrip", "losses"):
        command = commands.add_parser(name)
        command.add_argument("dcp")
    arguments = parser.parse_args()
    if arguments.command == "make":
        make(arguments.folder, arguments.tied, arguments.shards, arguments.dtype)
    elif arguments.command == "load":
        model = load(arguments.folder)
        print({key: getattr(model.config, key) for key in SIZES})
    elif arguments.command == "compare":
        print(f"{compare(arguments.one, arguments.other)} tensors are equal")
    elif arguments.command == "roundtrip":
        roundtrip(arguments.dcp)
    else:
        losses(arguments.dcp)


if __name__ == "__main__":
    main()
