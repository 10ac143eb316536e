#include "apps/dcp/ranks.hpp"

#include <exception>
#include <memory>

#include "comm/launch.hpp"
#include "comm/local/local_communicator.hpp"
#include "comm/mpi/mpi_session.hpp"

namespace dcp {

void run_in_world(const std::function<void(const train::World&)>& action) {
    const comm::LauncherEnvironment launcher = comm::read_launcher_environment();
    if (!launcher.can_start_mpi()) {
        comm::check_launcher(1, launcher);
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
                .topology = comm::gather_topology(control, *all, session.node_key()),
                .ranks_on_node = session.ranks_on_node(),
                .processors = session.processors()});
    } catch (const std::exception& error) {
        session.abort(error);
    }
}

config::Reading read_config_on_all(const train::World& world,
                                   const std::string& path,
                                   const std::vector<std::string>& overrides) {
    config::Reading reading;
    Queue control = Queue::cpu(1);
    train::run_on_all(control, world, [&] { reading = config::read_config(path, overrides); });
    return reading;
}

}  // namespace dcp
