#include "core/profile/request.hpp"

#include <algorithm>
#include <cmath>

namespace dcp::profile {

std::vector<std::int64_t> Request::lengths() const {
    std::vector<std::int64_t> lengths(static_cast<std::size_t>(sequences), tokens / sequences);
    std::fill_n(lengths.begin(), tokens % sequences, tokens / sequences + 1);
    return lengths;
}

plan::Load Request::load() const {
    plan::Load load;
    for (const std::int64_t length : lengths()) {
        load += plan::load_of(length);
    }
    return load;
}

Request request_for(const plan::Load& load, const plan::Strategy& strategy) {
    const auto tokens = static_cast<double>(load.tokens);
    const double sequences = tokens * tokens / std::max(load.squared_tokens, tokens);
    return {.tokens = load.tokens,
            .sequences = std::clamp<std::int64_t>(std::llround(sequences), 1, load.tokens),
            .strategy = strategy};
}

}  // namespace dcp::profile
