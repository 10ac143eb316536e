// Row-wise operations and products. Attention has a file of its own.
#include "tests/support/reference.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace dcp::test::reference {

namespace {

double logistic(double a) {
    return 1 / (1 + std::exp(-a));
}

}  // namespace

Norm rmsnorm(const Values& x, const Values& weight, double epsilon) {
    const std::size_t C = weight.size();
    Norm result{Values(x.size()), {}, {}};
    for (std::size_t row = 0; row < x.size(); row += C) {
        double squares = 0;
        for (std::size_t c = 0; c < C; ++c) {
            squares += x[row + c] * x[row + c];
        }
        const double r = 1 / std::sqrt(squares / static_cast<double>(C) + epsilon);
        result.inverse.push_back(r);
        for (std::size_t c = 0; c < C; ++c) {
            result.y[row + c] = x[row + c] * r * weight[c];
        }
    }
    return result;
}

NormGradients rmsnorm_backward(const Values& d_y,
                               const Values& x,
                               const Values& weight,
                               double epsilon) {
    const std::size_t C = weight.size();
    const Norm forward = rmsnorm(x, weight, epsilon);
    NormGradients result{Values(x.size()), Values(C), {}};
    for (std::size_t row = 0; row < x.size(); row += C) {
        const double r = forward.inverse[row / C];
        double m = 0;
        for (std::size_t c = 0; c < C; ++c) {
            m += d_y[row + c] * weight[c] * x[row + c] / static_cast<double>(C);
        }
        for (std::size_t c = 0; c < C; ++c) {
            const double g = d_y[row + c] * weight[c];
            result.d_x[row + c] = r * (g - x[row + c] * r * r * m);
            result.d_weight[c] += d_y[row + c] * x[row + c] * r;
        }
    }
    return result;
}

Norm layernorm(const Values& x, const Values& weight, const Values& bias, double epsilon) {
    const std::size_t C = weight.size();
    Norm result{Values(x.size()), {}, {}};
    for (std::size_t row = 0; row < x.size(); row += C) {
        double mean = 0;
        for (std::size_t c = 0; c < C; ++c) {
            mean += x[row + c] / static_cast<double>(C);
        }
        double variance = 0;
        for (std::size_t c = 0; c < C; ++c) {
            variance += (x[row + c] - mean) * (x[row + c] - mean) / static_cast<double>(C);
        }
        const double r = 1 / std::sqrt(variance + epsilon);
        result.mean.push_back(mean);
        result.inverse.push_back(r);
        for (std::size_t c = 0; c < C; ++c) {
            result.y[row + c] = (x[row + c] - mean) * r * weight[c] + bias[c];
        }
    }
    return result;
}

NormGradients layernorm_backward(const Values& d_y,
                                 const Values& x,
                                 const Values& weight,
                                 double epsilon) {
    const std::size_t C = weight.size();
    const Norm forward = layernorm(x, weight, Values(C), epsilon);
    NormGradients result{Values(x.size()), Values(C), Values(C)};
    for (std::size_t row = 0; row < x.size(); row += C) {
        const double mean = forward.mean[row / C];
        const double r = forward.inverse[row / C];
        double a = 0;
        double b = 0;
        for (std::size_t c = 0; c < C; ++c) {
            const double g = d_y[row + c] * weight[c];
            a += g / static_cast<double>(C);
            b += g * (x[row + c] - mean) * r / static_cast<double>(C);
        }
        for (std::size_t c = 0; c < C; ++c) {
            const double n = (x[row + c] - mean) * r;
            result.d_x[row + c] = r * (d_y[row + c] * weight[c] - a - n * b);
            result.d_weight[c] += d_y[row + c] * n;
            result.d_bias[c] += d_y[row + c];
        }
    }
    return result;
}

Values rope(const Values& x,
            const std::vector<std::int32_t>& positions,
            std::int64_t head_dim,
            double theta,
            bool inverse) {
    Values y(x.size());
    const auto D = static_cast<std::size_t>(head_dim);
    const std::size_t row_elems = positions.empty() ? 0 : x.size() / positions.size();
    for (std::size_t head = 0; head < x.size(); head += D) {
        for (std::size_t i = 0; i < D / 2; ++i) {
            const double exponent = -2 * static_cast<double>(i) / static_cast<double>(D);
            const double angle = positions[head / row_elems] * std::pow(theta, exponent);
            const double cosine = std::cos(angle);
            const double sine = inverse ? -std::sin(angle) : std::sin(angle);
            const double a = x[head + i];
            const double b = x[head + i + D / 2];
            y[head + i] = a * cosine - b * sine;
            y[head + i + D / 2] = b * cosine + a * sine;
        }
    }
    return y;
}

Values swiglu(const Values& gate_up, std::int64_t F) {
    const auto columns = static_cast<std::size_t>(F);
    Values y(gate_up.size() / 2);
    for (std::size_t i = 0; i < y.size(); ++i) {
        const std::size_t at = i / columns * 2 * columns + i % columns;
        y[i] = gate_up[at] * logistic(gate_up[at]) * gate_up[at + columns];
    }
    return y;
}

Values swiglu_backward(const Values& d_y, const Values& gate_up, std::int64_t F) {
    const auto columns = static_cast<std::size_t>(F);
    Values d_gate_up(gate_up.size());
    for (std::size_t i = 0; i < d_y.size(); ++i) {
        const std::size_t at = i / columns * 2 * columns + i % columns;
        const double gate = gate_up[at];
        const double s = logistic(gate);
        d_gate_up[at] = d_y[i] * gate_up[at + columns] * s * (1 + gate * (1 - s));
        d_gate_up[at + columns] = d_y[i] * gate * s;
    }
    return d_gate_up;
}

