// clang-format off: the choice of targets comes before every Highway header
#include "kernels/cpu/hwy_targets.hpp"
// clang-format on
#include <array>
#include <utility>

#include <fmt/format.h>
#include <hwy/targets.h>
#include <oneapi/dnnl/dnnl.hpp>

#include "kernels/cpu/processor.hpp"

namespace dcp::kernels::cpu {

namespace {

std::string name_of(dnnl::cpu_isa isa) {
    using dnnl::cpu_isa;
    constexpr std::array<std::pair<cpu_isa, const char*>, 8> kNames{
        {{cpu_isa::sse41, "SSE4.1"},
         {cpu_isa::avx, "AVX"},
         {cpu_isa::avx2, "AVX2"},
         {cpu_isa::avx2_vnni, "AVX2 with VNNI"},
         {cpu_isa::avx512_core, "AVX-512"},
         {cpu_isa::avx512_core_vnni, "AVX-512 with VNNI"},
         {cpu_isa::avx512_core_bf16, "AVX-512 with BF16"},
         {cpu_isa::avx512_core_amx, "AMX"}}};
    for (const auto& [known, name] : kNames) {
        if (known == isa) {
            return name;
        }
    }
    return "its portable code";
}

}  // namespace

std::string describe_products() {
    const dnnl_version_t* version = dnnl::version();
    return fmt::format("oneDNN {}.{}.{}, {}", version->major, version->minor, version->patch,
                       name_of(dnnl::get_effective_cpu_isa()));
}

std::string describe_vectors() {
    // The best target is the lowest bit that is both compiled in and supported.
    const std::int64_t usable = hwy::SupportedTargets() & HWY_TARGETS;
    return fmt::format("Highway, {}", hwy::TargetName(usable & -usable));
}

}  // namespace dcp::kernels::cpu
