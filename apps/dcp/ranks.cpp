#include "apps/dcp/ranks.hpp"

#include <exception>
#include <memory>

#include "comm/launch.hpp"
#include "comm/local/local_communicator.hpp"
#include "comm/mpi/mpi_session.hpp"

namespace dcp {

namespace {

bool was_launched() {
    const comm::LauncherEnvironment launcher = comm::read_launcher_environment();
    return launcher.open_mpi_size > 0 || launcher.slurm_size > 0 || launcher.pmi_size > 0;
}

}  // namespace

void run_in_world(const std::function<void(const train::World&)>& action) {
    if (!was_launched()) {
        train::LocalWorld alone;
        action(alone.world());
        return;
    }
    comm::MpiSession session;
    try {
        comm::check_launcher(session.world_size(), session.launcher());
        const std::unique_ptr<comm::Communicator> all = session.make_world();
        comm::LocalCommunicator self(session.world_rank());
        Queue control = Queue::cpu(1);
        action({.all = all.get(),
                .self = &self,
                .groups = &session.group_factory(),
                .topology = comm::gather_topology(control, *all, session.node_key())});
    } catch (const std::exception& error) {
        session.abort(error);
    }
}

}  // namespace dcp
