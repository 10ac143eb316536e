// Every code that MPI returns is looked at. Codes are returned at all only because MpiSession and
// MpiCommunicator set MPI_ERRORS_RETURN on everything they use; MPI's own default ends the process.
#pragma once

#include <string>
#include <string_view>

#include <mpi.h>

namespace dcp::comm {

// "MPI_ERR_TRUNCATE: message truncated"
std::string mpi_error_text(int code);

// CommError: "MPI_Isend failed in the GROUP: TEXT".
[[noreturn]] void throw_mpi_error(int code, std::string_view operation, std::string_view group);

inline void check_mpi(int code, std::string_view operation, std::string_view group) {
    if (code != MPI_SUCCESS) {
        throw_mpi_error(code, operation, group);
    }
}

}  // namespace dcp::comm
