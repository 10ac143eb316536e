#include "tests/support/reference_model.hpp"

#include <cmath>
#include <numbers>

namespace dcp::test {

namespace {

using Vector = std::vector<double>;
using Rows = std::vector<Vector>;  // one vector a token

class Model {
public:
    Model(const config::ModelConfig& config, const Weights& weights)
        : config_(config), weights_(weights) {}

    Vector losses(const std::vector<std::int32_t>& tokens,
                  const std::vector<std::int32_t>& targets) const {
        Rows x;
        for (const std::int32_t token : tokens) {
            x.push_back(row(weights_.at("model.embed_tokens.weight"), token, config_.hidden));
        }
        for (std::int64_t layer = 0; layer < config_.layers; ++layer) {
            const std::string prefix = "model.layers." + std::to_string(layer) + ".";
            add_attention(prefix, x);
            add_ffn(prefix, x);
        }
        Vector losses;
        for (std::size_t t = 0; t < x.size(); ++t) {
            const Vector logits =
                product(config_.tie_embeddings ? "model.embed_tokens.weight" : "lm_head.weight",
                        norm("model.norm", x[t]));
            double sum = 0;
            for (const double logit : logits) {
                sum += std::exp(logit);
            }
            losses.push_back(
                targets[t] < 0 ? 0 : std::log(sum) - logits[static_cast<std::size_t>(targets[t])]);
        }
        return losses;
    }

private:
    static Vector row(const Vector& matrix, std::int64_t index, std::int64_t columns) {
        return {matrix.begin() + index * columns, matrix.begin() + (index + 1) * columns};
    }

    Vector product(const std::string& name, const Vector& x) const {
        const Vector& w = weights_.at(name);
        Vector y(w.size() / x.size());
        for (std::size_t n = 0; n < y.size(); ++n) {
            for (std::size_t k = 0; k < x.size(); ++k) {
                y[n] += w[n * x.size() + k] * x[k];
            }
        }
        return y;
    }

    Vector norm(const std::string& name, const Vector& x) const {
        const bool layer_norm = config_.norm == config::NormKind::kLayerNorm;
        const auto C = static_cast<double>(x.size());
        double mean = 0;
        for (const double value : x) {
            mean += layer_norm ? value / C : 0;
        }
        double variance = 0;
        for (const double value : x) {
            variance += (value - mean) * (value - mean) / C;
        }
        Vector y(x.size());
        for (std::size_t c = 0; c < x.size(); ++c) {
            y[c] = (x[c] - mean) / std::sqrt(variance + config_.norm_eps) *
                   weights_.at(name + ".weight")[c];
            y[c] += layer_norm ? weights_.at(name + ".bias")[c] : 0;
        }
        return y;
    }

    void rotate(Vector& features, std::size_t position) const {
        const auto D = static_cast<std::size_t>(config_.head_dim);
        for (std::size_t head = 0; head < features.size() / D; ++head) {
            for (std::size_t i = 0; i < D / 2; ++i) {
                const double angle = static_cast<double>(position) *
                                     std::pow(config_.rope_theta, -2.0 * static_cast<double>(i) /
                                                                      static_cast<double>(D));
                double& a = features[head * D + i];
                double& b = features[head * D + i + D / 2];
                const double turned = a * std::cos(angle) - b * std::sin(angle);
                b = b * std::cos(angle) + a * std::sin(angle);
                a = turned;
            }
        }
    }

    void add_attention(const std::string& prefix, Rows& x) const {
        const auto D = static_cast<std::size_t>(config_.head_dim);
        const auto group = static_cast<std::size_t>(config_.heads / config_.kv_heads);
        Rows q, k, v;
        for (std::size_t t = 0; t < x.size(); ++t) {
            const Vector n = norm(prefix + "input_layernorm", x[t]);
            q.push_back(product(prefix + "self_attn.q_proj.weight", n));
            k.push_back(product(prefix + "self_attn.k_proj.weight", n));
            v.push_back(product(prefix + "self_attn.v_proj.weight", n));
            if (config_.positions == config::Positions::kRope) {
                rotate(q.back(), t);
                rotate(k.back(), t);
            }
        }
        for (std::size_t t = 0; t < x.size(); ++t) {
            Vector o(q[t].size());
            const std::size_t visible = config_.causal ? t + 1 : x.size();
            for (std::size_t head = 0; head < static_cast<std::size_t>(config_.heads); ++head) {
                const std::size_t kv = head / group;
                Vector p(visible);
                double sum = 0;
                for (std::size_t j = 0; j < visible; ++j) {
                    double score = 0;
                    for (std::size_t d = 0; d < D; ++d) {
                        score += q[t][head * D + d] * k[j][kv * D + d];
                    }
                    p[j] = std::exp(score / std::sqrt(static_cast<double>(D)));
                    sum += p[j];
                }
                for (std::size_t j = 0; j < visible; ++j) {
                    for (std::size_t d = 0; d < D; ++d) {
                        o[head * D + d] += p[j] / sum * v[j][kv * D + d];
                    }
                }
            }
            const Vector added = product(prefix + "self_attn.o_proj.weight", o);
            for (std::size_t c = 0; c < added.size(); ++c) {
                x[t][c] += added[c];
            }
        }
    }

    void add_ffn(const std::string& prefix, Rows& x) const {
        for (Vector& token : x) {
            const Vector n = norm(prefix + "post_attention_layernorm", token);
            Vector h = product(prefix + "mlp.up_proj.weight", n);
            if (config_.activation == config::Activation::kSwiGlu) {
                const Vector gate = product(prefix + "mlp.gate_proj.weight", n);
                for (std::size_t f = 0; f < h.size(); ++f) {
                    h[f] *= gate[f] / (1 + std::exp(-gate[f]));
                }
            } else {
                for (double& value : h) {
                    value *= 0.5 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) *
                                                  (value + 0.044715 * value * value * value)));
                }
            }
            const Vector added = product(prefix + "mlp.down_proj.weight", h);
            for (std::size_t c = 0; c < added.size(); ++c) {
                token[c] += added[c];
            }
        }
    }

    const config::ModelConfig& config_;
    const Weights& weights_;
};

}  // namespace

std::vector<double> reference_losses(const config::ModelConfig& config,
                                     const Weights& weights,
                                     const std::vector<std::int32_t>& tokens,
                                     const std::vector<std::int32_t>& targets) {
    return Model(config, weights).losses(tokens, targets);
}

}  // namespace dcp::test
