#include "core/train/cost_source.hpp"

#include <charconv>

#include <fmt/format.h>

#include "core/base/errors.hpp"
#include "core/plan/problem.hpp"

namespace dcp::train {

std::shared_ptr<const plan::CostModel> cost_model(const config::CostFile& file) {
    return std::make_shared<plan::ClosedForm>(plan::ClosedFormConstants{
        .name = file.name,
        .layers = file.layers,
        .fixed_seconds = file.fixed,
        .token_seconds = file.per_token,
        .squared_token_seconds = file.per_token_squared,
        .forward_share = file.forward_share,
        .per_iteration_seconds = file.per_iteration,
        .communication_token_bytes = file.bytes_per_token,
        .bandwidths = file.bandwidth,
        .latencies = file.latency,
        .static_bytes = file.static_bytes,
        .layer_token_bytes = file.layer_bytes_per_token,
        .checkpoint_token_bytes = file.checkpoint_bytes_per_token,
    });
}

std::vector<int> parse_degrees(const std::string& text, int ranks, const std::string& option) {
    if (text == "any") {
        return plan::any_degrees(ranks);
    }
    if (text == "pow2") {
        return plan::power_of_two_degrees(ranks);
    }
    std::vector<int> degrees;
    int last = 0;
    const char* next = text.data();
    const char* const end = text.data() + text.size();
    while (true) {
        int degree = 0;
        const auto [stop, status] = std::from_chars(next, end, degree);
        if (status != std::errc() || degree <= last || (stop != end && *stop != ',')) {
            throw ConfigError(fmt::format(
                "{} is '{}', expected any, pow2 or a rising list such as 1,2,4", option, text));
        }
        last = degree;
        if (degree <= ranks) {
            degrees.push_back(degree);
        }
        if (stop == end) {
            break;
        }
        next = stop + 1;
    }
    if (degrees.empty()) {
        throw ConfigError(
            fmt::format("{} is '{}': none of them fits on {} ranks", option, text, ranks));
    }
    return degrees;
}

}  // namespace dcp::train
