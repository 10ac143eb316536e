#include "kernels/processor.hpp"

#include "kernels/cpu/processor.hpp"

namespace dcp::kernels {

ProcessorReport describe_processor() {
    return {.products = cpu::describe_products(), .vectors = cpu::describe_vectors()};
}

}  // namespace dcp::kernels
