#include "core/train/trainer.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <span>

#include <fmt/format.h>

#include "comm/control.hpp"
#include "core/base/errors.hpp"
#include "core/base/units.hpp"
#include "core/config/reader.hpp"
#include "core/model/sharded_attention.hpp"
#include "core/plan/strategy.hpp"
#include "core/train/byte_frequency.hpp"
#include "core/train/rates_probe.hpp"
#include "core/train/weights.hpp"

namespace dcp::train {

namespace {

// Of the executable's bytes; nothing where the system does not show them.
std::string hash_of_program() {
    std::ifstream file("/proc/self/exe", std::ios::binary);
    std::vector<char> block(1 << 20);
    std::string hashes;
    while (file.read(block.data(), static_cast<std::streamsize>(block.size())), file.gcount() > 0) {
        const std::span read(block.data(), static_cast<std::size_t>(file.gcount()));
        hashes += fmt::format("{:x} ", comm::hash_bytes(std::as_bytes(read)));
    }
    return hashes;
}

// Of some sequences from first to last.
std::string hash_of_sample(const data::SequenceTable& table) {
    constexpr std::int64_t kSampled = 256;
    const std::int64_t stride = std::max<std::int64_t>(table.num_sequences() / kSampled, 1);
    std::string hashes;
    for (std::int64_t sequence = 0; sequence < table.num_sequences(); sequence += stride) {
        std::vector<std::int32_t> inputs(static_cast<std::size_t>(table.tokens(sequence)));
        std::vector<std::int32_t> targets(inputs.size());
        table.load(sequence, inputs, targets);
        hashes += fmt::format("{:x} ", comm::hash_bytes(std::as_bytes(std::span(targets))));
    }
    return hashes;
}

// A micro-batch and the losses of its tokens, whatever is done with them.
std::int64_t loaded_bytes(std::int64_t T) {
    return BatchLoader::bytes(T) + Arena::padded_bytes(DType::kFloat32, {T}) +
           2 * Arena::kAlignmentBytes;
}

}  // namespace

Trainer::Trainer(const config::Config& config, const World& world)
    : config_(config),
      world_(world),
      machine_(resolve_machine(config.run.device,
                               config.run.dtype,
                               config.run.threads,
                               config.memory.budget,
                               world.ranks_on_node,
                               world.processors)),
      queue_(Queue::cpu(machine_.threads)),
      arena_(machine_.budget_bytes),
      schedule_(config.schedule, config.optimizer.lr, config.run.iterations) {
    open_data();
    try {
        make_model();
    } catch (const MemoryBudgetError&) {  // its advice is for a run that has begun
        fail_model_too_large();
    }
    check_memory();
    make_plans();
}

void Trainer::warn_of(const data::SequenceTable& table) const {
    for (const data::TokenStore& store : table.stores()) {
        if (const std::string warning = store.warning(); world_.is_first() && !warning.empty()) {
            fmt::print(stderr, "dcp: warning: {}\n", warning);
        }
    }
}

Trainer::Trainer(const config::Config& config) : Trainer(config, std::make_unique<LocalWorld>()) {}

Trainer::Trainer(const config::Config& config, std::unique_ptr<LocalWorld> local)
    : Trainer(config, local->world()) {
    local_ = std::move(local);
}

void Trainer::open_data() {
    const config::DataConfig& data = config_.data;
    table_ = std::make_unique<data::SequenceTable>(
        data::SequenceTable::open(data.train, data.max_tokens, config_.model.vocab));
    warn_of(*table_);
    split_ = std::make_unique<data::Split>(*table_, data.validation_documents);
    sampler_ = std::make_unique<data::Sampler>(
        *table_, *split_, static_cast<std::uint64_t>(config_.run.seed),
        data::BatchSize{.sequences = config_.batch.sequences, .tokens = config_.batch.tokens});
    if (!data.validation.empty()) {
        validation_table_ = std::make_unique<data::SequenceTable>(
            data::SequenceTable::open(data.validation, data.max_tokens, config_.model.vocab));
        warn_of(*validation_table_);
        validation_.resize(static_cast<std::size_t>(validation_table_->num_sequences()));
        std::iota(validation_.begin(), validation_.end(), 0);
    } else {
        for (std::int64_t index = 0; index < split_->num_validation(); ++index) {
            validation_.push_back(split_->validation(index));
        }
    }
    // "Do not split" is a very large data.max_tokens, which no micro-batch needs to hold.
    constexpr std::int64_t kEnoughTokens = 8192;
    const std::int64_t automatic =
        std::min(data.max_tokens, std::max(longest_sequence(), kEnoughTokens));
    micro_batch_tokens_ =
        config_.batch.micro_batch_tokens > 0 ? config_.batch.micro_batch_tokens : automatic;
    loader_ = std::make_unique<BatchLoader>(*table_);
}

void Trainer::make_model() {
    const std::int64_t longest = longest_sequence();
    model_ = std::make_unique<model::Transformer>(config_.model, machine_.compute, longest,
                                                  model::Purpose::kTraining, queue_, arena_);
    if (config_.model.init_from.empty()) {
        model_->initialize(queue_, static_cast<std::uint64_t>(config_.run.seed));
    } else {
        load_weights(config_.model.init_from, queue_, *model_);
    }
    model_->prepare(queue_);
    optimizer_ =
        std::make_unique<Optimizer>(config_.optimizer, model_->layout(), world_, queue_, arena_);
    evaluator_ =
        std::make_unique<Evaluator>(*model_, validation_table_ ? *validation_table_ : *table_,
                                    std::max(micro_batch_tokens_, longest));
    // Held before the memory is checked, as it is never given back.
    constexpr int kMaxGroupsPerRank = 32;
    groups_ = std::make_unique<comm::GroupCache>(*world_.groups, *world_.all, *world_.self,
                                                 kMaxGroupsPerRank, &arena_);
}

std::int64_t Trainer::longest_sequence() const {
    std::int64_t longest = 0;
    for (const data::SequenceTable* table : {table_.get(), validation_table_.get()}) {
        for (std::int64_t document = 0; table != nullptr && document < table->num_documents();
             ++document) {
            longest = std::max(longest,
                               std::min(table->document_tokens(document) - 1, table->max_tokens()));
        }
    }
    return longest;
}

void Trainer::fail_model_too_large() const {
    throw ConfigError(fmt::format(
        "memory.budget is too small for the model: {} parameters with their gradients and "
        "optimizer states do not fit into {}. Raise memory.budget, or lower model.layers, "
        "model.hidden, model.ffn or model.vocab",
        format_count(model::count_parameters(config_.model)), format_bytes(arena_.budget_bytes())));
}

// The highest point of a step with T tokens here, above what is held, whatever group shares it.
std::int64_t Trainer::step_bytes(std::int64_t T) const {
    // A plan of `random` has its own depths.
    const bool any_depth = config_.planner.name == "random" && config_.planner.recompute == "auto";
    const std::int64_t depth = any_depth ? 0 : config_.model.recompute_layers;
    std::int64_t most = model_->training_bytes(queue_, local_attention_, T, depth);
    const plan::Heads heads{.query = static_cast<int>(config_.model.heads),
                            .key_value = static_cast<int>(config_.model.kv_heads)};
    for (const int degree : allowed_degrees(config_, world_.size())) {
        for (const plan::Strategy& strategy : plan::possible_strategies(degree, heads)) {
            if (degree > 1) {
                const model::LargestShard shard(strategy.ulysses, strategy.ring);
                most = std::max(most, model_->training_bytes(queue_, shard, T, depth));
            }
        }
    }
    return loaded_bytes(T) + most;
}

// A rare long sequence must not end a run after hours: the largest micro-batch that this data can
// produce is checked now.
void Trainer::check_memory() {
    const std::int64_t longest = longest_sequence();
    const std::int64_t held_bytes = arena_.current_bytes();
    const auto peak_bytes = [&](std::int64_t T) {  // with T tokens on this rank
        const std::int64_t evaluated = std::max(T, longest);
        const std::int64_t evaluation =
            validation_.empty()
                ? 0
                : loaded_bytes(evaluated) + model_->evaluation_bytes(queue_, evaluated);
        return held_bytes + std::max({step_bytes(T), evaluation, optimizer_->scratch_bytes()});
    };
    // A batch may be smaller than a micro-batch; held-out sequences are packed up to the limit.
    const std::int64_t in_batch = config_.batch.sequences > 0
                                      ? config_.batch.sequences * longest
                                      : std::max(config_.batch.tokens, longest);
    const std::int64_t largest =
        validation_.empty() ? std::min(micro_batch_tokens_, in_batch) : micro_batch_tokens_;
    predicted_peak_bytes_ = peak_bytes(largest);
    if (predicted_peak_bytes_ <= arena_.budget_bytes()) {
        return;
    }
    std::int64_t fits = 0;
    for (std::int64_t step = largest; step > 0; step /= 2) {
        while (fits + step <= largest && peak_bytes(fits + step) <= arena_.budget_bytes()) {
            fits += step;
        }
    }
    throw ConfigError(fmt::format(
        "memory.budget is too small: {} tokens of a micro-batch on one rank (the longest sequence "
        "has {}) need {}, of which {} are parameters, gradients and optimizer states, and the "
        "budget is {}; the most that fits is {} tokens. Raise memory.budget, lower "
        "batch.micro_batch_tokens{}, or raise model.recompute_layers ({} of {} now)",
        largest, longest, format_bytes(predicted_peak_bytes_), format_bytes(held_bytes),
        format_bytes(arena_.budget_bytes()), fits,
        world_.size() > 1 ? " so that more ranks share long sequences" : " or data.max_tokens",
        config_.model.recompute_layers, config_.model.layers));
}

void Trainer::make_plans() {
    // A line that no step is above: allocations are padded, workspaces do not grow evenly, and
    // where tokens do not divide a rank has up to two more than its share.
    constexpr double kMoreTokens = 2;
    const std::int64_t largest = micro_batch_tokens_;
    const double slope =
        static_cast<double>(step_bytes(largest) - step_bytes(0)) / static_cast<double>(largest);
    auto base = static_cast<double>(optimizer_->scratch_bytes());
    for (std::int64_t T = 0; T <= largest; T = T < 16 ? T + 1 : T + T / 16) {
        base = std::max(base, static_cast<double>(step_bytes(T)) - slope * static_cast<double>(T));
    }
    const ModelRates rates{
        .static_bytes = static_cast<double>(arena_.current_bytes()) + base + kMoreTokens * slope,
        .bytes_per_token = slope,
        .bytes_per_element = static_cast<double>(size_bytes(machine_.compute))};
    plans_ = std::make_unique<PlanSource>(config_, world_,
                                          PlanLimits{.rank_tokens = micro_batch_tokens_,
                                                     .longest_tokens = longest_sequence(),
                                                     .rates = rates});
}

void Trainer::measure_costs() {
    if (world_.size() > 1) {
        RatesProbe probe(config_.model, queue_, arena_, world_, *groups_, *model_);
        plans_->set_rates(probe.measure(micro_batch_tokens_, plans_->rates()));
    }
}

void Trainer::check_ranks_agree() {
    if (world_.size() == 1) {
        return;
    }
    const auto check = [&](std::string_view what, const std::string& text) {
        comm::check_all_equal(queue_, *world_.all, what, std::as_bytes(std::span(text)));
    };
    check("the program", hash_of_program());
    check("the configuration", config::to_yaml(config_));
    check("the element type of products (run.dtype: auto)", std::string(name(machine_.compute)));
    // All lengths, and a sample of what is in the documents.
    std::string lengths;
    for (std::int64_t document = 0; document < table_->num_documents(); ++document) {
        lengths += fmt::format("{} ", table_->document_tokens(document));
    }
    check("the data sets", lengths + hash_of_sample(*table_));
}

// Every rank evaluates a share of the sequences by itself.
double Trainer::validate() {
    const auto ranks = static_cast<std::size_t>(world_.size());
    std::vector<std::int64_t> share;
    for (auto index = static_cast<std::size_t>(world_.rank()); index < validation_.size();
         index += ranks) {
        share.push_back(validation_[index]);
    }
    const LossTotal total = evaluator_->run(queue_, arena_, share);
    std::array<double, 2> sums{total.loss_sum, static_cast<double>(total.tokens)};
    comm::all_reduce_values(queue_, *world_.all, sums, comm::ReduceOp::kSum);
    const double mean = sums[0] / sums[1];
    return std::isnan(mean) ? std::fabs(mean) : mean;  // its sign would be printed
}

double Trainer::frequency_loss() const {
    constexpr std::int64_t kMaxTokens = 16'000'000;  // a fraction of a second
    constexpr std::int64_t kMaxSequences = 1'000'000;
    std::vector<std::int64_t> counted;
    for (std::int64_t index = 0; index < std::min(split_->num_training(), kMaxSequences); ++index) {
        counted.push_back(split_->training(index));
    }
    const bool other_table = validation_table_ != nullptr;
    return frequency_model_loss(*table_, counted,
                                other_table || validation_.empty() ? counted : validation_,
                                config_.model.vocab, kMaxTokens);
}

void Trainer::save_weights(const std::string& folder) {
    train::save_weights(folder, config_.data.max_tokens, queue_, *model_);
}

}  // namespace dcp::train
