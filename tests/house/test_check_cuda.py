#!/usr/bin/env python3
"""check_cuda.py reports each kind of fault, and nothing in right code."""

import unittest

from check_cuda import check_file

RIGHT = """
void launch(cudaStream_t stream, const Args& args) {
    if (args.wide) {
        DCP_LAUNCH((kernel<int, 4>), dim3(1, 2), 128, bytes(1, 2), stream, args, 0);
    } else {
        DCP_LAUNCH((kernel<int, 2>), 1, 128, 0, stream, args);  // not cudaMemcpy, which waits
    }
    check_launch("kernel", stream);
    check(cudaMemcpyAsync(a, b, size(1, 2), cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");
    const cudaError_t state = cudaEventQuery(event);
}
"""


class Faults(unittest.TestCase):
    def expect(self, old, new, fragment, line):
        self.assertIn(old, RIGHT)
        findings = check_file("kernels/cuda/x.cu", RIGHT.replace(old, new, 1))
        self.assertEqual(len(findings), 1, findings)
        self.assertIn(fragment, findings[0])
        self.assertIn(f"x.cu:{line}:", findings[0])

    def test_right_code(self):
        self.assertEqual(check_file("kernels/cuda/x.cu", RIGHT), [])

    def test_launch_on_the_default_stream(self):
        self.expect("bytes(1, 2), stream, args", "bytes(1, 2), 0, args", "DCP_LAUNCH without a stream", 4)
        self.expect("128, 0, stream, args);", "128, 0, nullptr, args);", "DCP_LAUNCH without a stream", 6)

    def test_launch_without_the_macro(self):
        self.expect("DCP_LAUNCH((kernel<int, 2>), 1, 128, 0, stream, args)", "kernel<<<1, 128>>>(args)",
                    "without DCP_LAUNCH", 6)

    def test_unchecked_launch(self):
        findings = check_file("kernels/cuda/x.cu", RIGHT.replace('check_launch("kernel", stream);', ""))
        self.assertEqual(len(findings), 2)
        self.assertIn("without check_launch", findings[0])

    def test_calls(self):
        self.expect("cudaMemcpyHostToDevice, stream)", "cudaMemcpyHostToDevice)", "cudaMemcpyAsync without", 9)
        self.expect("cudaMemcpyAsync(a, b, size(1, 2), cudaMemcpyHostToDevice, stream)",
                    "cudaMemcpy(a, b, 4, cudaMemcpyHostToDevice)", "cudaMemcpy works on the default", 9)
        self.expect("const cudaError_t state = cudaEventQuery", "cudaEventQuery",
                    "result of cudaEventQuery is ignored", 10)

    def test_static_shared_memory(self):
        self.expect("    if (args.wide)", "    __shared__ float x[4];\n    if (args.wide)", "DCP_SHARED", 3)


if __name__ == "__main__":
    unittest.main()
