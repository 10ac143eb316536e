// Block products by oneDNN, for processors with AMX.
//
// A primitive is made once for each set of sizes, for one thread, and is then run by many threads
// at a time, each with memory objects and scratch memory of its own: oneDNN's own scratch memory is
// that of the thread that made a primitive, and other threads would run out of it.
#include <algorithm>
#include <cstddef>
#include <memory>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include "core/base/errors.hpp"
#include "kernels/cpu/attention_products.hpp"
#include "kernels/cpu/onednn.hpp"

namespace dcp::kernels::cpu {
namespace {

using Memory = dnnl::memory;

struct Kernel {
    Memory::desc a;
    Memory::desc b;
    Memory::desc c;
    Memory::desc scratchpad;
    dnnl::matmul product;
};

// What one thread runs kernels with; the operands' addresses are set anew for every call.
class Runner {
public:
    void run(const Kernel& kernel, const void* a, const void* b, float* c) {
        auto found = operands_.find(&kernel);
        if (found == operands_.end()) {
            const auto make = [](const Memory::desc& desc) {
                return Memory(desc, cpu_engine(), DNNL_MEMORY_NONE);
            };
            std::unordered_map<int, Memory> made{{DNNL_ARG_SRC, make(kernel.a)},
                                                 {DNNL_ARG_WEIGHTS, make(kernel.b)},
                                                 {DNNL_ARG_DST, make(kernel.c)},
                                                 {DNNL_ARG_SCRATCHPAD, make(kernel.scratchpad)}};
            found = operands_.emplace(&kernel, std::move(made)).first;
            // Kept for the life of the thread; the largest of a bounded set of kernels.
            scratch_.resize(std::max(scratch_.size(), kernel.scratchpad.get_size() + kAlignment));
        }
        auto& operands = found->second;
        operands.at(DNNL_ARG_SRC).set_data_handle(const_cast<void*>(a));
        operands.at(DNNL_ARG_WEIGHTS).set_data_handle(const_cast<void*>(b));
        operands.at(DNNL_ARG_DST).set_data_handle(c);
        operands.at(DNNL_ARG_SCRATCHPAD).set_data_handle(aligned_scratch());
        const OneThread one_thread;
        kernel.product.execute(stream_, operands);
    }

private:
    static constexpr std::size_t kAlignment = 64;

    void* aligned_scratch() {
        void* place = scratch_.data();
        std::size_t room = scratch_.size();
        return std::align(kAlignment, 0, place, room);
    }

    std::vector<std::byte> scratch_ = std::vector<std::byte>(kAlignment);
    dnnl::stream stream_{cpu_engine()};
    std::unordered_map<const Kernel*, std::unordered_map<int, Memory>> operands_;
};

void call_kernel(const void* kernel, const void* a, const void* b, float* c) {
    thread_local Runner runner;
    runner.run(*static_cast<const Kernel*>(kernel), a, b, c);
}

class OneDnnProducts final : public BlockProducts {
public:
    OneDnnProducts(DType dtype, const BlockShape& shape) : BlockProducts(shape) {
        const OneThread one_thread;
        const auto type =
            dtype == DType::kFloat32 ? Memory::data_type::f32 : Memory::data_type::bf16;
        try {
            build([&](const Sizes& sizes) { return make(type, sizes); });
        } catch (const dnnl::error& error) {
            throw UnsupportedError(
                fmt::format("attention: no {} products on this processor (oneDNN: {}); use dtype: "
                            "fp32",
                            name(dtype), error.message));
        }
    }

private:
    BlockProduct make(Memory::data_type type, const Sizes& sizes) {
        const Memory::desc a({sizes.m, sizes.k}, type, {sizes.row_a, 1});
        const Memory::desc b({sizes.k, sizes.n}, type, {sizes.row_b, 1});
        const Memory::desc c({sizes.m, sizes.n}, Memory::data_type::f32, {sizes.row_c, 1});
        dnnl::primitive_attr attributes;
        attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
        if (sizes.add) {
            dnnl::post_ops sum;
            sum.append_sum(1.0F);
            attributes.set_post_ops(sum);
        }
        const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(a, b, c), attributes,
                                                       cpu_engine());
        kernels_.push_back(std::make_unique<Kernel>(
            Kernel{a, b, c, description.scratchpad_desc(), dnnl::matmul(description)}));
        return {call_kernel, kernels_.back().get()};
    }

    std::vector<std::unique_ptr<Kernel>> kernels_;
};

}  // namespace

std::unique_ptr<BlockProducts> make_onednn_products(DType dtype, const BlockShape& shape) {
    return std::make_unique<OneDnnProducts>(dtype, shape);
}

}  // namespace dcp::kernels::cpu
