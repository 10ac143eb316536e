// What tests of training on many ranks share: a world over MPI, documents, a configuration.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "tests/mpi/session.hpp"
#include "tests/support/dataset_files.hpp"

#include "comm/control.hpp"
#include "comm/local/local_communicator.hpp"
#include "core/base/rng.hpp"
#include "core/train/trainer.hpp"

namespace dcp::test {

inline constexpr std::int64_t kVocab = 31;

// A world over MPI for one trainer.
struct Ranks {
    std::unique_ptr<comm::Communicator> all = session().make_world();
    comm::LocalCommunicator self{session().world_rank()};
    Queue queue = Queue::cpu(1);

    train::World world() {
        return {.all = all.get(),
                .self = &self,
                .groups = &session().group_factory(),
                .topology = comm::gather_topology(queue, *all, session().node_key()),
                .ranks_on_node = session().ranks_on_node()};
    }
    int size() const { return all->group_size(); }
};

// A folder of its own on every rank, with the same documents. One pair, seven, awkward and long.
inline void write_documents(const std::string& prefix, std::int64_t longest) {
    std::vector<std::int64_t> tokens{2, 8, 4, 6, 3, longest + 1, 2, 34};
    const CounterRng lengths(2, "lengths", 0);
    for (std::uint64_t i = 0; i < 60; ++i) {
        const double u = std::pow(lengths.uniform(i), 4);
        tokens.push_back(2 + static_cast<std::int64_t>(u * static_cast<double>(longest - 1)));
    }
    documents_of(random_documents(tokens, kVocab)).write(prefix);
}

inline config::Config small_config(const std::string& prefix) {
    config::Config config;
    config.model.hidden = 24;
    config.model.layers = 2;
    config.model.heads = 6;  // degrees 4 and 5 need a ring, 6 may be either
    config.model.kv_heads = 2;
    config.model.head_dim = 4;
    config.model.ffn = 20;
    config.model.vocab = kVocab;
    config.data.train = {prefix};
    config.data.max_tokens = 200;
    config.batch.sequences = 5;
    config.batch.micro_batch_tokens = 500;
    config.optimizer.lr = 0;  // weights stay, so that every iteration compares one plan
    config.schedule.warmup = 0;
    config.planner.name = "random";
    config.run.dtype = config::ComputeType::kFloat32;
    config.run.threads = 1;
    config.memory.budget = std::int64_t{64} << 20;
    return config;
}

}  // namespace dcp::test
