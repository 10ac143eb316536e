// NAME[:key=value,...], mixtures and drifts.
#include <charconv>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "core/base/errors.hpp"
#include "core/lengths/catalogue.hpp"

namespace dcp::lengths {

namespace {

DistributionPtr parse_named(std::string_view text) {
    const std::size_t colon = text.find(':');
    const std::string name(text.substr(0, colon));
    for (const Named& named : catalogue()) {
        if (named.info.name == name) {
            Keys keys(name, colon == std::string_view::npos ? "" : text.substr(colon + 1));
            DistributionPtr made = named.make(keys);
            keys.finish();
            return made;
        }
    }
    std::vector<std::string> names;
    for (const Named& named : catalogue()) {
        names.push_back(named.info.name);
    }
    throw ConfigError(fmt::format("no distribution '{}'; there are {}", name, joined(names)));
}

// Splits at a separator; every part must have something in it.
std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    while (true) {
        const std::string_view part = text.substr(0, text.find(separator));
        if (part.empty()) {
            throw ConfigError(
                fmt::format("a distribution is missing beside a '{}' (mixture: A@0.7+B@0.3; drift: "
                            "A~20000~B, over 20000 sequences)",
                            separator));
        }
        parts.push_back(part);
        if (part.size() == text.size()) {
            return parts;
        }
        text.remove_prefix(part.size() + 1);
    }
}

void require_alike(const Distribution& one, const Distribution& other, std::string_view text) {
    if (one.is_video() != other.is_video()) {
        throw ConfigError(fmt::format(
            "distribution {}: videos (FRAMESxTOKENS) and texts (TOKENS) do not mix: no model takes "
            "both",
            text));
    }
}

DistributionPtr parse_mixture(std::string_view text) {
    const std::vector<std::string_view> terms = split(text, '+');
    if (terms.size() == 1 && text.find('@') == std::string_view::npos) {
        return parse_named(text);
    }
    std::vector<Mixture::Part> parts;
    for (const std::string_view term : terms) {
        const std::size_t at = term.rfind('@');
        double weight = 0;
        if (at != std::string_view::npos) {
            const std::string_view number = term.substr(at + 1);
            const auto [stop, status] =
                std::from_chars(number.data(), number.data() + number.size(), weight);
            if (status != std::errc() || stop != number.data() + number.size()) {
                weight = 0;
            }
        }
        if (!(weight > 0) || !std::isfinite(weight)) {
            throw ConfigError(fmt::format(
                "mixture part '{}': needs a weight above 0 behind @, as in wikipedia@0.7", term));
        }
        parts.push_back({parse_named(term.substr(0, at)), weight});
        require_alike(*parts.front().distribution, *parts.back().distribution, text);
    }
    return std::make_shared<Mixture>(std::move(parts));
}

}  // namespace

DistributionPtr parse_distribution(std::string_view text) {
    if (text.empty()) {
        return parse_named(text);
    }
    if (text.find('~') == std::string_view::npos) {
        return parse_mixture(text);
    }
    const std::vector<std::string_view> parts = split(text, '~');
    std::int64_t sequences = 0;
    if (parts.size() == 3) {
        const std::string_view number = parts[1];
        const auto [stop, status] =
            std::from_chars(number.data(), number.data() + number.size(), sequences);
        if (status != std::errc() || stop != number.data() + number.size()) {
            sequences = 0;
        }
    }
    if (sequences < 1) {
        throw ConfigError(fmt::format(
            "drift '{}': write A~20000~B, from A to B during the first 20000 sequences", text));
    }
    DistributionPtr from = parse_mixture(parts[0]);
    DistributionPtr to = parse_mixture(parts[2]);
    require_alike(*from, *to, text);
    return std::make_shared<Drift>(std::move(from), std::move(to), sequences);
}

std::vector<DistributionInfo> known_distributions() {
    std::vector<DistributionInfo> all;
    for (const Named& named : catalogue()) {
        all.push_back(named.info);
    }
    return all;
}

}  // namespace dcp::lengths
