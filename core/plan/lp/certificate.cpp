// The part of the LP bound that has to be right: no number of the solver is trusted here.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/plan/lp/price_program.hpp"

namespace dcp::plan::lp {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// What a rank of the pattern may earn at most with these multipliers of its two places.
double most_earned(const Pattern& pattern,
                   double fixed_seconds,
                   double makespan,
                   const double* open,
                   const double* work) {
    if (fixed_seconds <= 0 && pattern.stands_for_more && open[kOther] > 0) {
        return kNever;
    }
    double most = 0;
    for (const auto& [count, longest] : corners(pattern, fixed_seconds, makespan * kSlack)) {
        most = std::max(
            most,
            (pattern.anchor ? open[kAnchor] : 0) +
                std::max(0.0, longest - fixed_seconds) * work[kAnchor] + count * open[kOther] +
                std::max(0.0, makespan * kSlack - longest - count * fixed_seconds) * work[kOther]);
    }
    return most;
}

class Pricing {
public:
    Pricing(const Kinds& kinds, const Lengths& lengths, std::size_t num_places)
        : kinds_(kinds),
          lengths_(lengths),
          prices_(num_places, std::vector<Certificate::Price>(lengths.tokens.size())) {}

    // A kind whose right the program shared: scaled so that all of it is used and no more.
    void offer(std::size_t index, double work, double right, const RightShares& shared) {
        const Layout& layout = kinds_.layout(index);
        double used = 0;
        for (const double part : shared.by_part) {
            used += part;
        }
        for (const auto& [size, part] : shared.own) {
            used += part * std::min(count_of(size), std::floor(layout.most_tokens / size.tokens));
        }
        if (used <= 0) {
            offer(index, work, right);
            return;
        }
        const double scale = right / used;
        for (std::size_t i = 0; i < lengths_.tokens.size(); ++i) {
            const Size size = size_at(lengths_, i);
            if (!kinds_.holds(index, size)) {
                continue;
            }
            const Shares shares = kinds_.shares(index, size);
            double paid = 0;
            for (std::size_t part = 0; part < Shares::kCount; ++part) {
                paid += shared.by_part[part] * shares.parts[part];
            }
            if (const auto own = shared.own.find(size); own != shared.own.end()) {
                paid += own->second;
            }
            take(i, index, work * kinds_.rank_seconds(index, size) + scale * paid);
        }
    }

    // Any other kind: by tokens, or by time where that takes more. One way for all lengths.
    void offer(std::size_t index, double work, double right) {
        const Layout& layout = kinds_.layout(index);
        const double room = kinds_.kind(index).room_seconds;
        double by_tokens = 0;
        double by_time = 0;
        for (std::size_t i = 0; i < lengths_.tokens.size(); ++i) {
            const Size size = size_at(lengths_, i);
            if (kinds_.holds(index, size)) {
                by_tokens += lengths_.counts[i] * size.tokens / layout.most_tokens;
                by_time += room > 0 ? lengths_.counts[i] * layout.work(size) / room : 0;
            }
        }
        const bool time_decides = by_time > by_tokens;
        const double each_second = work * layout.degree + (time_decides ? right / room : 0);
        const double each_token = time_decides ? 0 : right / layout.most_tokens;
        for (std::size_t i = 0; i < lengths_.tokens.size(); ++i) {
            const Size size = size_at(lengths_, i);
            if (kinds_.holds(index, size)) {
                take(i, index, each_second * layout.work(size) + each_token * size.tokens);
            }
        }
    }

    Certificate result() && {
        Certificate certificate;
        for (std::size_t i = 0; i < lengths_.tokens.size(); ++i) {
            double least = kNever;
            for (const std::vector<Certificate::Price>& place : prices_) {
                least = std::min(least, place[i].price);
            }
            certificate.total += lengths_.counts[i] * least;
        }
        certificate.prices = std::move(prices_);
        return certificate;
    }

private:
    double count_of(const Size& size) const {
        double count = 0;
        std::size_t i = lengths_.tokens.size();
        while (i > 0 && lengths_.tokens[i - 1] >= size.tokens) {
            --i;
            count += size_at(lengths_, i) == size ? lengths_.counts[i] : 0;
        }
        return count;
    }
    void take(std::size_t length, std::size_t index, double price) {
        Certificate::Price& cheapest = prices_[kinds_.kind(index).place][length];
        if (price < cheapest.price) {
            cheapest = {.price = price, .kind = index};
        }
    }

    const Kinds& kinds_;
    const Lengths& lengths_;
    std::vector<std::vector<Certificate::Price>> prices_;
};

}  // namespace

Certificate certify(const Kinds& kinds,
                    const std::vector<Pattern>& patterns,
                    double fixed_seconds,
                    double makespan,
                    const Lengths& lengths,
                    const Multipliers& multipliers) {
    Pricing pricing(kinds, lengths, kRoles * patterns.size());
    std::vector<double> scales;
    for (std::size_t pattern = 0; pattern < patterns.size(); ++pattern) {
        const std::size_t first = place_of(pattern, kAnchor);
        const double most = most_earned(patterns[pattern], fixed_seconds, makespan,
                                        &multipliers.open[first], &multipliers.work[first]);
        scales.push_back(most > 0 && most < kNever ? 1 / most : 0);
    }
    for (std::size_t index = 0; index < kinds.size(); ++index) {
        const std::size_t place = kinds.kind(index).place;
        const Layout& layout = kinds.layout(index);
        const double open = scales[place / kRoles] * multipliers.open[place];
        const double work = scales[place / kRoles] * multipliers.work[place];
        const double right = layout.degree * (open + work * layout.extra_seconds);
        const auto shared = multipliers.rights.find(index);
        if (shared == multipliers.rights.end()) {
            pricing.offer(index, work, right);
        } else {
            pricing.offer(index, work, right, shared->second);
        }
    }
    return std::move(pricing).result();
}

}  // namespace dcp::plan::lp
