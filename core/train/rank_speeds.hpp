// How fast every rank computes beside the others, learned from what ranks measured: another process
// that loads one core, or a machine that is slower than the rest, shows in the computing seconds of
// its ranks alone.
//
// A step that several ranks share compares them with each other; a step of one rank compares it
// with the prediction. A rank's slowness is the median over the last iterations, so one bad
// iteration says nothing. Planners are told only when ranks differ clearly, and until they do no
// more: noise makes no speeds. A rank that had nothing to do is thought of as slow less and less.
#pragma once

#include <deque>
#include <vector>

namespace dcp::train {

// What one rank computed of one step; communication and waiting are not part of it.
struct ComputeSample {
    int rank = 0;
    int step = 0;  // ranks that share a step have the same number here
    double seconds = 0;
    // On a rank of speed 1; 0 where several ranks share the step: then only how they differ counts.
    double predicted_seconds = 0;
};

class RankSpeeds {
public:
    explicit RankSpeeds(int ranks);

    // What is known before the first iteration: of every rank the log of how slow it is, beside the
    // mean.
    void start(const std::vector<double>& logs);

    void learn(const std::vector<ComputeSample>& samples);  // of one iteration

    // Of every rank, 1 in the geometric mean, bounded; empty while ranks do not differ clearly.
    std::vector<double> speeds() const;

private:
    void compare();
    std::vector<double> smoothed() const;

    // By rank, over iterations: log of how slow it is beside the geometric mean.
    std::vector<std::deque<double>> logs_;
    bool are_different_ = false;
};

}  // namespace dcp::train
