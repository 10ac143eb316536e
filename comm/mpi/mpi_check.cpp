#include "comm/mpi/mpi_check.hpp"

#include <array>

#include <fmt/format.h>

#include "core/base/errors.hpp"

namespace dcp::comm {

std::string mpi_error_text(int code) {
    std::array<char, MPI_MAX_ERROR_STRING> text{};
    int size = 0;
    if (MPI_Error_string(code, text.data(), &size) != MPI_SUCCESS) {
        return fmt::format("MPI error {}", code);
    }
    return {text.data(), static_cast<std::size_t>(size)};
}

void throw_mpi_error(int code, std::string_view operation, std::string_view group) {
    throw CommError(fmt::format("{} failed in the {}: {}", operation, group, mpi_error_text(code)));
}

}  // namespace dcp::comm
