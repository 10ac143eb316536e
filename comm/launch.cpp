#include "comm/launch.hpp"

#include <cstdlib>

#include <fmt/format.h>

namespace dcp::comm {

namespace {

int read_size(const char* variable) {
    const char* text = std::getenv(variable);      // NOLINT(concurrency-mt-unsafe): no thread yet
    return text == nullptr ? 0 : std::atoi(text);  // NOLINT(cert-err34-c): anything else is 0
}

int read_rank() {
    int rank = 0;
    for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
        if (rank == 0) {
            rank = read_size(variable);
        }
    }
    return rank;
}

}  // namespace

LauncherEnvironment read_launcher_environment() {
    return {.open_mpi_size = read_size("OMPI_COMM_WORLD_SIZE"),
            .slurm_size = read_size("SLURM_STEP_NUM_TASKS"),
            .pmi_size = read_size("PMI_SIZE"),
            .rank = read_rank(),
            .has_pmix = std::getenv("PMIX_NAMESPACE") != nullptr};  // NOLINT(concurrency-mt-unsafe)
}

void check_launcher(int world_size, const LauncherEnvironment& launcher) {
    if (world_size != 1) {
        return;
    }
    if (launcher.open_mpi_size > 1) {
        throw SharedConfigError(fmt::format(
            "mpirun started {} processes, but each sees a world of one rank: this program was "
            "built with another MPI than the mpirun that started it; use the mpirun of that MPI",
            launcher.open_mpi_size));
    }
    // mpirun -np 1 inside a Slurm step of several tasks is right; so is a value that mpirun set.
    if (launcher.open_mpi_size == 1) {
        return;
    }
    if (launcher.slurm_size > 1) {
        throw SharedConfigError(
            fmt::format("srun started {} processes, but each sees a world of one rank: start them "
                        "with srun --mpi=pmix, or with mpirun inside the allocation",
                        launcher.slurm_size));
    }
    if (launcher.pmi_size > 1) {
        throw SharedConfigError(fmt::format(
            "mpiexec started {} processes, but each sees a world of one rank: that mpiexec belongs "
            "to another MPI than the one this program was built with (Open MPI); use its mpirun",
            launcher.pmi_size));
    }
}

}  // namespace dcp::comm
