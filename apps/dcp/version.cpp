#include <fmt/format.h>

#include "apps/dcp/commands.hpp"
#include "core/base/cuda/availability.hpp"
#include "kernels/processor.hpp"

namespace dcp {

namespace {

#ifdef __clang__
constexpr const char* kCompiler = "clang " __clang_version__;
#else
constexpr const char* kCompiler = "g++ " __VERSION__;
#endif

}  // namespace

std::string describe_version() {
    const kernels::ProcessorReport processor = kernels::describe_processor();
    return fmt::format(
        "dcp {}\n"
        "build     {}, {}\n"
        "backends  cpu; CUDA is {}\n"
        "products  {}\n"
        "vectors   {}",
        DCP_VERSION, DCP_BUILD_TYPE, kCompiler, cuda::availability().description,
        processor.products, processor.vectors);
}

}  // namespace dcp
