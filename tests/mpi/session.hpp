// The one MpiSession of a test program under mpirun.
#pragma once

#include "comm/mpi/mpi_session.hpp"

namespace dcp::test {

comm::MpiSession& session();

}  // namespace dcp::test
