#!/usr/bin/env python3
"""`dcp train`, `eval` and `export` from outside: a small model learns, and its files are right."""

import json
import os
import pathlib
import re
import signal
import subprocess
import time
import unittest

from support import (DCP, CommandLineTest, dcp, read_json_lines, read_safetensors_header)

METRICS = {"iteration", "loss", "grad_norm", "lr", "tokens", "sequences", "seconds",
           "tokens_per_second", "peak_bytes"}


class Training(CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.run_folder = cls.folder / "trained"
        cls.result = dcp("train", cls.config, "--set", f"run.folder={cls.run_folder}",
                         "--set", "run.log_samples=true", "--set", f"data.validation=[{cls.dataset}]")
        if cls.result.returncode != 0:
            raise AssertionError(cls.result.stdout + cls.result.stderr)
        cls.metrics = read_json_lines(cls.run_folder / "metrics.jsonl")

    def test_metrics(self):
        self.assertEqual([line["iteration"] for line in self.metrics], list(range(1, 21)))
        for line in self.metrics:
            self.assertLessEqual(METRICS, line.keys())
            self.assertGreater(line["peak_bytes"], 0)
            self.assertAlmostEqual(line["tokens_per_second"] * line["seconds"], line["tokens"],
                                   delta=1e-6 * line["tokens"])

    def test_loss_falls(self):
        losses = [line["loss"] for line in self.metrics]
        self.assertAlmostEqual(losses[0], 5.55, delta=0.25)  # log(257) at random weights
        self.assertLess(sum(losses[-3:]) / 3, losses[0] - 1.5)

    def test_console_shows_every_iteration_and_the_baseline(self):
        for fragment in ("iteration 1/20", "iteration 20/20", "baseline", "weights"):
            self.assertIn(fragment, self.result.stdout)

    def test_every_sequence_once_an_epoch(self):
        drawn = [i for line in read_json_lines(self.run_folder / "samples.jsonl")
                 for i in line["sequences"]]
        tokens = [-(-n // 256) for n in self.document_bytes]  # pieces of at most 256 pairs
        num_sequences = sum(tokens)
        for start in range(0, len(drawn) - num_sequences + 1, num_sequences):
            self.assertEqual(sorted(drawn[start: start + num_sequences]),
                             list(range(num_sequences)))
        self.assertGreater(len(drawn), num_sequences)

    def test_weights_have_the_names_and_shapes_of_a_llama(self):
        config = json.loads((self.run_folder / "weights/config.json").read_text())
        self.assertEqual(config["architectures"], ["LlamaForCausalLM"])
        for key, value in {"hidden_size": 32, "intermediate_size": 80, "num_hidden_layers": 2,
                           "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
                           "vocab_size": 257, "rms_norm_eps": 1e-5, "rope_theta": 10000,
                           "hidden_act": "silu", "tie_word_embeddings": False}.items():
            self.assertEqual(config[key], value, key)
        header = read_safetensors_header(self.run_folder / "weights/model.safetensors")
        self.assertEqual(header.pop("__metadata__"), {"format": "pt"})
        expected = {"model.embed_tokens.weight": [257, 32], "model.norm.weight": [32],
                    "lm_head.weight": [257, 32]}
        for layer in range(2):
            expected.update({f"model.layers.{layer}.{name}.weight": shape for name, shape in {
                "input_layernorm": [32], "post_attention_layernorm": [32],
                "self_attn.q_proj": [32, 32], "self_attn.k_proj": [16, 32],
                "self_attn.v_proj": [16, 32], "self_attn.o_proj": [32, 32],
                "mlp.gate_proj": [80, 32], "mlp.up_proj": [80, 32],
                "mlp.down_proj": [32, 80]}.items()})
        self.assertEqual({name: entry["shape"] for name, entry in header.items()}, expected)

    def test_eval_agrees_with_the_last_validation_and_with_the_export(self):
        exported = self.folder / "exported"
        self.succeed("export", "--run", self.run_folder, "--out", exported)
        sums = []
        for number, weights in enumerate((self.run_folder / "weights", exported)):
            file = self.folder / f"losses-{number}.jsonl"
            self.succeed("eval", "--weights", weights, "--dataset", self.dataset,
                         "--per-sequence", file)
            sums.append(read_json_lines(file))
        self.assertEqual(sums[0], sums[1])
        self.assertEqual([line["sequence"] for line in sums[0]], list(range(len(sums[0]))))
        tokens = sum(line["tokens"] for line in sums[0])
        self.assertEqual(tokens, sum(self.document_bytes))
        mean = sum(line["loss_sum"] for line in sums[0]) / tokens
        self.assertAlmostEqual(mean, self.metrics[-1]["validation_loss"], delta=1e-5 * mean)

    def test_resolved_configuration_gives_the_same_run(self):
        again = self.train(self.folder / "again", config=self.run_folder / "config.yaml")
        self.assertEqual([line["loss"] for line in again], [line["loss"] for line in self.metrics])

    def test_threads_change_nothing_in_fp32(self):
        two = self.train(self.folder / "two-threads", "run.threads=2", "run.iterations=5")
        self.assertEqual([line["loss"] for line in two],
                         [line["loss"] for line in self.metrics[:5]])

    def test_recompute_changes_nothing(self):
        lean = self.train(self.folder / "recompute", "model.recompute_layers=2", "run.iterations=5")
        self.assertEqual([line["loss"] for line in lean],
                         [line["loss"] for line in self.metrics[:5]])

    def test_micro_batches_change_only_rounding(self):
        small = self.train(self.folder / "small", "batch.micro_batch_tokens=256", "run.iterations=5")
        large = self.train(self.folder / "large", "batch.micro_batch_tokens=1024", "run.iterations=5")
        for one, other in zip(small, large):
            self.assertAlmostEqual(one["loss"], other["loss"], delta=1e-4 * one["loss"])


class Lifecycle(CommandLineTest):
    def test_no_iterations_writes_the_initial_weights(self):
        start = self.folder / "start"
        self.train(start, "run.iterations=0")
        from_seed = self.train(self.folder / "from-seed", "run.iterations=3")
        from_weights = self.train(self.folder / "from-weights", "run.iterations=3",
                                  f"model.init_from={start}/weights", "run.seed=1")
        self.assertEqual([line["loss"] for line in from_weights],
                         [line["loss"] for line in from_seed])

    def test_an_earlier_run_is_moved_aside(self):
        folder = self.folder / "twice"
        first = self.train(folder, "run.iterations=2")
        second = self.train(folder, "run.iterations=3")
        self.assertEqual(len(second), 3)
        self.assertEqual(read_json_lines(folder / "earlier-1/metrics.jsonl"), first)

    def test_bf16_learns(self):
        result = dcp("train", self.config, "--set", "run.dtype=bf16",
                     "--set", f"run.folder={self.folder / 'bf16'}")
        if result.returncode == 2 and "bf16" in result.stderr:
            self.skipTest("no bf16 products on this processor")
        self.assertEqual(result.returncode, 0, result.stderr)
        losses = [line["loss"] for line in read_json_lines(self.folder / "bf16/metrics.jsonl")]
        self.assertLess(losses[-1], losses[0] - 1.5)

    def test_terminate_stops_at_an_iteration_boundary_with_weights(self):
        folder = self.folder / "stopped"
        with subprocess.Popen([DCP, "train", str(self.config), "--set", f"run.folder={folder}",
                               "--set", "run.iterations=1000000"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            metrics = folder / "metrics.jsonl"
            deadline = time.monotonic() + 30
            while not (metrics.exists() and metrics.read_text().count("\n") >= 3):
                self.assertLess(time.monotonic(), deadline, "no iteration within 30 s")
                self.assertIsNone(process.poll(), "ended by itself")
                time.sleep(0.02)
            # A thread that computes must not be interrupted (apps/dcp/signal_thread.hpp).
            masks = [re.search(r"SigBlk:\s*(\w+)", status.read_text()).group(1)
                     for status in pathlib.Path(f"/proc/{process.pid}/task").glob("*/status")]
            terminate = 1 << (signal.SIGTERM - 1)
            open_to_it = [mask for mask in masks if not int(mask, 16) & terminate]
            self.assertEqual(len(open_to_it), 1, masks)
            process.send_signal(signal.SIGTERM)
            output, errors = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 0, errors)
        self.assertIn("SIGTERM", output)
        self.assertIn("SIGTERM: ending after this iteration", errors)
        lines = read_json_lines(metrics)
        self.assertEqual([line["iteration"] for line in lines], list(range(1, len(lines) + 1)))
        self.succeed("eval", "--weights", folder / "weights", "--dataset", self.dataset)

    def test_export_warns_of_what_transformers_refuses(self):
        folder = self.folder / "odd"
        self.train(folder, "run.iterations=0", "model.heads=6", "model.head_dim=8")
        warning = self.succeed("export", "--run", folder, "--out", self.folder / "odd-out").stderr
        self.assertIn("hidden 32 is not a multiple of heads 6", warning)

    def test_documents_need_not_be_split(self):
        whole = self.train(self.folder / "whole", "data.max_tokens=2147483648",
                           "run.iterations=2", "data.validation_documents=2")
        self.assertEqual(len(whole), 2)
        self.succeed("eval", "--weights", self.folder / "whole/weights", "--dataset", self.dataset)

    def test_two_runs_in_one_folder(self):
        folder = self.folder / "shared"
        with subprocess.Popen([DCP, "train", str(self.config), "--set", f"run.folder={folder}",
                               "--set", "run.iterations=1000000"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                deadline = time.monotonic() + 30
                while not (folder / "metrics.jsonl").exists():
                    self.assertLess(time.monotonic(), deadline)
                    time.sleep(0.02)
                self.refuse(2, ["another process", str(folder)], "train", self.config,
                            "--set", f"run.folder={folder}")
            finally:
                process.kill()

    def test_profile_of_operations(self):
        result = self.succeed("train", self.config, "--profile-ops", "--set", "run.iterations=3",
                              "--set", f"run.folder={self.folder / 'profiled'}")
        for fragment in ("operation", "share", "attention"):
            self.assertIn(fragment, result.stdout)


class WaitingThreads(unittest.TestCase):
    """OpenMP's runtime prints its settings when it is loaded: twice where dcp starts itself again."""

    @staticmethod
    def spin_counts(**chosen):
        environment = {name: value for name, value in os.environ.items()
                       if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
        result = dcp("--version", env={**environment, "OMP_DISPLAY_ENV": "VERBOSE", **chosen})
        assert result.returncode == 0, result.stderr
        return [line.split("=")[1].strip(" '") for line in result.stderr.splitlines()
                if "GOMP_SPINCOUNT" in line]

    def test_they_sleep_unless_the_user_says_otherwise(self):
        self.assertEqual(self.spin_counts()[-1], "0")
        self.assertNotEqual(self.spin_counts(OMP_WAIT_POLICY="ACTIVE"), [])
        self.assertNotEqual(self.spin_counts(OMP_WAIT_POLICY="ACTIVE")[-1], "0")
        self.assertEqual(self.spin_counts(GOMP_SPINCOUNT="123"), ["123"])


class PrintConfig(CommandLineTest):
    def test_values_and_where_they_came_from(self):
        result = self.succeed("train", self.config, "--print-config", "--set", "optimizer.lr=2e-5")
        lines = {line.split(":")[0].strip(): line for line in result.stdout.splitlines()}
        self.assertIn("--set", lines["lr"])
        self.assertIn("tiny.yaml:2", lines["hidden"])
        self.assertIn("default", lines["rope_theta"])
        self.assertFalse(os.path.exists(self.folder / "run"), "printing must not start a run")


if __name__ == "__main__":
    unittest.main()
