// What a launcher (mpirun, srun, torchrun) said about the number of processes it started.
#pragma once

namespace dcp {

// This version trains on one rank: ConfigError when several were started, for each of them would
// train the same model into the same folder.
void refuse_several_ranks();

}  // namespace dcp
