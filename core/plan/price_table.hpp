// What a sequence takes of a micro-batch, for the bounds: on a rank with n micro-batches in time T,
// a share of one of the n (of its tokens or of its time) and rank-seconds of work.
#pragma once

#include <span>
#include <vector>

#include "core/plan/problem.hpp"

namespace dcp::plan {

// A rank with exactly `count` micro-batches; the ends of a window stand for fewer or more too.
struct Slot {
    int count = 1;
    bool stands_for_fewer = false;
    bool stands_for_more = false;
    bool operator==(const Slot&) const = default;
};

struct Lengths {
    std::vector<double> tokens;          // rising
    std::vector<double> squared_tokens;  // of one sequence
    std::vector<double> counts;
    // Of all sequences before each length, and of all: tokens, squared tokens.
    std::vector<double> token_sums;
    std::vector<double> squared_sums;
    bool squares_rise = true;  // with tokens; not always so where sequences have two dimensions
};

Lengths distinct_lengths(const Problem& problem);
// At most `most` classes of neighbouring lengths, each with its mean length.
Lengths coarse_lengths(const Lengths& lengths, std::size_t most);

// One way to run a sequence. Of all ways only those are kept that are cheapest for some price of
// shares and work.
struct Way {
    int slot = 0;      // index into the slots
    double share = 0;  // per rank
    double work = 0;   // rank-seconds
};

// What a slot asks for a whole share, and for a rank-second of work.
struct SlotPrice {
    double share = 0;
    double work = 0;
};

struct PriceTable {
    std::vector<Way> ways;
    std::vector<std::size_t> begins;  // ways of length i: [begins[i], begins[i + 1])
};

// The pieces of a cost as lines that are nowhere above it and have no negative fixed part: that is
// what the proofs need of a micro-batch that a piece describes.
std::vector<CostPiece> bounding_pieces(const CostModel& cost, int degree, int layers);

// All (degree, depth) of a problem as coefficients, prepared once.
class WayFinder {
public:
    explicit WayFinder(const Problem& problem);

    double fixed_seconds() const { return fixed_seconds_; }
    // Tokens of a rank's micro-batch at most, whatever the depth.
    double most_rank_tokens() const;
    // Least seconds of this length alone on any group that holds it; infinity: none does.
    double least_seconds(double tokens, double squared_tokens) const;

    PriceTable table(double makespan, const std::vector<Slot>& slots, const Lengths& lengths) const;

    // The sum over all sequences of what each pays where that is least, without a table. Infinity:
    // some length has no way at all.
    double total_price(double makespan,
                       const std::vector<Slot>& slots,
                       const std::vector<SlotPrice>& prices,
                       const Lengths& lengths) const;

private:
    struct Option {  // one degree at one depth, in one piece of its cost
        double degree = 1;
        double extra_seconds = 0;  // latency: what it costs beyond fixed_seconds_
        double token_seconds = 0;  // on every rank
        double squared_seconds = 0;
        double most_tokens = 0;  // of the group
        double token_area = 0;   // rank-seconds a token, its share of the latency included
    };
    struct Depth {
        std::vector<Option> options;  // by rising token_area
        double squared_area = 0;      // rank-seconds a squared token, least of the options
        double rank_tokens = 0;       // most of the options
    };
    // Rank-seconds that one micro-batch of the slot has for work, the slack of the validator
    // included.
    double work_room(double makespan, const Slot& slot) const;
    // Lengths [begin, end), whose least work at a depth is
    // token_area * tokens + squared_area * squared tokens.
    struct Stretch {
        std::size_t begin = 0;
        std::size_t end = 0;
        double token_area = 0;
    };
    // All lengths that have a way at a depth in a micro-batch with so much room for work. Returns
    // whether they share the micro-batch by time.
    bool least_work(const Depth& depth,
                    double work_room,
                    const Lengths& lengths,
                    std::vector<Stretch>& stretches) const;
    void add_options(Depth& depth, const Problem& problem, int degree, int layers) const;

    double fixed_seconds_ = 0;
    std::vector<Depth> depths_;
};

}  // namespace dcp::plan