Values gelu(const Values& x) {
    Values y(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double u = std::sqrt(2 / std::numbers::pi) * (x[i] + 0.044715 * std::pow(x[i], 3));
        y[i] = x[i] / 2 * (1 + std::tanh(u));
    }
    return y;
}

Values gelu_backward(const Values& d_y, const Values& x) {
    Values d_x(x.size());
    const double factor = std::sqrt(2 / std::numbers::pi);
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double tanh_u = std::tanh(factor * (x[i] + 0.044715 * std::pow(x[i], 3)));
        const double slope = factor * (1 + 3 * 0.044715 * x[i] * x[i]);
        d_x[i] = d_y[i] * ((1 + tanh_u) / 2 + x[i] / 2 * (1 - tanh_u * tanh_u) * slope);
    }
    return d_x;
}

Values embedding(const std::vector<std::int32_t>& tokens, const Values& table, std::int64_t C) {
    Values x;
    for (const std::int32_t token : tokens) {
        const auto row = table.begin() + token * C;
        x.insert(x.end(), row, row + C);
    }
    return x;
}

Values embedding_backward(const std::vector<std::int32_t>& tokens,
                          const Values& d_x,
                          std::int64_t V,
                          std::int64_t C) {
    const auto columns = static_cast<std::size_t>(C);
    Values d_table(static_cast<std::size_t>(V * C));
    for (std::size_t i = 0; i < d_x.size(); ++i) {
        const auto token = static_cast<std::size_t>(tokens[i / columns]);
        d_table[token * columns + i % columns] += d_x[i];
    }
    return d_table;
}

CrossEntropy cross_entropy(const Values& logits,
                           std::int64_t V,
                           const std::vector<std::int32_t>& targets,
                           const Values& weights) {
    const auto columns = static_cast<std::size_t>(V);
    CrossEntropy result{Values(targets.size()), Values(logits.size())};
    for (std::size_t t = 0; t < targets.size(); ++t) {
        if (targets[t] < 0) {
            continue;
        }
        const double* row = &logits[t * columns];
        const double largest = *std::max_element(row, row + columns);
        double sum = 0;
        for (std::size_t v = 0; v < columns; ++v) {
            sum += std::exp(row[v] - largest);
        }
        const auto target = static_cast<std::size_t>(targets[t]);
        result.loss[t] = std::log(sum) + largest - row[target];
        for (std::size_t v = 0; v < columns; ++v) {
            const double probability = std::exp(row[v] - largest) / sum;
            result.d_logits[t * columns + v] =
                weights[t] * (probability - (v == target ? 1.0 : 0.0));
        }
    }
    return result;
}

Values linear(const Values& x, const Values& w, std::int64_t N, std::int64_t K) {
    const auto n_count = static_cast<std::size_t>(N);
    const auto k_count = static_cast<std::size_t>(K);
    Values y(x.size() / k_count * n_count);
    for (std::size_t i = 0; i < y.size(); ++i) {
        for (std::size_t k = 0; k < k_count; ++k) {
            y[i] += x[i / n_count * k_count + k] * w[i % n_count * k_count + k];
        }
    }
    return y;
}

Values linear_backward_input(const Values& d_y, const Values& w, std::int64_t N, std::int64_t K) {
    const auto n_count = static_cast<std::size_t>(N);
    const auto k_count = static_cast<std::size_t>(K);
    Values d_x(d_y.size() / n_count * k_count);
    for (std::size_t i = 0; i < d_y.size(); ++i) {
        for (std::size_t k = 0; k < k_count; ++k) {
            d_x[i / n_count * k_count + k] += d_y[i] * w[i % n_count * k_count + k];
        }
    }
    return d_x;
}

Values linear_backward_weight(const Values& d_y, const Values& x, std::int64_t N, std::int64_t K) {
    const auto n_count = static_cast<std::size_t>(N);
    const auto k_count = static_cast<std::size_t>(K);
    Values d_w(n_count * k_count);
    for (std::size_t i = 0; i < d_y.size(); ++i) {
        for (std::size_t k = 0; k < k_count; ++k) {
            d_w[i % n_count * k_count + k] += d_y[i] * x[i / n_count * k_count + k];
        }
    }
    return d_w;
}

void adamw(const AdamWSettings& settings, const Values& g, Values& p, Values& m, Values& v) {
    const auto step = static_cast<double>(settings.step);
    for (std::size_t i = 0; i < p.size(); ++i) {
        const double scaled = g[i] * settings.gradient_scale;
        m[i] = settings.beta1 * m[i] + (1 - settings.beta1) * scaled;
        v[i] = settings.beta2 * v[i] + (1 - settings.beta2) * scaled * scaled;
        const double corrected_m = m[i] / (1 - std::pow(settings.beta1, step));
        const double corrected_v = v[i] / (1 - std::pow(settings.beta2, step));
        p[i] -= settings.learning_rate * settings.decay * p[i] +
                settings.learning_rate * corrected_m / (std::sqrt(corrected_v) + settings.epsilon);
    }
}

Values finite_differences(const std::function<double(const Values&)>& function,
                          const Values& point,
                          double step) {
    Values slopes(point.size());
    Values moved = point;
    const auto at = [&](std::size_t index, double offset) {
        moved[index] = point[index] + offset;
        const double value = function(moved);
        moved[index] = point[index];
        return value;
    };
    for (std::size_t index = 0; index < point.size(); ++index) {
        slopes[index] = (at(index, -2 * step) - 8 * at(index, -step) + 8 * at(index, step) -
                         at(index, 2 * step)) /
                        (12 * step);
    }
    return slopes;
}

double dot(const Values& a, const Values& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        sum += a[i] * b[i];
    }
    return sum;
}

}  // namespace dcp::test::reference
