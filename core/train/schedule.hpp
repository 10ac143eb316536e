// Learning rate by iteration. Stepped once an iteration, whatever the number of micro-batches in
// it.
//
//     warm-up     i <= warmup         lr * i / warmup
//     constant                        lr
//     linear      p in (0, 1]         lr * (1 - (1 - final) p)             p = (i - warmup) /
//     (iterations - warmup) cosine                          lr * (final + (1 - final) (1 + cos(pi
//     p)) / 2) wsd         last decay_share    lr until then, then linear to final ("warm-up,
//     stable, decay": Hu et al. 2024, arXiv 2404.06395)
#pragma once

#include <cstdint>

#include "core/config/config.hpp"

namespace dcp::train {

class Schedule {
public:
    Schedule(const config::ScheduleConfig& schedule, double peak, std::int64_t iterations)
        : schedule_(schedule), peak_(peak), iterations_(iterations) {}

    double learning_rate(std::int64_t iteration) const;  // iterations count from 1

private:
    config::ScheduleConfig schedule_;
    double peak_;
    std::int64_t iterations_;
};

}  // namespace dcp::train
