#!/usr/bin/env python3
"""run.device from outside, in a build with CUDA or without: cuda is refused, auto takes the CPU, both say why.
scripts/test.sh runs it with both builds."""

import re
import unittest

from support import CommandLineTest, dcp


class Device(CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.backends = re.search(r"^backends +cpu; CUDA is (.*)$", dcp("--version").stdout, re.M).group(1)

    def why(self):
        if self.backends == "not built in":
            return "this build has no CUDA backend"
        return self.backends if ", but " in self.backends else "no model runs on a GPU in this version"

    def test_cuda_is_refused_in_one_line(self):
        result = self.refuse(2, ["run.device is cuda", self.why(), "set run.device to cpu or auto"],
                             "train", self.config, "--set", "run.device=cuda")
        self.assertEqual(len(result.stderr.splitlines()), 1)
        self.assertEqual(result.stdout, "")

    def test_auto_takes_the_cpu_and_says_so(self):
        result = self.succeed("train", self.config, "--set", "run.device=auto", "--set", "run.iterations=1")
        self.assertRegex(result.stdout, r"(?m)^device +cpu, ")
        self.assertEqual("the CPU trains" in result.stdout, self.backends != "not built in")
        if self.backends != "not built in":
            self.assertRegex(result.stdout, f"(?m)^cuda .*{re.escape(self.why())}.*: the CPU trains$")


if __name__ == "__main__":
    unittest.main()
