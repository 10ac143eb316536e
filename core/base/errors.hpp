// Every error that leaves a public function is one of these. The message is one line that names
// what is wrong, where, and what to do; main() prints it and exits with the code below, so a script
// can tell bad input from a failed run.
#pragma once

#include <stdexcept>
#include <string>

namespace dcp {

inline constexpr int kExitDone = 0;
inline constexpr int kExitBadInput =
    2;  // command line, configuration, data, weights: fix the input and run again
inline constexpr int kExitFailedRun =
    3;  // the input was fine but the run could not go on: disk full, numbers not finite, ...

class Error : public std::runtime_error {
public:
    Error(const std::string& message, int exit_code, bool is_shared = false)
        : std::runtime_error(message), exit_code_(exit_code), is_shared_(is_shared) {}
    int exit_code() const { return exit_code_; }
    // Thrown on every rank alike, so only world rank 0 has to say it.
    bool is_shared() const { return is_shared_; }

private:
    int exit_code_;
    bool is_shared_;
};

// Configuration file, command line or environment.
class ConfigError : public Error {
public:
    explicit ConfigError(const std::string& message) : Error(message, kExitBadInput) {}
};

// A dataset, lengths file or weights folder that cannot be what it claims to be.
class DataError : public Error {
public:
    explicit DataError(const std::string& message) : Error(message, kExitBadInput) {}
};

// A batch that cannot be planned (names the sequence and what would make it fit), or a plan that
// breaks a promise.
class PlanError : public Error {
public:
    explicit PlanError(const std::string& message) : Error(message, kExitBadInput) {}
};

// Something asked for that this build or this processor cannot do.
class UnsupportedError : public Error {
public:
    explicit UnsupportedError(const std::string& message) : Error(message, kExitBadInput) {}
};

// memory.budget would be exceeded.
class MemoryBudgetError : public Error {
public:
    explicit MemoryBudgetError(const std::string& message) : Error(message, kExitFailedRun) {}
};

// The operating system refused: names the file, the operation and the reason.
class IoError : public Error {
public:
    explicit IoError(const std::string& message) : Error(message, kExitFailedRun) {}
};

// A loss or gradient that is not finite: nothing has been updated with it.
class NonFiniteError : public Error {
public:
    explicit NonFiniteError(const std::string& message) : Error(message, kExitFailedRun, true) {}
};

// A collective that could not be completed: names the group, the operation and the library's
// reason. The group is unusable afterwards and the run ends.
class CommError : public Error {
public:
    explicit CommError(const std::string& message) : Error(message, kExitFailedRun) {}
};

// CUDA refused or a kernel failed: names the call or the kernel.
class CudaError : public Error {
public:
    explicit CudaError(const std::string& message) : Error(message, kExitFailedRun) {}
};

// A caller's mistake: shapes, element types or an order of calls that the contract excludes.
class ShapeError : public Error {
public:
    explicit ShapeError(const std::string& message) : Error(message, kExitFailedRun) {}
};

}  // namespace dcp
