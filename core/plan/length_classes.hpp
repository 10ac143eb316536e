// The length classes of the paper's planners (up to 1, 2, 4, 8, ... tokens), and what micro-batches
// of one class take: weighed once, for the many plans that these planners compare.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "core/plan/problem.hpp"

namespace dcp::plan {

class LengthClasses {
public:
    // Micro-batches of a class.
    struct Shape {
        std::size_t degree_index = 0;
        std::size_t batch_size = 0;  // 0: nothing holds the class
        double seconds = std::numeric_limits<double>::infinity();
        double rank_seconds = std::numeric_limits<double>::infinity();  // a sequence
    };
    // A class, cut into micro-batches of so many sequences.
    struct Cut {
        std::size_t class_index = 0;
        std::size_t batch_size = 1;
    };
    // What these take on ranks of speed 1.
    struct Weights {
        std::vector<double> seconds;
        std::size_t longest = 0;       // of several the first
        double least_computation = 1;  // share of the seconds that slow ranks make longer
        double most_computation = 0;
    };

    // Degrees rise.
    LengthClasses(const Problem& problem, bool keeps_activations, std::vector<int> degrees);

    const std::vector<int>& degrees() const { return degrees_; }

    // The best shape of every class that has sequences, short ones first, on degrees [first, last];
    // nothing where these do not hold some class. `pace`: longest micro-batch that is wanted, in
    // equal shares of the batch; 0: no matter how long.
    std::optional<std::vector<Shape>> shapes(std::size_t first,
                                             std::size_t last,
                                             double pace) const;

    const Weights& weights(const Cut& cut, std::size_t degree_index);
    std::span<const std::int32_t> micro_batch(const Cut& cut, std::size_t index) const;

    // The depth of a micro-batch; layers() + 1 where it does not fit.
    int depth(const Load& load, int degree) const;

private:
    struct Class {
        std::vector<std::int32_t> sequences;
        // By degree, of 1, 2, 4, ... sequences as long as any of the class, while these fit.
        std::vector<std::vector<double>> seconds;
    };

    void weigh(Class& one, std::int64_t tokens) const;
    Shape best_shape(const Class& one,
                     std::size_t first,
                     std::size_t last,
                     std::size_t num_sizes,
                     double limit) const;

    const Problem& problem_;
    bool keeps_activations_;
    std::vector<int> degrees_;
    std::vector<Class> classes_;
    std::map<std::tuple<std::size_t, std::size_t, std::size_t>, Weights> weights_;
};

}  // namespace dcp::plan
