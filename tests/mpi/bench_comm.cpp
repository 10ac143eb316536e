// Figures of the communication layer on this machine: run by hand under mpirun, nothing is checked.
//
//     mpirun -np 2 bench_comm [MEGABYTES]
//
// Every time is the shortest of several runs, as rank 0 sees it, behind a barrier.
#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <numeric>
#include <string>

#include <fmt/format.h>

#include "comm/control.hpp"
#include "comm/counts.hpp"
#include "comm/group_cache.hpp"
#include "comm/local/local_communicator.hpp"
#include "comm/mpi/mpi_session.hpp"

using namespace dcp;
using namespace dcp::comm;

namespace {

struct Bench {
    MpiSession& session;
    std::unique_ptr<Communicator> world = session.make_world();
    Queue queue = Queue::cpu(1);
    bool speaks = session.world_rank() == 0;

    double best(int runs, const std::function<void()>& body) {
        double seconds = 1e9;
        for (int run = 0; run < runs; ++run) {
            world->barrier(queue);
            const auto start = std::chrono::steady_clock::now();
            body();
            seconds = std::min(
                seconds,
                std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
        }
        return seconds;
    }
};

double resident_bytes() {
    std::ifstream file("/proc/self/statm");
    double size = 0;
    double resident = 0;
    file >> size >> resident;
    return resident * 4096;
}

void collectives(Bench& bench, std::int64_t bytes) {
    const int size = bench.world->group_size();
    const std::int64_t elems = bytes / 4;
    std::vector<float> send(static_cast<std::size_t>(elems), 1.0F);
    std::vector<float> receive(static_cast<std::size_t>(elems));
    const Tensor send_tensor(send.data(), DType::kFloat32, {elems});
    const Tensor receive_tensor(receive.data(), DType::kFloat32, {elems});
    std::vector<std::int64_t> counts;
    counts.reserve(static_cast<std::size_t>(size));
    for (int rank = 0; rank < size; ++rank) {
        counts.push_back(even_block_elems(elems, size, rank));
    }
    const int own = bench.world->group_rank();
    const std::int64_t begin = even_block_begin(elems, size, own);
    const std::int64_t count = counts[static_cast<std::size_t>(own)];
    std::vector<std::byte> workspace(static_cast<std::size_t>(
        std::max(bench.world->reduce_scatter_workspace_bytes(Number::kFloat32, counts),
                 bench.world->all_reduce_workspace_bytes(Number::kFloat32, elems))));
    const Tensor workspace_tensor(workspace.data(), DType::kUInt8,
                                  {static_cast<std::int64_t>(workspace.size())});
    const int runs = bytes > (1 << 20) ? 15 : 200;
    const std::vector<std::int64_t> even(static_cast<std::size_t>(size), elems / size);
    const Tensor even_send = send_tensor.rows(0, elems / size * size);
    const Tensor even_receive = receive_tensor.rows(0, elems / size * size);
    const double all_to_all = bench.best(
        runs, [&] { bench.world->all_to_all(bench.queue, even_send, even, even_receive, even); });
    const double all_gather = bench.best(runs, [&] {
        bench.world->all_gather(bench.queue, send_tensor.rows(begin, count), receive_tensor,
                                counts);
    });
    const double reduce_scatter = bench.best(runs, [&] {
        bench.world->reduce_scatter(bench.queue, send_tensor, receive_tensor.rows(begin, count),
                                    counts, workspace_tensor);
    });
    const double all_reduce = bench.best(runs, [&] {
        bench.world->all_reduce(bench.queue, receive_tensor, Number::kFloat32, ReduceOp::kMax,
                                workspace_tensor);
    });
    const double ring = bench.best(runs, [&] {
        bench.world
            ->exchange(bench.queue, {.send = send_tensor,
                                     .to = (own + 1) % size,
                                     .receive = receive_tensor,
                                     .from = (own + size - 1) % size})
            .wait(bench.queue);
    });
    if (bench.speaks) {
        fmt::print(
            "{:>9} bytes: all_to_all {:8.1f} us, all_gather {:8.1f}, reduce_scatter {:8.1f}, "
            "all_reduce {:8.1f}, exchange {:8.1f}\n",
            bytes, all_to_all * 1e6, all_gather * 1e6, reduce_scatter * 1e6, all_reduce * 1e6,
            ring * 1e6);
    }
}

void compute(std::int64_t rounds) {
    volatile double sink = 0;
    double sum = 1;
    for (std::int64_t round = 0; round < rounds; ++round) {
        sum = sum * 1.0000001 + 1e-9;
    }
    sink = sum;
    (void)sink;
}

// How much of an exchange disappears behind work of about the same length.
void overlap(Bench& bench, std::int64_t bytes) {
    const int size = bench.world->group_size();
    const int own = bench.world->group_rank();
    const std::int64_t elems = bytes / 4;
    std::vector<float> send(static_cast<std::size_t>(elems), 1.0F);
    std::vector<float> receive(static_cast<std::size_t>(elems));
    // The opposite rank: with two nodes of as many ranks each, all data crosses between them.
    const int peer = (own + size / 2) % size;
    const Transfer transfer{ConstTensor(send.data(), DType::kFloat32, {elems}), peer,
                            Tensor(receive.data(), DType::kFloat32, {elems}), peer};
    const double alone =
        bench.best(15, [&] { bench.world->exchange(bench.queue, transfer).wait(bench.queue); });
    // Work of about that length on a free processor; a busy machine makes it longer.
    constexpr std::int64_t kProbe = 50'000;
    const double probe = bench.best(500, [] { compute(kProbe); });
    std::vector<double> ratio = {alone / probe};
    all_reduce_values(bench.queue, *bench.world, ratio, ReduceOp::kMax);
    const auto rounds = static_cast<std::int64_t>(static_cast<double>(kProbe) * ratio[0]);
    double work = 1e9;
    double in_turn = 1e9;
    double together = 1e9;
    double rest = 1e9;                            // of the exchange, once the work is done
    for (int repeat = 0; repeat < 9; ++repeat) {  // side by side: other load changes with time
        work = std::min(work, bench.best(1, [&] { compute(rounds); }));
        in_turn = std::min(in_turn, bench.best(1, [&] {
            bench.world->exchange(bench.queue, transfer).wait(bench.queue);
            compute(rounds);
        }));
        together = std::min(together, bench.best(1, [&] {
            Pending pending = bench.world->exchange(bench.queue, transfer);
            compute(rounds);
            const auto start = std::chrono::steady_clock::now();
            pending.wait(bench.queue);
            rest = std::min(
                rest,
                std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
        }));
    }
    if (bench.speaks) {
        fmt::print(
            "overlap, {} bytes: exchange {:.2f} ms, work {:.2f}, in turn {:.2f}, together {:.2f}, "
            "of it waiting {:.2f}\n",
            bytes, alone * 1e3, work * 1e3, in_turn * 1e3, together * 1e3, rest * 1e3);
    }
}

void groups(Bench& bench) {
    const int size = bench.world->group_size();
    if (size < 3) {
        return;
    }
    std::vector<int> ranks(static_cast<std::size_t>(size - 1));
    std::iota(ranks.begin(), ranks.end(), 0);
    const bool is_member = bench.session.world_rank() < size - 1;
    LocalCommunicator self(bench.session.world_rank());
    GroupCache cache(bench.session.group_factory(), *bench.world, self, 8, nullptr);
    const double make = bench.best(50, [&] {
        if (is_member) {
            bench.session.group_factory().make_group(ranks, 3);
        }
    });
    cache.use(ranks);
    const double find = bench.best(1000, [&] { cache.use(ranks); });
    constexpr int kKept = 500;
    std::vector<std::unique_ptr<Communicator>> kept;
    const double before = resident_bytes();
    for (int index = 0; index < kKept && is_member; ++index) {
        kept.push_back(bench.session.group_factory().make_group(ranks, 4));
        kept.back()->barrier(bench.queue);
    }
    if (bench.speaks) {
        fmt::print("group of {}: make and free {:.1f} us, find {:.2f} us, {:.1f} KiB each\n",
                   size - 1, make * 1e6, find * 1e6, (resident_bytes() - before) / kKept / 1024);
    }
}

}  // namespace

int main(int argc, char** argv) {
    MpiSession session;
    try {
        Bench bench{session};
        const std::int64_t megabytes = argc > 1 ? std::stol(argv[1]) : 16;
        overlap(bench, megabytes << 20);
        for (const std::int64_t bytes : {std::int64_t{1} << 10, std::int64_t{1} << 16,
                                         std::int64_t{1} << 20, megabytes << 20}) {
            collectives(bench, bytes);
        }
        groups(bench);
    } catch (const std::exception& error) {
        session.abort(error);
    }
}
