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
        MPI_Request& request = requests_.emplace_back(MPI_REQUEST_NULL);
        expected_bytes_.push_back(kNoExpectation);
        code_ = MPI_Isend(static_cast<const std::byte*>(data) + part.begin_bytes,
                          static_cast<int>(part.size_bytes), MPI_BYTE, to, kTag, communicator_,
                          &request);
    }
    sent_bytes_ += bytes;
}

void Messages::receive(void* data, std::int64_t bytes, int from) {
    const std::int64_t pieces = num_pieces(bytes, piece_bytes_);
    for (std::int64_t index = 0; index < pieces && code_ == MPI_SUCCESS; ++index) {
        const Piece part = piece(bytes, piece_bytes_, index);
        MPI_Request& request = requests_.emplace_back(MPI_REQUEST_NULL);
        expected_bytes_.push_back(static_cast<int>(part.size_bytes));
        code_ = MPI_Irecv(static_cast<std::byte*>(data) + part.begin_bytes,
                          static_cast<int>(part.size_bytes), MPI_BYTE, from, kTag, communicator_,
                          &request);
    }
}

bool Messages::test() noexcept {
    if (code_ != MPI_SUCCESS || wrong_size_ || num_finished_ == requests_.size()) {
        return true;
    }
    finished_.resize(requests_.size());
    statuses_.resize(requests_.size());
    int count = 0;
    const int code = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count,
                                  finished_.data(), statuses_.data());
    if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) {
        code_ = code;
        return true;
    }
    for (int index = 0; index < count; ++index) {
        MPI_Status& status = statuses_[static_cast<std::size_t>(index)];
        if (code == MPI_SUCCESS) {
            status.MPI_ERROR = MPI_SUCCESS;  // left alone by MPI then
        }
        finish_one(finished_[static_cast<std::size_t>(index)], status);
    }
    return code_ != MPI_SUCCESS || wrong_size_ || num_finished_ == requests_.size();
}

void Messages::finish_one(int index, const MPI_Status& status) {
    ++num_finished_;
    if (status.MPI_ERROR != MPI_SUCCESS) {
        code_ = code_ == MPI_SUCCESS ? status.MPI_ERROR : code_;
        return;
    }
    const int expected = expected_bytes_[static_cast<std::size_t>(index)];
    int received = expected;
    if (expected != kNoExpectation) {
        const int code = MPI_Get_count(&status, MPI_BYTE, &received);
        code_ = code_ == MPI_SUCCESS ? code : code_;
    }
    if (received != expected && !wrong_size_) {
        wrong_size_ = WrongSize{status.MPI_SOURCE, received, expected};
    }
}

void Messages::wait(std::string_view operation, std::string_view group) {
    while (!test()) {  // MPI yields the processor in there when it has nothing to move
    }
    check_mpi(code_, operation, group);
    if (wrong_size_) {
        throw CommError(fmt::format(
            "{} failed in the {}: group rank {} sent {} bytes where {} were expected", operation,
            group, wrong_size_->from, wrong_size_->received_bytes, wrong_size_->expected_bytes));
    }
}

void Messages::clear() {
    requests_.clear();
    expected_bytes_.clear();
    num_finished_ = 0;
    sent_bytes_ = 0;
    code_ = MPI_SUCCESS;
    wrong_size_.reset();
}

}  // namespace dcp::comm
