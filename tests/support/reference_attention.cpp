// Attention with every score of a query in memory: the definition, not the algorithm.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/support/reference.hpp"

namespace dcp::test::reference {

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::size_t index_of(std::int64_t row, std::int64_t head, std::int64_t heads, std::int64_t D) {
    return static_cast<std::size_t>((row * heads + head) * D);
}

double dot_of(
    const Values& a, std::size_t a_begin, const Values& b, std::size_t b_begin, std::int64_t D) {
    double sum = 0;
    for (std::size_t d = 0; d < static_cast<std::size_t>(D); ++d) {
        sum += a[a_begin + d] * b[b_begin + d];
    }
    return sum;
}

void add_scaled(double factor,
                const Values& from,
                std::size_t from_begin,
                Values& to,
                std::size_t to_begin,
                std::int64_t D) {
    for (std::size_t d = 0; d < static_cast<std::size_t>(D); ++d) {
        to[to_begin + d] += factor * from[from_begin + d];
    }
}

// visit(query row, number of keys that it sees, span) for all queries of all spans
template <class Visit>
void for_each_query(const AttentionProblem& problem, Visit visit) {
    for (const kernels::AttentionSpan& span : problem.spans) {
        for (std::int64_t i = 0; i < span.q_count; ++i) {
            std::int64_t visible = span.k_count;
            if (problem.causal) {
                visible = std::min(visible, std::max<std::int64_t>(i + span.q_offset + 1, 0));
            }
            visit(span.q_begin + i, visible, span);
        }
    }
}

// NaN everywhere but in the rows that a span names, which are zero.
Values zeros_in_spans(const AttentionProblem& problem,
                      std::int64_t rows,
                      std::int64_t row_elems,
                      bool of_keys) {
    Values values(static_cast<std::size_t>(rows * row_elems), kNaN);
    for (const kernels::AttentionSpan& span : problem.spans) {
        const std::int64_t begin = of_keys ? span.k_begin : span.q_begin;
        const std::int64_t count = of_keys ? span.k_count : span.q_count;
        std::fill_n(values.begin() + begin * row_elems, count * row_elems, 0.0);
    }
    return values;
}

}  // namespace

Attention attention(const AttentionProblem& problem,
                    const Values& q,
                    const Values& k,
                    const Values& v) {
    const std::int64_t H = problem.num_heads;
    const std::int64_t G = problem.num_kv_heads;
    const std::int64_t D = problem.head_dim;
    Attention result{zeros_in_spans(problem, problem.num_queries, H * D, false),
                     Values(static_cast<std::size_t>(H * problem.num_queries), kNaN)};
    for_each_query(problem, [&](std::int64_t row, std::int64_t visible, const auto& span) {
        for (std::int64_t h = 0; h < H; ++h) {
            const std::int64_t g = h / (H / G);
            const std::size_t query = index_of(row, h, H, D);
            Values scores;
            double largest = -std::numeric_limits<double>::infinity();
            for (std::int64_t j = 0; j < visible; ++j) {
                const std::size_t key = index_of(span.k_begin + j, g, G, D);
                scores.push_back(problem.scale * dot_of(q, query, k, key, D));
                largest = std::max(largest, scores.back());
            }
            double sum = 0;
            for (const double score : scores) {
                sum += std::exp(score - largest);
            }
            const double lse = visible > 0 ? largest + std::log(sum) : largest;
            result.lse[static_cast<std::size_t>(h * problem.num_queries + row)] = lse;
            for (std::int64_t j = 0; j < visible; ++j) {
                const double p = std::exp(scores[static_cast<std::size_t>(j)] - lse);
                add_scaled(p, v, index_of(span.k_begin + j, g, G, D), result.o, query, D);
            }
        }
    });
    return result;
}

AttentionGradients attention_backward(const AttentionProblem& problem,
                                      const Values& q,
                                      const Values& k,
                                      const Values& v,
                                      const Values& d_o) {
    const std::int64_t H = problem.num_heads;
    const std::int64_t G = problem.num_kv_heads;
    const std::int64_t D = problem.head_dim;
    const Attention forward = attention(problem, q, k, v);
    AttentionGradients result{zeros_in_spans(problem, problem.num_queries, H * D, false),
                              zeros_in_spans(problem, problem.num_keys, G * D, true),
                              zeros_in_spans(problem, problem.num_keys, G * D, true)};
    for_each_query(problem, [&](std::int64_t row, std::int64_t visible, const auto& span) {
        for (std::int64_t h = 0; h < H; ++h) {
            const std::int64_t g = h / (H / G);
            const std::size_t query = index_of(row, h, H, D);
            const double lse = forward.lse[static_cast<std::size_t>(h * problem.num_queries + row)];
            const double delta = visible > 0 ? dot_of(d_o, query, forward.o, query, D) : 0;
            for (std::int64_t j = 0; j < visible; ++j) {
                const std::size_t key = index_of(span.k_begin + j, g, G, D);
                const double p = std::exp(problem.scale * dot_of(q, query, k, key, D) - lse);
                const double ds = p * (dot_of(d_o, query, v, key, D) - delta);
                add_scaled(p, d_o, query, result.d_v, key, D);
                add_scaled(problem.scale * ds, k, key, result.d_q, query, D);
                add_scaled(problem.scale * ds, q, query, result.d_k, key, D);
            }
        }
    });
    return result;
}

}  // namespace dcp::test::reference
