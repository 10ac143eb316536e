// What is known of an iteration when it is over, and how it is shown: a line on the console, an
// object in metrics.jsonl.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/arena.hpp"
#include "core/base/queue.hpp"

namespace dcp::train {

struct IterationReport {
    std::int64_t iteration = 0;
    double loss = 0;       // token mean over the global batch, weights before the update
    double grad_norm = 0;  // before clipping
    double learning_rate = 0;
    std::int64_t tokens = 0;
    std::int64_t micro_batches = 0;
    std::vector<std::int64_t> sequences;  // ids, in the order drawn
    double seconds = 0;
    double flops = 0;
    std::int64_t peak_bytes = 0;
    std::optional<double> validation_loss;

    double tokens_per_second() const { return static_cast<double>(tokens) / seconds; }
    double flops_per_second() const { return flops / seconds; }
};

// One line of metrics.jsonl (keys: docs/output.md). No line feed.
std::string to_json(const IterationReport& report, const Arena& arena);
// One line of samples.jsonl.
std::string samples_to_json(const IterationReport& report);

// The console: a line an iteration, and below them, on a terminal, a bar that is drawn again and
// again.
class Console {
public:
    Console(std::int64_t iterations, double peak_flops_per_second);
    void iteration(const IterationReport& report);
    void line(const std::string& text) const;  // anything else; ends the bar first

private:
    std::string eta(const IterationReport& report) const;
    void draw_bar(const IterationReport& report) const;

    std::int64_t iterations_;
    double peak_flops_per_second_;
    double total_seconds_ = 0;
    bool is_terminal_;
};

// The table of `--profile-ops`: seconds and share by operation, the rate of each that multiplies
// and its share of the peak.
std::string format_profile(const OpProfile& profile,
                           double total_seconds,
                           double peak_flops_per_second);

}  // namespace dcp::train
