#include "core/profile/layer_profiler.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/model/sharded_attention.hpp"
#include "core/profile/placement.hpp"
#include "core/profile/samples.hpp"
#include "kernels/optimizer.hpp"

namespace dcp::profile {

namespace {

// One sample of one rank, as it travels.
struct Sample {
    double forward = 0;
    double backward = 0;
    double recompute = 0;
    double pass = 0;
    double slowness = 1;        // of the rank meanwhile
    double until_all_done = 0;  // seconds a pass, those of the slowest rank

    double both() const { return forward + backward; }
};

std::vector<Sample> gather(Queue& queue, comm::Communicator& world, const Sample& mine) {
    std::vector<Sample> all(static_cast<std::size_t>(world.group_size()));
    const std::vector<std::int64_t> counts(all.size(), sizeof(Sample));
    world.all_gather(
        queue, ConstTensor(&mine, DType::kUInt8, {sizeof(Sample)}),
        Tensor(all.data(), DType::kUInt8, {static_cast<std::int64_t>(all.size() * sizeof(Sample))}),
        counts);
    return all;
}

// The share of a rank that is left over: as many tokens as a member of a group has.
Request alone(const Request& request) {
    const int degree = request.strategy.degree();
    const std::int64_t tokens = std::max<std::int64_t>(1, request.tokens / degree);
    return {.tokens = tokens,
            .sequences = std::clamp<std::int64_t>(request.sequences / degree, 1, tokens)};
}

Sample scaled(Sample sample, double factor) {
    sample.forward *= factor;
    sample.backward *= factor;
    sample.recompute *= factor;
    return sample;
}

// Processor time of ranks that take turns, as seconds: those that pass until the last is done. Who
// has its turn last begins late, so that is what the one that waited longest says.
void share_evenly(std::vector<Sample>& all) {
    double longest = 0;
    for (const Sample& sample : all) {
        longest = std::max(longest, sample.until_all_done);
    }
    for (Sample& sample : all) {
        sample = scaled(sample, longest / std::max(sample.pass, 1e-9));
    }
}

bool is_stable(std::span<const double> seconds, const Effort& effort) {
    const Estimate now = estimate(seconds);
    return static_cast<int>(seconds.size()) >= effort.most_samples ||
           (now.num_kept >= effort.least_samples && now.relative_error <= effort.relative_error);
}

}  // namespace

struct LayerProfiler::Round {
    struct Asked {
        Request request;
        int passes = 1;                 // within a sample
        std::vector<Sample> samples;    // of a group each, by its slowest rank
        std::vector<double> rank_sums;  // forward and backward, over samples
        std::vector<int> rank_counts;
    };
    Placement placement;
    std::vector<Asked> asked;
    comm::Communicator* group = nullptr;  // of this rank; the rank alone where it is left over
    std::size_t group_index = 0;
    bool is_left_over = false;

