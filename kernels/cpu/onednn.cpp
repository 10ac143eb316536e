#include "kernels/cpu/onednn.hpp"

#include <omp.h>

namespace dcp::kernels::cpu {

const dnnl::engine& cpu_engine() {
    static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    return engine;
}

OneThread::OneThread() : before_(omp_get_max_threads()) {
    omp_set_num_threads(1);
}

OneThread::~OneThread() {
    omp_set_num_threads(before_);
}

}  // namespace dcp::kernels::cpu
