// Softmax cross-entropy of rows of logits that exist already (the model uses head_loss.hpp, which
// never stores all of them).
//
//     loss[t] = log(sum over v of exp(logits[t,v])) - logits[t, target[t]]        (the largest
//     logit is taken out first) d_logits[t,v] = weight[t] * (softmax(logits[t])[v] - (v ==
//     target[t]))
//
// target[t] = -1 masks the token: loss 0, gradient 0 exactly. Rows are independent; logits fp32;
// d_logits fp32 or bf16.
#pragma once

#include "core/base/queue.hpp"
#include "core/base/tensor.hpp"

namespace dcp::kernels {

struct CrossEntropy {
    ConstTensor logits_TV;
    ConstTensor targets_T;  // int32, in [0, V) or -1
    ConstTensor weights_T;  // fp32: what a token's loss counts in the loss of the iteration; needed
                            // with d_logits only
    Tensor loss_T;          // fp32, not weighted
    Tensor d_logits_TV;     // optional; may be logits_TV itself when fp32
};
void cross_entropy(Queue& queue, const CrossEntropy& args);

}  // namespace dcp::kernels
