// The life of MPI in this process: one object, made first in main() and destroyed last. No header
// but those inside comm/mpi sees mpi.h; this one does not either.
//
//     int main() {
//         MpiSession session;
//         try { ... } catch (const std::exception& error) { session.abort(error); }
//     }
//
// The catch belongs inside: once an exception has left the session's scope MPI is not finalized
// (that would wait for ranks that may never come), and it is the launcher that notices.
#pragma once

#include <exception>
#include <memory>

#include "comm/communicator.hpp"
#include "comm/group_cache.hpp"
#include "comm/launch.hpp"
#include "comm/mpi/mpi_limits.hpp"

namespace dcp::comm {

class MpiSession {
public:
    // Starts MPI with MPI_THREAD_MULTIPLE (the progress thread and the caller are both inside it);
    // UnsupportedError where it grants less. Ranks yield the processor while they wait.
    explicit MpiSession(const MpiLimits& limits = {});
    // Finalizes MPI, unless an exception unwinds. All communicators are gone by then.
    ~MpiSession();
    MpiSession(MpiSession&&) noexcept;
    MpiSession& operator=(MpiSession&&) = delete;
    MpiSession(const MpiSession&) = delete;
    MpiSession& operator=(const MpiSession&) = delete;

    int world_rank() const;
    int world_size() const;
    const LauncherEnvironment& launcher() const;  // as it was before MPI started

    // Collective over the world, like everything that all ranks have to do alike.
    std::unique_ptr<Communicator> make_world();
    std::unique_ptr<Communicator> make_world(const MpiLimits& limits);  // instead of the session's
    // Groups by MPI_Comm_create_group: only the members take part.
    GroupFactory& group_factory();

    // Collective over the world. The same number on ranks that share a node (that can map each
    // other's memory), or as DCP_FAKE_RANKS_PER_NODE says: for gather_topology.
    int node_key();

    // Collective over the world. How many ranks share this one's memory, whatever is made believe.
    int ranks_on_node();

    // Collective over the world. How many processors this rank can count on: of each that it may
    // run on, the share that the node's other ranks leave, who may run there too. So it does not
    // matter whether the launcher has bound ranks to processors, to sockets or not at all.
    int processors();

    // Ends all ranks of the world: one line on stderr ("dcp: error: rank 2: ..."), then MPI_Abort
    // with the error's exit code. Every rank is gone within seconds, even if MPI itself hangs. Of a
    // shared error, which all ranks have, rank 0 speaks; another only if it is still there seconds
    // later.
    [[noreturn]] void abort(const std::exception& error) noexcept;

private:
    class State;
    std::unique_ptr<State> state_;
};

}  // namespace dcp::comm
