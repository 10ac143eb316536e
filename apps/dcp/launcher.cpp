#include "apps/dcp/launcher.hpp"

#include <charconv>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "core/base/errors.hpp"

namespace dcp {

namespace {

// Read once, before any thread exists.
const char* environment(const char* name) {
    return std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
}

// 0 where the variable does not exist or is no number.
int count_in(const char* name) {
    const char* text = environment(name);
    int count = 0;
    if (text != nullptr) {
        std::from_chars(text, text + std::strlen(text), count);
    }
    return count;
}

void refuse(const char* launcher, const char* variable) {
    const int count = count_in(variable);
    if (count > 1) {
        throw ConfigError(fmt::format(
            "{} started {} processes ({}), but this version trains on one rank; start one: "
            "`dcp train CONFIG`, or `mpirun -np 1 dcp train CONFIG`, or `srun -n 1 dcp train "
            "CONFIG`",
            launcher, count, variable));
    }
}

}  // namespace

void refuse_several_ranks() {
    if (count_in("OMPI_COMM_WORLD_SIZE") > 0) {
        // Inside an Open MPI job the SLURM variables describe mpirun's own allocation, not us.
        refuse("mpirun", "OMPI_COMM_WORLD_SIZE");
        return;
    }
    refuse("mpiexec", "PMI_SIZE");
    if (environment("SLURM_PROCID") != nullptr) {
        refuse("srun", "SLURM_STEP_NUM_TASKS");
    }
    if (environment("TORCHELASTIC_RUN_ID") != nullptr) {
        refuse("torchrun", "WORLD_SIZE");
    }
}

}  // namespace dcp
