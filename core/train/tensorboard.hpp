// Event files of TensorBoard: scalars over iterations, in its own record format, so that nobody
// needs a library of theirs to train.
//
// A record is: u64 length, u32 masked CRC-32C of those 8 bytes, the bytes of a protobuf message
// `Event`, u32 masked CRC-32C of the message; all little-endian. Event: 1 wall_time (double), 2
// step (int64), 3 file_version (string), 5 summary (Summary: 1 value, repeated: 1 tag (string), 2
// simple_value (float)).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/train/run_folder.hpp"

namespace dcp::train {

struct Scalar {
    std::string tag;  // "plan/imbalance_ratio": TensorBoard groups by what stands before the slash
    double value = 0;
};

std::string frame_record(std::string_view message);
std::string version_event(double wall_seconds);  // must be the first of a file
std::string scalar_event(double wall_seconds,
                         std::int64_t iteration,
                         std::span<const Scalar> scalars);

// "events.out.tfevents.SECONDS.HOST.PROCESS", as TensorBoard looks for it.
std::string event_file_name();

class EventFile {
public:
    explicit EventFile(const std::string& path);  // IoError

    // With the operating system when it returns; the time is now. IoError.
    void append(std::int64_t iteration, std::span<const Scalar> scalars);

private:
    GrowingFile file_;
};

}  // namespace dcp::train
