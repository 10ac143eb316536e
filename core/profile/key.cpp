#include "core/profile/key.hpp"

#include <fstream>
#include <span>
#include <thread>

#include <fmt/format.h>

#include "comm/control.hpp"
#include "kernels/processor.hpp"

namespace dcp::profile {

namespace {

std::string describe(const config::ModelConfig& model) {
    return fmt::format(
        "{}, {} layers, hidden {}, {} heads, {} key and value heads, head_dim {}, ffn {}, vocab "
        "{}, {}, {}, {}{}{}",
        model.kind, model.layers, model.hidden, model.heads, model.kv_heads, model.head_dim,
        model.ffn, model.vocab,
        model.norm == config::NormKind::kLayerNorm ? "layernorm" : "rmsnorm",
        model.activation == config::Activation::kSwiGlu ? "swiglu" : "gelu",
        model.positions == config::Positions::kRope ? "rope" : "no positions",
        model.causal ? ", causal" : "", model.tie_embeddings ? ", tied embeddings" : "");
}

std::string describe(const std::vector<plan::Strategy>& strategies) {
    std::string text;
    for (const plan::Strategy& strategy : strategies) {
        text += fmt::format("{}{}x{}", text.empty() ? "" : ", ", strategy.ulysses, strategy.ring);
    }
    return text;
}

}  // namespace

Key make_key(const Setting& setting) {
    const kernels::ProcessorReport processor = kernels::describe_processor();
    return {{"model", describe(setting.model)},
            {"precision", std::string(name(setting.compute))},
            {"backend", "cpu"},
            {"device", setting.device},
            {"threads", fmt::format("{} a rank", setting.threads)},
            {"libraries",
             fmt::format("dcp {}; {}; {}{}{}", DCP_VERSION, processor.products, processor.vectors,
                         setting.messages.empty() ? "" : "; ", setting.messages)},
            {"strategies", describe(setting.strategies)},
            {"recomputation", setting.recomputes ? "timed" : "not timed"},
            {"topology", setting.topology}};
}

std::string describe_device() {
    std::ifstream info("/proc/cpuinfo");
    std::string model = "unknown processor";
    for (std::string line; std::getline(info, line);) {
        if (line.starts_with("model name") && line.find(": ") != std::string::npos) {
            model = line.substr(line.find(": ") + 2);
            break;
        }
    }
    return fmt::format("{}, {} processors", model, std::thread::hardware_concurrency());
}

std::string describe_difference(const Key& profile, const Key& here) {
    std::string text;
    const auto add = [&](const std::string& key, const std::string& then, const std::string& now) {
        text += fmt::format("{}{}: '{}' in the profile, '{}' here", text.empty() ? "" : "; ", key,
                            then, now);
    };
    for (const auto& [key, now] : here) {
        const auto then = profile.find(key);
        if (then == profile.end()) {
            add(key, "", now);
        } else if (then->second != now) {
            add(key, then->second, now);
        }
    }
    for (const auto& [key, then] : profile) {
        if (!here.contains(key)) {
            add(key, then, "");
        }
    }
    return text;
}

std::string file_name(const Key& key) {
    std::string text;
    for (const auto& [name, value] : key) {
        text += fmt::format("{}\n{}\n", name, value);
    }
    return fmt::format("{:016x}.json", comm::hash_bytes(std::as_bytes(std::span(text))));
}

}  // namespace dcp::profile
