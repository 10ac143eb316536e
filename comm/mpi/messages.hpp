// A set of point-to-point messages that are posted together and finish together: what every
// collective here is made of.
//
// A message of more bytes than fit an int is posted in pieces; MPI keeps the order of messages
// between two ranks, so the pieces need no labels and neither do the collectives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <mpi.h>

namespace dcp::comm {

class Messages {
public:
    Messages(MPI_Comm communicator, std::int64_t piece_bytes)
        : communicator_(communicator), piece_bytes_(piece_bytes) {}

    // Nothing is posted for 0 bytes, on either side.
    void send(const void* data, std::int64_t bytes, int to);
    void receive(void* data, std::int64_t bytes, int from);

    // Lets MPI move data. True once all have finished or one has failed, which wait() then reports.
    // (MPI_Waitall would do for wait() alone, but that of Open MPI 4.1 never returns when a message
    // is truncated while threads are in use.)
    bool test() noexcept;
    // Blocks until test(). CommError for a failed message and for one that is longer or shorter
    // than its receiver expected.
    void wait(std::string_view operation, std::string_view group);

    std::int64_t sent_bytes() const { return sent_bytes_; }
    void clear();  // keeps the memory, so that a hot path allocates nothing

private:
    struct WrongSize {
        int from = 0;
        int received_bytes = 0;
        int expected_bytes = 0;
    };

    void finish_one(int index, const MPI_Status& status);

    MPI_Comm communicator_;
    std::int64_t piece_bytes_;
    std::vector<MPI_Request> requests_;
    std::vector<int> expected_bytes_;  // of each request; kNoExpectation for a send
    std::vector<int> finished_;        // results of one test
    std::vector<MPI_Status> statuses_;
    std::size_t num_finished_ = 0;
    std::int64_t sent_bytes_ = 0;
    int code_ = MPI_SUCCESS;  // of the first call or message that failed
    std::optional<WrongSize> wrong_size_;
};

}  // namespace dcp::comm
