// main() of the tests that run under mpirun: MPI around Catch2, one report, one exit code.
//
// World rank 0 writes as usual; the others keep their report to themselves unless they fail. A
// check that fails on one rank must not keep it from the collectives the others wait in: CHECK,
// never REQUIRE, before a collective.
#define CATCH_CONFIG_RUNNER
#include <algorithm>
#include <array>
#include <iostream>
#include <sstream>

#include "tests/mpi/session.hpp"
#include <catch2/catch.hpp>

#include "comm/control.hpp"

namespace {

dcp::comm::MpiSession* the_session = nullptr;

}  // namespace

dcp::comm::MpiSession& dcp::test::session() {
    return *the_session;
}

int main(int argc, char** argv) {
    dcp::comm::MpiSession session;
    the_session = &session;
    try {
        std::ostringstream kept;
        std::streambuf* console = std::cout.rdbuf();
        if (session.world_rank() != 0) {
            std::cout.rdbuf(kept.rdbuf());
        }
        const int failures = Catch::Session().run(argc, argv);
        std::cout.rdbuf(console);
        if (failures != 0 && session.world_rank() != 0) {
            std::cout << "rank " << session.world_rank() << ":\n" << kept.str() << std::flush;
        }
        dcp::Queue queue = dcp::Queue::cpu(1);
        const auto world = session.make_world();
        std::array<std::int64_t, 1> worst = {failures};
        dcp::comm::all_reduce_values(queue, *world, worst, dcp::comm::ReduceOp::kMax);
        return std::min(static_cast<int>(worst[0]), 255);
    } catch (const std::exception& error) {
        session.abort(error);
    }
}
