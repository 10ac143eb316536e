// A run that goes wrong on purpose: faults.sh starts it under mpirun and watches that every process
// is gone in time, with one clear line and the right exit code.
//
//     fault_program MODE RANK MARK      (MARK only makes the processes easy to find)
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "comm/control.hpp"
#include "comm/mpi/mpi_session.hpp"

using namespace dcp;
using namespace dcp::comm;

namespace {

// What the healthy ranks are in when the fault comes: collectives without end.
[[noreturn]] void work_for_ever(Communicator& world) {
    Queue queue = Queue::cpu(1);
    std::vector<double> values(1000, 1.0);
    for (;;) {
        all_reduce_values(queue, world, values, ReduceOp::kMax);
    }
}

void fail(const std::string& mode, Communicator& world) {
    Queue queue = Queue::cpu(1);
    if (mode == "throw") {
        throw DataError("data/train.bin ends early: copy it again");
    }
    if (mode == "pending") {  // an exception unwinds past an exchange that will never finish
        std::vector<float> block(1 << 20, 1.0F);
        const Tensor tensor(block.data(), DType::kFloat32, {1 << 20});
        const int peer = (world.group_rank() + 1) % world.group_size();
        const Pending pending =
            world.exchange(queue, {.to = peer, .receive = tensor, .from = peer});
        throw NonFiniteError("the loss is not finite");
    }
    if (mode == "kill") {
        (void)std::raise(SIGKILL);
    }
    if (mode == "exit") {  // as a library might
        _exit(0);
    }
}

void run(MpiSession& session, const std::string& mode, int faulty_rank) {
    check_launcher(session.world_size(), session.launcher());
    const auto world = session.make_world();
    Queue queue = Queue::cpu(1);
    if (mode == "disagree") {
        const bool is_faulty = session.world_rank() == faulty_rank;
        const std::vector<std::byte> bytes(10, std::byte(is_faulty ? 1 : 0));
        check_all_equal(queue, *world, "the configuration", bytes);
    }
    world->barrier(queue);
    if (session.world_rank() == faulty_rank) {
        fail(mode, *world);
    }
    work_for_ever(*world);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 3) {
        return 64;
    }
    const std::string mode = argv[1];
    const int faulty_rank = std::stoi(argv[2]);
    try {
        MpiSession session;
        if (mode == "leave" && session.world_rank() == faulty_rank) {
            throw IoError("an error that nobody catches inside the session");
        }
        try {
            run(session, mode == "leave" ? "none" : mode, faulty_rank);
        } catch (const std::exception& error) {
            session.abort(error);
        }
    } catch (const Error& error) {
        fmt::print(stderr, "dcp: {}\n", error.what());
        return error.exit_code();
    }
}
