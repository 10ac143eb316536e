// What the steps of a run teach about its cost model: how far seconds are from what the model says,
// by SP degree and by how many tokens a rank holds.
//
//   seconds = pace * (token factor(degree, tokens a rank) * seconds of tokens
//                     + squared factor(degree) * seconds of squared tokens)
//
// *Pace* is common to all steps: the median of the last iterations, so that it follows a machine
// that became slower within three of them and one bad iteration does not move it. The *factors* are
// the shape that stays: how steps differ from the others of their iteration, so that it does not
// matter what else the machine did then; least squares over all steps, older iterations forgotten
// slowly, steps far from the rest counted less (Huber), neighbouring classes of tokens kept near
// each other. Where a degree was seen little it is taken to be as all degrees are together, and
// these to be right. All are bounded.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "core/plan/corrected_model.hpp"

namespace dcp::train {

// A step as a whole, as it was measured; what it takes on ranks of speed 1.
struct StepSample {
    plan::Load load;
    plan::Strategy strategy;
    int recompute_layers = 0;
    double seconds = 0;
};

class CostCorrection {
public:
    static constexpr double kMostFactor = 4;  // token and squared factors: from 1/4 to 4
    static constexpr double kMostPace = 64;

    explicit CostCorrection(std::vector<int> degrees);

    // The steps of one iteration, by the model that is to be corrected; samples of other degrees
    // and without a prediction are passed over.
    void learn(const plan::CostModel& model, const std::vector<StepSample>& samples);

    // Only the pace is learned: steps of an iteration cannot be compared with each other.
    void keep_shape() { learns_shape_ = false; }

    // The pace until iterations show it.
    void start_pace(double pace);

    // A step of so many tokens needs at least so many bytes more than the model says; it holds for
    // the degree's classes from that of the tokens on.
    void raise_bytes(int degree, std::int64_t tokens, double bytes);
    double more_bytes(int degree, std::int64_t tokens) const;
    void forget_bytes() { bytes_.clear(); }

    double pace() const { return pace_; }
    // Of every degree, as far as something is known, without the pace.
    std::map<int, plan::DegreeCorrection> shape() const;
    // What planners are given: pace and shape, of those degrees, which the model must know. With
    // `seconds` false only bytes are corrected.
    std::shared_ptr<const plan::CostModel> corrected(std::shared_ptr<const plan::CostModel> model,
                                                     const std::vector<int>& degrees,
                                                     bool seconds) const;

private:
    static constexpr int kClasses = 26;             // of tokens a rank: around 1, 2, 4, ...
    static constexpr int kUnknowns = kClasses + 1;  // the last: squared tokens
    using Row = std::array<double, kUnknowns>;

    struct Shape {
        std::array<Row, kUnknowns> products{};  // sums over samples, weighted
        Row targets{};
        Row factors{};  // as they are in force
        Shape() { factors.fill(1); }
        void forget(double remembered);
        void add(const Row& row, double target, double weight);
    };
    // Strength of what is believed without data, in steps.
    struct Belief {
        double neighbours;  // two classes side by side differ alike
        double tokens;      // token factors are as the prior says
        double squared;     // so is that of squared tokens
    };
    struct Split {  // of a sample, by the model as it is
        double token_seconds = 0;
        double squared_seconds = 0;
    };
    struct Seen {
        Shape* shape;
        int class_index;  // the lower of the two nearest
        Row row;
        double seconds;
        double predicted_seconds;  // by the shape, without pace
    };
    std::vector<Seen> see(const plan::CostModel& model, const std::vector<StepSample>& samples);
    // Weights of the two classes nearest to so many tokens a rank, of `degree`.
    static Row basis(double rank_tokens, const Split& split);
    static double inner_product(const Row& row, const Row& factors);
    static void solve(Shape& shape, const Row& prior, const Belief& belief);
    void follow_pace(double ratio);
    double huber_weight(double residual);

    bool learns_shape_ = true;
    Shape common_;  // of all degrees together
    std::map<int, Shape> shapes_;
    int first_class_ = kClasses;  // that steps were in
    int last_class_ = -1;
    std::map<int, std::vector<plan::MoreBytes>> bytes_;
    std::deque<double> paces_;
    std::deque<double> residuals_;  // the last ones, without their sign
    double start_pace_ = 1;
    double pace_ = 1;
};

}  // namespace dcp::train
