#include "comm/communicator.hpp"

#include <exception>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ostream.h>

#include "core/base/errors.hpp"

namespace dcp::comm {

std::int64_t number_bytes(Number number) {
    switch (number) {
        case Number::kBFloat16:
            return 2;
        case Number::kFloat32:
            return 4;
        case Number::kFloat64:
        case Number::kInt64:
            return 8;
    }
    return 0;
}

std::string describe_ranks(std::span<const int> ranks) {
    std::string text;
    for (std::size_t begin = 0; begin < ranks.size();) {
        std::size_t end = begin + 1;
        while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) {
            ++end;
        }
        fmt::format_to(std::back_inserter(text), "{}{}", text.empty() ? "" : ", ", ranks[begin]);
        if (end - begin > 1) {
            fmt::format_to(std::back_inserter(text), "-{}", ranks[end - 1]);
        }
        begin = end;
    }
    return text;
}

Communicator::Communicator(std::vector<int> world_ranks, int group_rank)
    : world_ranks_(std::move(world_ranks)), group_rank_(group_rank) {
    if (group_rank < 0 || group_rank >= group_size()) {
        throw ShapeError(fmt::format("group rank {} in a group of {}", group_rank, group_size()));
    }
}

std::string Communicator::describe() const {
    return fmt::format("group of world ranks {} (this is world rank {})",
                       describe_ranks(world_ranks_),
                       world_ranks_[static_cast<std::size_t>(group_rank_)]);
}

Pending::Pending(std::unique_ptr<Operation> operation) noexcept
    : operation_(std::move(operation)), exceptions_at_start_(std::uncaught_exceptions()) {}

Pending::~Pending() {
    settle();
}

Pending& Pending::operator=(Pending&& other) noexcept {
    if (this != &other) {
        settle();
        operation_ = std::move(other.operation_);
        exceptions_at_start_ = other.exceptions_at_start_;
    }
    return *this;
}

void Pending::wait(Queue& queue) {
    if (operation_) {
        const std::unique_ptr<Operation> operation = std::move(operation_);
        operation->wait(queue);
    }
}

void Pending::settle() noexcept {
    if (!operation_) {
        return;
    }
    if (std::uncaught_exceptions() > exceptions_at_start_) {
        operation_->abandon();
    } else {
        try {
            Queue queue = Queue::cpu(1);
            operation_->wait(queue);
        } catch (const std::exception& error) {
            fmt::print(stderr, "dcp: a pending operation was never waited for and failed: {}\n",
                       error.what());
        }
    }
    operation_.reset();
}

}  // namespace dcp::comm
