#include "core/train/correction.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace dcp::train {

namespace {

constexpr std::size_t kPaceIterations = 3;      // the median of so many
constexpr std::size_t kHistoryIterations = 15;  // what an iteration of steps all alike is held to
constexpr std::size_t kResiduals = 64;          // that tell what is usual
constexpr double kRemembered = 0.985;           // of what was known an iteration before
constexpr double kLeastScale = 0.03;            // residuals below it are noise in any run

double median(std::deque<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

// Half of the weight lies on either side of it.
double weighted_median(std::vector<std::pair<double, double>> values) {  // value, weight
    std::sort(values.begin(), values.end());
    double left = 0;
    for (const auto& [value, weight] : values) {
        left += weight / 2;
    }
    for (const auto& [value, weight] : values) {
        left -= weight;
        if (left <= 0) {
            return value;
        }
    }
    return values.back().first;
}

double bounded(double factor, double most) {
    return std::clamp(factor, 1 / most, most);
}

std::int64_t class_tokens(int index, int degree) {
    return (std::int64_t{1} << index) * degree;
}

}  // namespace

CostCorrection::CostCorrection(std::vector<int> degrees) {
    for (const int degree : degrees) {
        shapes_.emplace(degree, Shape{});
    }
}

CostCorrection::Row CostCorrection::basis(double rank_tokens, const Split& split) {
    Row row{};
    const double position = std::clamp(std::log2(rank_tokens), 0.0, kClasses - 1.0);
    const auto below = std::min(static_cast<std::size_t>(position), std::size_t{kClasses - 2});
    const double share = position - static_cast<double>(below);
    row[below] = (1 - share) * split.token_seconds;
    row[below + 1] = share * split.token_seconds;
    row[kClasses] = split.squared_seconds;
    return row;
}

double CostCorrection::inner_product(const Row& row, const Row& factors) {
    double sum = 0;
    for (std::size_t i = 0; i < row.size(); ++i) {
        sum += row[i] * factors[i];
    }
    return sum;
}

void CostCorrection::start_pace(double pace) {
    start_pace_ = pace_ = bounded(pace, kMostPace);
}

void CostCorrection::follow_pace(double ratio) {
    paces_.push_back(bounded(ratio, kMostPace));
    if (paces_.size() > kHistoryIterations) {
        paces_.pop_front();
    }
    // Iterations that have not been yet went as predicted.
    std::deque<double> recent(kPaceIterations, start_pace_);
    const std::size_t known = std::min(paces_.size(), kPaceIterations);
    std::copy_n(paces_.rbegin(), known, recent.begin());
    pace_ = median(std::move(recent));
}

// A residual counts in full up to twice what is usual.
double CostCorrection::huber_weight(double residual) {
    const double size = std::fabs(residual);
    const double usual = residuals_.empty() ? size : median(residuals_);
    residuals_.push_back(size);
    if (residuals_.size() > kResiduals) {
        residuals_.pop_front();
    }
    const double limit = 2 * std::max(usual, kLeastScale);
    return size <= limit ? 1 : limit / size;
}

std::vector<CostCorrection::Seen> CostCorrection::see(const plan::CostModel& model,
                                                      const std::vector<StepSample>& samples) {
    std::vector<Seen> seen;
    for (const StepSample& sample : samples) {
        const int degree = sample.strategy.degree();
        const auto shape = shapes_.find(degree);
        const double whole =
            model.cost(sample.load, sample.strategy, sample.recompute_layers).seconds();
        const double of_tokens =
            model.cost({sample.load.tokens, 0}, sample.strategy, sample.recompute_layers).seconds();
        if (shape == shapes_.end() || sample.seconds <= 0 || whole <= 0) {
            continue;
        }
        Shape& of_degree = shape->second;
        const double rank_tokens = static_cast<double>(sample.load.tokens) / degree;
        const auto below = static_cast<int>(
            std::clamp(std::log2(rank_tokens), 0.0, static_cast<double>(kClasses - 2)));
        first_class_ = std::min(first_class_, below);
        last_class_ = std::max(last_class_, below + 1);
        const Row row = basis(rank_tokens, {of_tokens, whole - of_tokens});
        seen.push_back({.shape = &of_degree,
                        .class_index = below,
                        .row = row,
                        .seconds = sample.seconds,
                        .predicted_seconds = inner_product(row, of_degree.factors)});
    }
    return seen;
}

void CostCorrection::learn(const plan::CostModel& model, const std::vector<StepSample>& samples) {
    const std::vector<Seen> seen = see(model, samples);
    if (seen.empty()) {
        return;
    }
    std::vector<std::pair<double, double>> ratios;
    for (const Seen& one : seen) {
        ratios.emplace_back(one.seconds / one.predicted_seconds, one.seconds);
    }
    const double level = weighted_median(std::move(ratios));
    follow_pace(level);
    if (!learns_shape_) {
        return;
    }
    // Steps of one iteration are compared with each other, whatever else the machine did then; only
    // where all are alike they are compared with the iterations before.
    const bool are_alike = std::all_of(seen.begin(), seen.end(), [&](const Seen& one) {
        return one.shape == seen.front().shape && one.class_index == seen.front().class_index;
    });
    const double common = are_alike ? median(paces_) : level;
    common_.forget(kRemembered);
    for (auto& [degree, shape] : shapes_) {
        shape.forget(kRemembered);
    }
    for (const Seen& one : seen) {
        // Relative to the prediction, so that short steps count as much as long ones.
        const double target = one.seconds / (common * one.predicted_seconds);
        const double weight = huber_weight(target - 1);
        Row row = one.row;
        std::for_each(row.begin(), row.end(), [&](double& x) { x /= one.predicted_seconds; });
        common_.add(row, target, weight);
        one.shape->add(row, target, weight);
    }
    Row ones;
    ones.fill(1);
    solve(common_, ones, {.neighbours = 0.2, .tokens = 0.01, .squared = 0.05});
    for (auto& [degree, shape] : shapes_) {
        solve(shape, common_.factors, {.neighbours = 1, .tokens = 0.2, .squared = 1});
    }
}

void CostCorrection::Shape::forget(double remembered) {
    for (std::size_t i = 0; i < kUnknowns; ++i) {
        targets[i] *= remembered;
        for (double& sum : products[i]) {
            sum *= remembered;
        }
    }
}

void CostCorrection::Shape::add(const Row& row, double target, double weight) {
    for (std::size_t i = 0; i < kUnknowns; ++i) {
        targets[i] += weight * row[i] * target;
        for (std::size_t j = 0; j < kUnknowns; ++j) {
            products[i][j] += weight * row[i] * row[j];
        }
    }
}

// Normal equations for how far factors are from `prior`, with what is believed without data, by
// Cholesky's decomposition in place; that belief makes them positive definite.
void CostCorrection::solve(Shape& shape, const Row& prior, const Belief& belief) {
    std::array<Row, kUnknowns> a = shape.products;
    Row x = shape.targets;
    for (std::size_t i = 0; i < kUnknowns; ++i) {
        x[i] -= inner_product(shape.products[i], prior);
        a[i][i] += i == kClasses ? belief.squared : belief.tokens;
        if (i + 1 < kClasses) {
            a[i][i] += belief.neighbours;
            a[i + 1][i + 1] += belief.neighbours;
            a[i][i + 1] -= belief.neighbours;
            a[i + 1][i] -= belief.neighbours;
        }
    }
    for (std::size_t i = 0; i < kUnknowns; ++i) {
        for (std::size_t j = 0; j <= i; ++j) {
            double sum = a[i][j];
            for (std::size_t k = 0; k < j; ++k) {
                sum -= a[i][k] * a[j][k];
            }
            a[i][j] = i == j ? std::sqrt(sum) : sum / a[j][j];
        }
    }
    for (std::size_t i = 0; i < kUnknowns; ++i) {
        for (std::size_t k = 0; k < i; ++k) {
            x[i] -= a[i][k] * x[k];
        }
        x[i] /= a[i][i];
    }
    for (std::size_t i = kUnknowns; i-- > 0;) {
        for (std::size_t k = i + 1; k < kUnknowns; ++k) {
            x[i] -= a[k][i] * x[k];
        }
        x[i] /= a[i][i];
        shape.factors[i] = bounded(prior[i] + x[i], kMostFactor);
    }
}

void CostCorrection::raise_bytes(int degree, std::int64_t tokens, double bytes) {
    std::int64_t begin = degree;  // of the class
    while (2 * begin <= tokens) {
        begin *= 2;
    }
    const double raised = std::max(bytes, more_bytes(degree, begin));
    std::vector<plan::MoreBytes> after;
    for (const plan::MoreBytes& one : bytes_[degree]) {
        if (one.tokens < begin) {
            after.push_back(one);
        }
    }
    after.push_back({.tokens = begin, .bytes = raised});
    for (const plan::MoreBytes& one : bytes_[degree]) {
        if (one.tokens > begin && one.bytes > raised) {
            after.push_back(one);
        }
    }
    bytes_[degree] = std::move(after);
}

double CostCorrection::more_bytes(int degree, std::int64_t tokens) const {
    const auto found = bytes_.find(degree);
    return found == bytes_.end()
               ? 0
               : plan::more_bytes_at({.tokens = {}, .squared = 1, .bytes = found->second}, tokens);
}

std::map<int, plan::DegreeCorrection> CostCorrection::shape() const {
    std::map<int, plan::DegreeCorrection> all;
    for (const auto& [degree, shape] : shapes_) {
        if (last_class_ < 0) {
            break;
        }
        plan::DegreeCorrection& correction = all[degree];
        for (int index = first_class_; index <= last_class_; ++index) {
            correction.tokens.push_back({.tokens = class_tokens(index, degree),
                                         .factor = shape.factors[static_cast<std::size_t>(index)]});
        }
        correction.squared = shape.factors[kClasses];
    }
    for (const auto& [degree, bytes] : bytes_) {
        all[degree].bytes = bytes;
    }
    return all;
}

std::shared_ptr<const plan::CostModel> CostCorrection::corrected(
    std::shared_ptr<const plan::CostModel> model,
    const std::vector<int>& degrees,
    bool seconds) const {
    std::map<int, plan::DegreeCorrection> all = shape();
    for (const auto& [degree, shape] : shapes_) {
        plan::DegreeCorrection& correction = all[degree];
        if (!seconds) {
            correction.tokens.clear();
            correction.squared = 1;
            continue;
        }
        if (correction.tokens.empty()) {
            correction.tokens.push_back({.tokens = degree, .factor = 1});
        }
        for (plan::TokenFactor& one : correction.tokens) {
            one.factor *= pace_;
        }
        correction.squared *= pace_;
    }
    std::erase_if(all, [&](const auto& entry) {
        return std::ranges::find(degrees, entry.first) == degrees.end() ||
               (!seconds && entry.second.bytes.empty());
    });
    return all.empty() ? model : std::make_shared<plan::CorrectedModel>(std::move(model), all);
}

}  // namespace dcp::train
