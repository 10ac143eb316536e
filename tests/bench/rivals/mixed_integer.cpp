#include "tests/bench/rivals/mixed_integer.hpp"

#include <limits>
#include <string>

#include <Cbc_C_Interface.h>
#include <fmt/format.h>

namespace dcp::bench {

struct MixedInteger::Solver {
    Cbc_Model* model = Cbc_newModel();
    int variables = 0;

    Solver() { Cbc_setLogLevel(model, 0); }
    ~Solver() { Cbc_deleteModel(model); }
    Solver(const Solver&) = delete;
    Solver& operator=(const Solver&) = delete;
};

MixedInteger::MixedInteger() : solver_(std::make_unique<Solver>()) {}
MixedInteger::~MixedInteger() = default;

int MixedInteger::add_variable(double most, double cost, bool is_whole) {
    const std::string name = fmt::format("x{}", solver_->variables);
    Cbc_addCol(solver_->model, name.c_str(), 0, most, cost, is_whole ? 1 : 0, 0, nullptr, nullptr);
    return solver_->variables++;
}

void MixedInteger::add_row(double least,
                           double most,
                           const std::vector<std::pair<int, double>>& terms) {
    std::vector<int> columns;
    std::vector<double> weights;
    for (const auto& [column, weight] : terms) {
        columns.push_back(column);
        weights.push_back(weight);
    }
    const auto size = static_cast<int>(terms.size());
    const std::string name = fmt::format("r{}", Cbc_getNumRows(solver_->model));
    // The interface takes one limit a row.
    if (least == most) {
        Cbc_addRow(solver_->model, name.c_str(), size, columns.data(), weights.data(), 'E', most);
        return;
    }
    if (most < std::numeric_limits<double>::infinity()) {
        Cbc_addRow(solver_->model, name.c_str(), size, columns.data(), weights.data(), 'L', most);
    }
    if (least > -std::numeric_limits<double>::infinity()) {
        Cbc_addRow(solver_->model, (name + "g").c_str(), size, columns.data(), weights.data(), 'G',
                   least);
    }
}

std::optional<std::vector<double>> MixedInteger::solve(double limit_seconds,
                                                       const std::vector<double>& start) {
    Cbc_setMaximumSeconds(solver_->model, limit_seconds);
    if (limit_seconds < 1) {
        // CBC 2.10.8 may crash where its time ends while it takes the preprocessing back.
        Cbc_setParameter(solver_->model, "preprocess", "off");
    }
    if (!start.empty()) {
        std::vector<int> columns(start.size());
        for (std::size_t i = 0; i < start.size(); ++i) {
            columns[i] = static_cast<int>(i);
        }
        Cbc_setMIPStartI(solver_->model, static_cast<int>(start.size()), columns.data(),
                         start.data());
    }
    Cbc_solve(solver_->model);
    const double* values = Cbc_bestSolution(solver_->model);
    if (values == nullptr) {
        return std::nullopt;
    }
    return std::vector<double>(values, values + solver_->variables);
}

}  // namespace dcp::bench
