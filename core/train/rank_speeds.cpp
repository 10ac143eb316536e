#include "core/train/rank_speeds.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>

namespace dcp::train {

namespace {

constexpr std::size_t kIterations = 3;        // the median of so many
constexpr std::size_t kFewestIterations = 2;  // that say anything
constexpr double kClearlyDifferent = 0.1;     // log of slowest over fastest
constexpr double kAlikeAgain = 0.05;
constexpr double kMostSpeed = 16;    // or slow: what is measured beyond is no speed
constexpr double kRemembered = 0.8;  // of what is thought of a rank, an iteration without news
constexpr int kSweeps = 4;  // what steps are expected to take, and how slow ranks are, in turn

double median(std::deque<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

// What a step's ranks would take if all were of speed 1, by how slow they are thought to be.
std::map<int, double> expected_seconds(const std::vector<ComputeSample>& samples,
                                       const std::vector<double>& logs) {
    struct Mean {
        double sum = 0;
        int count = 0;
    };
    std::map<int, Mean> shared;
    std::map<int, double> expected;
    for (const ComputeSample& sample : samples) {
        if (sample.predicted_seconds > 0) {
            expected[sample.step] = sample.predicted_seconds;
        } else {
            Mean& mean = shared[sample.step];
            mean.sum += std::log(sample.seconds) - logs[static_cast<std::size_t>(sample.rank)];
            ++mean.count;
        }
    }
    for (const auto& [step, mean] : shared) {
        expected[step] = std::exp(mean.sum / mean.count);
    }
    return expected;
}

}  // namespace

RankSpeeds::RankSpeeds(int ranks) : logs_(static_cast<std::size_t>(ranks)) {}

std::vector<double> RankSpeeds::smoothed() const {
    std::vector<double> logs;
    for (const std::deque<double>& rank : logs_) {
        logs.push_back(rank.empty() ? 0 : median(rank));
    }
    return logs;
}

void RankSpeeds::learn(const std::vector<ComputeSample>& samples) {
    std::vector<double> logs = smoothed();
    std::vector<double> seconds(logs.size());
    for (const ComputeSample& sample : samples) {
        if (sample.seconds <= 0) {
            return;  // a clock that went backwards says nothing
        }
        seconds[static_cast<std::size_t>(sample.rank)] += sample.seconds;
    }
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
        const std::map<int, double> of_step = expected_seconds(samples, logs);
        std::vector<double> expected(logs.size());
        for (const ComputeSample& sample : samples) {
            expected[static_cast<std::size_t>(sample.rank)] += of_step.at(sample.step);
        }
        for (std::size_t rank = 0; rank < logs.size(); ++rank) {
            if (seconds[rank] > 0) {
                logs[rank] = std::log(seconds[rank] / expected[rank]);
            }
        }
    }
    // Where all ranks are slower than predicted it is the prediction that is wrong.
    double mean = 0;
    int ran = 0;
    for (std::size_t rank = 0; rank < logs.size(); ++rank) {
        mean += seconds[rank] > 0 ? logs[rank] : 0;
        ran += seconds[rank] > 0 ? 1 : 0;
    }
    for (std::size_t rank = 0; rank < logs.size(); ++rank) {
        std::deque<double>& recent = logs_[rank];
        if (seconds[rank] > 0 && ran > 1) {
            recent.push_back(logs[rank] - mean / ran);
        } else if (!recent.empty()) {
            // Nothing compares it with others. A rank that is thought so slow that it gets nothing
            // to do would never be seen again.
            recent.push_back(kRemembered * median(recent));
        }
        if (recent.size() > kIterations) {
            recent.pop_front();
        }
    }
    compare();
}

void RankSpeeds::start(const std::vector<double>& logs) {
    for (std::size_t rank = 0; rank < logs.size(); ++rank) {
        logs_[rank].assign(kFewestIterations, logs[rank]);
    }
    compare();
}

void RankSpeeds::compare() {
    const std::vector<double> now = smoothed();
    const auto [fastest, slowest] = std::minmax_element(now.begin(), now.end());
    const double apart = *slowest - *fastest;
    const bool is_known = std::all_of(logs_.begin(), logs_.end(), [](const auto& rank) {
        return rank.size() >= kFewestIterations;
    });
    are_different_ = is_known && apart > (are_different_ ? kAlikeAgain : kClearlyDifferent);
}

std::vector<double> RankSpeeds::speeds() const {
    std::vector<double> speeds;
    if (are_different_) {
        for (const double log : smoothed()) {
            speeds.push_back(std::clamp(std::exp(-log), 1 / kMostSpeed, kMostSpeed));
        }
    }
    return speeds;
}

}  // namespace dcp::train
