#!/usr/bin/env python3
"""check_includes.py must notice what it is there for: plants each kind of fault in a small tree."""

import tempfile
import unittest
from pathlib import Path

from check_includes import check


class CheckIncludes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.write("core/base/errors.hpp", "#pragma once\n#include <string>\n")
        self.write("core/model/block.hpp", '#include "kernels/linear.hpp"\n')
        self.write("kernels/linear.hpp", '#include "core/base/errors.hpp"\n')
        self.write("kernels/cpu/linear.cpp", '#include <omp.h>\n#include "kernels/linear.hpp"\n')
        self.write("tests/unit/test_block.cpp",
                   '#include <catch2/catch.hpp>\n#include "core/model/block.hpp"\n')

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def expect(self, name, text, *fragments):
        self.write(name, text)
        findings = check(self.root)
        self.assertEqual(len(findings), 1, findings)
        for fragment in (name, *fragments):
            self.assertIn(fragment, findings[0])

    def test_clean_tree(self):
        self.assertEqual(check(self.root), [])

    def test_upward(self):
        self.expect("core/base/x.hpp", '#include "kernels/linear.hpp"\n', "x.hpp:1",
                    "core/base must not include kernels")

    def test_siblings(self):
        self.expect("core/data/x.cpp", '\n# include "core/model/block.hpp"\n', "x.cpp:2")
        self.write("core/data/x.cpp", "")
        self.expect("comm/x.hpp", '#include "kernels/linear.hpp"\n')

    def test_backend_only_through_its_contract(self):
        self.expect("core/model/x.cpp", '#include "kernels/cpu/rows.hpp"\n')

    def test_plan_sees_only_base(self):
        self.write("core/config/config.hpp", "")
        self.expect("core/plan/x.cpp", '#include "core/config/config.hpp"\n')

    def test_libraries(self):
        for name, header in [("core/train/x.cpp", "mpi.h"), ("kernels/x.cpp", "omp.h"),
                             ("core/data/x.cpp", "yaml-cpp/yaml.h"), ("core/base/x.hpp", "zlib.h"),
                             ("core/train/x.hpp", "CLI/CLI.hpp"), ("kernels/cpu/x.cpp", "nccl.h"),
                             ("core/model/x.cpp", "libxsmm.h"), ("apps/dcp/x.cpp", "cuda_runtime.h"),
                             ("core/base/x.cpp", "catch2/catch.hpp"),
                             ("core/model/x.hpp", "oneapi/dnnl/dnnl.hpp")]:
            with self.subTest(name=name, header=header):
                self.expect(name, f"#include <{header}>\n", header)
                (self.root / name).unlink()

    def test_quotes_do_not_hide_a_library(self):
        self.expect("core/model/x.cpp", '#include "hwy/highway.h"\n', "kernels/cpu")
        self.write("core/model/x.cpp", "")
        self.write("kernels/cpu/x.cpp", '#include "hwy/highway.h"\n')
        self.assertEqual(check(self.root), [])

    def test_relative_and_angle_includes(self):
        self.expect("core/model/x.cpp", '#include "block.hpp"\n', "repository root")
        self.expect("core/model/x.cpp", "#include <core/model/block.hpp>\n", "is ours")

    def test_unknown_folder(self):
        self.expect("core/misc/x.cpp", "", "no layer")

    def test_length(self):
        self.expect("core/model/x.cpp", "\n" * 601, "601 lines")

    def test_machine_path(self):
        self.expect("scripts/x.sh", "cd /home/" + "somebody/dcp\n", "x.sh:1")


if __name__ == "__main__":
    unittest.main()
