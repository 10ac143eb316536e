// What every use of oneDNN here shares: the engine, and the rule that oneDNN runs on one thread.
//
// oneDNN would start as many threads as the calling one may; it is called from inside our own
// parallel loops, whose pieces depend on shapes only.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

namespace dcp::kernels::cpu {

const dnnl::engine& cpu_engine();

// While it lives, this thread's calls of oneDNN use no other thread.
class OneThread {
public:
    OneThread();
    ~OneThread();
    OneThread(const OneThread&) = delete;
    OneThread& operator=(const OneThread&) = delete;
    OneThread(OneThread&&) = delete;
    OneThread& operator=(OneThread&&) = delete;

private:
    int before_;
};

}  // namespace dcp::kernels::cpu
