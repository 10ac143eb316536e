// What the CPU backend found on this processor and will use, for people (`dcp --version`, the start
// of a run).
#pragma once

#include <string>

namespace dcp::kernels {

struct ProcessorReport {
    std::string products;  // library, version and instruction set of the matrix products
    std::string vectors;   // library and instruction set of the loops over rows
};

ProcessorReport describe_processor();

}  // namespace dcp::kernels
