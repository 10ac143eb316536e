// Faults of the start that are better found in the first second: a launcher that the message
// library does not understand, and ranks that were not started alike (check_all_equal in
// comm/control.hpp).
#pragma once

#include <string>

#include "core/base/errors.hpp"

namespace dcp::comm {

// An error of the start that every rank of the world throws at the same point with the same text,
// so that only world rank 0 has to say it.
class SharedConfigError : public Error {
public:
    explicit SharedConfigError(const std::string& message, int exit_code = kExitBadInput)
        : Error(message, exit_code, true) {}
};

// How many processes each launcher says it has started; 0 where it says nothing. To be read before
// the message library starts, for it sets such variables itself.
struct LauncherEnvironment {
    int open_mpi_size = 0;  // OMPI_COMM_WORLD_SIZE: mpirun of Open MPI, or srun through PMIx
    int slurm_size = 0;     // SLURM_STEP_NUM_TASKS: srun
    int pmi_size = 0;       // PMI_SIZE: mpiexec of MPICH and its relatives
    int rank = 0;           // of this process, by whichever says it
    bool has_pmix = false;  // somebody for Open MPI to talk to

    // Whether Open MPI can be started here: it ends the process itself where it cannot.
    bool can_start_mpi() const { return open_mpi_size > 0 || has_pmix; }
};
LauncherEnvironment read_launcher_environment();

// N processes that each see a world of one would train N times the same and overwrite each other's
// files. SharedConfigError with the remedy when the launcher says N > 1 and world_size is 1.
void check_launcher(int world_size, const LauncherEnvironment& launcher);

}  // namespace dcp::comm