    std::size_t asked_of(std::size_t index, int block) const {
        return (index + static_cast<std::size_t>(block)) % asked.size();
    }
};

LayerProfiler::LayerProfiler(model::Transformer& model,
                             Queue& queue,
                             Arena& arena,
                             comm::GroupCache& groups,
                             int ranks_per_node)
    : model_(model),
      queue_(queue),
      groups_(groups),
      ranks_per_node_(ranks_per_node),
      pass_(model, queue, arena),
      reference_(pass_, queue, groups.world()) {}

void LayerProfiler::set_processors_shared() {
    shares_processors_ = true;
    pass_.count_processor_time();
}

// The first write to a page costs more than a pass.
void LayerProfiler::touch_gradients() {
    if (!has_touched_gradients_) {
        kernels::fill_zero(queue_, model_.gradients());
        has_touched_gradients_ = true;
    }
}

void LayerProfiler::set_reference(const plan::ProfileReference& reference) {
    touch_gradients();
    reference_.set(reference);
}

LayerProfiler::Round LayerProfiler::start_round(std::span<const Request> requests) {
    comm::Communicator& world = groups_.world();
    Round round;
    round.placement =
        place_groups(world.group_size(), ranks_per_node_, requests.front().strategy.degree());
    const auto ranks = static_cast<std::size_t>(world.group_size());
    for (const Request& request : requests) {
        round.asked.push_back({.request = request,
                               .passes = 1,
                               .samples = {},
                               .rank_sums = std::vector<double>(ranks),
                               .rank_counts = std::vector<int>(ranks)});
    }
    // Every rank names every group, members or not (comm/group_cache.hpp).
    for (std::size_t index = 0; index < round.placement.groups.size(); ++index) {
        if (comm::Communicator* group = groups_.use(round.placement.groups[index])) {
            round.group = group;
            round.group_index = index;
        }
    }
    const std::vector<int>& left_over = round.placement.left_over;
    for (std::size_t index = 0; index < left_over.size(); ++index) {
        if (comm::Communicator* self = groups_.use(std::span(&left_over[index], 1))) {
            round.group = self;
            round.group_index = index;
            round.is_left_over = true;
        }
    }
    return round;
}

// One repeat on every group, and every rank knows all of them.
void LayerProfiler::run_block(Round& round, int block, bool is_sample) {
    const Round::Asked& here = round.asked[round.asked_of(round.group_index, block)];
    const double before = slowness_;
    const auto start = std::chrono::steady_clock::now();
    const LayerSeconds seconds =
        pass_.run_layers(round.is_left_over ? alone(here.request) : here.request, *round.group,
                         next_layer_, here.passes, measures_recompute_);
    ++next_layer_;
    double until_all_done = 0;
    if (shares_processors_) {
        groups_.world().barrier(queue_);
        const std::chrono::duration<double> whole = std::chrono::steady_clock::now() - start;
        until_all_done = whole.count() / here.passes;
    }
    slowness_ = reference_.slowness();
    std::vector<Sample> all = gather(queue_, groups_.world(),
                                     {.forward = seconds.forward,
                                      .backward = seconds.backward,
                                      .recompute = seconds.recompute,
                                      .pass = seconds.pass,
                                      .slowness = (before + slowness_) / 2,
                                      .until_all_done = until_all_done});
    for (const Sample& sample : all) {
        reference_.remember(sample.slowness);
    }
    if (shares_processors_) {
        share_evenly(all);
    }
    for (std::size_t group = 0; group < round.placement.groups.size(); ++group) {
        Round::Asked& asked = round.asked[round.asked_of(group, block)];
        Sample slowest{.slowness = 0};
        double slowness = 0;
        for (const int rank : round.placement.groups[group]) {
            const Sample& sample = all[static_cast<std::size_t>(rank)];
            slowness = std::max(slowness, sample.slowness);
            if (sample.both() >= slowest.both()) {
                slowest = sample;
            }
            if (is_sample) {
                asked.rank_sums[static_cast<std::size_t>(rank)] += sample.both();
                ++asked.rank_counts[static_cast<std::size_t>(rank)];
            }
        }
        asked.samples.push_back(scaled(slowest, 1 / slowness));
    }
}

bool LayerProfiler::is_done(const Round& round, const Effort& effort) const {
    return std::all_of(round.asked.begin(), round.asked.end(), [&](const Round::Asked& asked) {
        std::vector<double> seconds;
        for (const Sample& sample : asked.samples) {
            seconds.push_back(sample.both());
        }
        return is_stable(seconds, effort);
    });
}

Measurement LayerProfiler::finish(const Round& round, std::size_t index) const {
    const Round::Asked& asked = round.asked[index];
    const auto of = [&](double Sample::*phase) {
        std::vector<double> seconds;
        for (const Sample& sample : asked.samples) {
            seconds.push_back(sample.*phase);
        }
        return estimate(seconds);
    };
    const Estimate forward = of(&Sample::forward);
    const Estimate backward = of(&Sample::backward);
    const plan::Load load = asked.request.load();
    const plan::Strategy& strategy = asked.request.strategy;
    Measurement made{.point = {.tokens = load.tokens,
                               .squared_tokens = load.squared_tokens,
                               .strategy = strategy,
                               .link = plan::link_class(strategy.degree(), ranks_per_node_),
                               .forward_seconds = forward.seconds,
                               .backward_seconds = backward.seconds,
                               .recompute_seconds = of(&Sample::recompute).seconds},
                     .relative_error = std::max(forward.relative_error, backward.relative_error),
                     .rank_seconds = asked.rank_sums};
    for (std::size_t rank = 0; rank < made.rank_seconds.size(); ++rank) {
        made.rank_seconds[rank] /= std::max(asked.rank_counts[rank], 1);
    }
    add_bytes(made.point);
    return made;
}

// What a rank's share may be: one token more than the others', and a ring part's share that is cut
// again.
void LayerProfiler::add_bytes(plan::ProfilePoint& point) const {
    constexpr std::int64_t kMoreTokens = 2;
    const int degree = point.strategy.degree();
    const std::int64_t T =
        degree == 1 ? point.tokens : (point.tokens + degree - 1) / degree + kMoreTokens;
    const model::LocalAttention whole;
    const model::LargestShard shard(point.strategy.ulysses, point.strategy.ring);
    const model::AttentionBytes& attention =
        degree == 1 ? static_cast<const model::AttentionBytes&>(whole) : shard;
    const config::ModelConfig& config = model_.config();
    const std::int64_t x = Arena::padded_bytes(model_.compute(), {T, config.hidden});
    const auto layers = static_cast<int>(config.layers);
    point.kept_bytes = static_cast<double>(model_.block(0).saved_bytes(attention, T) + x);
    point.checkpoint_bytes = static_cast<double>(x);
    // What is at work beside the layers, at whatever depth that is most.
    for (const int depth : {0, 1, layers - 1, layers}) {
        const std::int64_t all = model_.training_bytes(queue_, attention, T, depth);
        const double kept =
            plan::kept_by_layers(layers, depth, point.kept_bytes, point.checkpoint_bytes);
        point.working_bytes =
            std::max(point.working_bytes, static_cast<double>(all - 2 * x) - kept);
    }
    // Tensors fill whole lines of the arena, between measured points more than on a straight line.
    const std::int64_t tensors = 8 * config.layers + 16;
    point.working_bytes += static_cast<double>(tensors * Arena::kAlignmentBytes);
}

std::vector<Measurement> LayerProfiler::measure(std::span<const Request> requests,
                                                const Effort& effort) {
    touch_gradients();
    std::vector<Measurement> measured;
    for (std::size_t begin = 0; begin < requests.size();) {
        // Those that can run side by side: as many as there are groups.
        const Request& first = requests[begin];
        const std::size_t most = shares_processors_
                                     ? 1
                                     : place_groups(groups_.world().group_size(), ranks_per_node_,
                                                    first.strategy.degree())
                                           .groups.size();
        std::size_t end = begin + 1;
        while (end < requests.size() && end - begin < most &&
               requests[end].strategy == first.strategy && requests[end].tokens == first.tokens) {
            ++end;
        }
        Round round = start_round(requests.subspan(begin, end - begin));
        reference_.look_for(0);
        const auto blocks = static_cast<int>(round.asked.size());  // after which all had a turn
        for (int block = 0; block < blocks; ++block) {
            run_block(round, block, /*is_sample=*/false);  // warms up, and shows how long it takes
        }
        double sample_seconds = 0;
        for (Round::Asked& asked : round.asked) {
            double pass = 0;
            for (const Sample& sample : asked.samples) {
                pass = std::max(pass, sample.pass);
            }
            asked.passes = static_cast<int>(
                std::clamp(std::ceil(effort.sample_seconds / std::max(pass, 1e-9)), 1.0, 100.0));
            asked.samples.clear();
            sample_seconds = std::max(sample_seconds, pass * asked.passes);
        }
        reference_.look_for(sample_seconds);
        slowness_ = reference_.slowness();
        do {
            for (int block = 0; block < blocks; ++block) {
                run_block(round, block, /*is_sample=*/true);
            }
        } while (!is_done(round, effort));
        for (std::size_t index = 0; index < round.asked.size(); ++index) {
            measured.push_back(finish(round, index));
        }
        begin = end;
    }
    return measured;
}

// A line through the fewest and the most tokens; what lies between does not bend it much.
Ends LayerProfiler::measure_ends(std::int64_t rank_tokens, const Effort& effort) {
    const auto mean_seconds = [&](std::int64_t T) {
        const auto sample = [&](int passes) {
            const double before = reference_.slowness();
            const double pass = pass_.run_ends(T, passes);
            const double meanwhile = (before + reference_.slowness()) / 2;
            std::vector<double> seconds;
            for (const Sample& one :
                 gather(queue_, groups_.world(), {.pass = pass, .slowness = meanwhile})) {
                seconds.push_back(one.pass / one.slowness);
                reference_.remember(one.slowness);
            }
            return seconds;
        };
        const double first = estimate(sample(1)).seconds;
        const int passes = static_cast<int>(
            std::clamp(std::ceil(effort.sample_seconds / std::max(first, 1e-9)), 1.0, 100.0));
        std::vector<double> seconds;
        while (!is_stable(seconds, effort)) {
            const std::vector<double> more = sample(passes);
            seconds.insert(seconds.end(), more.begin(), more.end());
        }
        return estimate(seconds).seconds;
    };
    const std::int64_t few = std::min<std::int64_t>(16, rank_tokens);
    const double least = mean_seconds(few);
    if (few == rank_tokens) {
        return {.fixed_seconds = least, .token_seconds = 0};
    }
    const double most = mean_seconds(rank_tokens);
    const double slope = std::max(0.0, (most - least) / static_cast<double>(rank_tokens - few));
    return {.fixed_seconds = std::max(0.0, least - slope * static_cast<double>(few)),
            .token_seconds = slope};
}

}  // namespace dcp::profile
