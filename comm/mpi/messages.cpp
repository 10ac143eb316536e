#include "comm/mpi/messages.hpp"

#include <fmt/format.h>

#include "comm/counts.hpp"
#include "comm/mpi/mpi_check.hpp"
#include "core/base/errors.hpp"

namespace dcp::comm {

namespace {

constexpr int kTag = 1;
constexpr int kNoExpectation = -1;

}  // namespace

void Messages::send(const void* data, std::int64_t bytes, int to) {
    const std::int64_t pieces = num_pieces(bytes, piece_bytes_);
    for (std::int64_t index = 0; index < pieces && code_ == MPI_SUCCESS; ++index) {
        const Piece part = piece(bytes, piece_bytes_, index);
        requests_.push_back(MPI_REQUEST_NULL);
        expected_bytes_.push_back(kNoExpectation);
        code_ = MPI_Isend(static_cast<const std::byte*>(data) + part.begin_bytes,
                          static_cast<int>(part.size_bytes), MPI_BYTE, to, kTag, communicator_,
                          &requests_.back());
    }
    sent_bytes_ += bytes;
}

void Messages::receive(void* data, std::int64_t bytes, int from) {
    const std::int64_t pieces = num_pieces(bytes, piece_bytes_);
    for (std::int64_t index = 0; index < pieces && code_ == MPI_SUCCESS; ++index) {
        const Piece part = piece(bytes, piece_bytes_, index);
        requests_.push_back(MPI_REQUEST_NULL);
        expected_bytes_.push_back(static_cast<int>(part.size_bytes));
        code_ = MPI_Irecv(static_cast<std::byte*>(data) + part.begin_bytes,
                          static_cast<int>(part.size_bytes), MPI_BYTE, from, kTag, communicator_,
                          &requests_.back());
    }
}

void Messages::wait(std::string_view operation, std::string_view group) {
    if (!is_finished_ && code_ == MPI_SUCCESS) {
        statuses_.resize(requests_.size());
        finish(MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), statuses_.data()));
    }
    check_mpi(code_, operation, group);
    for (std::size_t index = 0; index < requests_.size(); ++index) {
        if (expected_bytes_[index] == kNoExpectation) {
            continue;
        }
        int received = 0;
        check_mpi(MPI_Get_count(&statuses_[index], MPI_BYTE, &received), operation, group);
        if (received != expected_bytes_[index]) {
            throw CommError(fmt::format(
                "{} failed in the {}: group rank {} sent {} bytes where {} were expected",
                operation, group, statuses_[index].MPI_SOURCE, received, expected_bytes_[index]));
        }
    }
}

bool Messages::test() noexcept {
    if (is_finished_ || code_ != MPI_SUCCESS) {
        return true;
    }
    int all_done = 0;
    statuses_.resize(requests_.size());
    const int code = MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &all_done,
                                 statuses_.data());
    if (all_done != 0 || code != MPI_SUCCESS) {
        finish(code);
    }
    return is_finished_;
}

void Messages::clear() {
    requests_.clear();
    statuses_.clear();
    expected_bytes_.clear();
    sent_bytes_ = 0;
    is_finished_ = false;
    code_ = MPI_SUCCESS;
}

void Messages::finish(int code) {
    is_finished_ = true;
    code_ = code;
    if (code == MPI_ERR_IN_STATUS) {
        for (const MPI_Status& status : statuses_) {
            if (status.MPI_ERROR != MPI_SUCCESS && status.MPI_ERROR != MPI_ERR_PENDING) {
                code_ = status.MPI_ERROR;
                return;
            }
        }
    }
}

}  // namespace dcp::comm
