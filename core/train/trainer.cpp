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
#include "core/config/cost_file.hpp"
#include "core/config/reader.hpp"
#include "core/train/byte_frequency.hpp"
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
        data::BatchSize{.sequences = config_.batch.sequences, .tokens = config_.batch.tokens},
        data.shuffle ? data::SampleOrder::kShuffled : data::SampleOrder::kStored);
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

// A batch may be smaller than a micro-batch.
std::int64_t Trainer::largest_batch_tokens() const {
    const std::int64_t longest = longest_sequence();
    return config_.batch.sequences > 0 ? config_.batch.sequences * longest
                                       : std::max(config_.batch.tokens, longest);
}

void Trainer::fail_model_too_large() const {
    throw ConfigError(fmt::format(
        "memory.budget is too small for the model: {} parameters with their gradients and "
        "optimizer states do not fit into {}. Raise memory.budget, or lower model.layers, "
        "model.hidden, model.ffn or model.vocab",
        format_count(model::count_parameters(config_.model)), format_bytes(arena_.budget_bytes())));
}

int Trainer::deepest() const {
    return static_cast<int>(config_.planner.recompute == "auto" ? config_.model.layers
                                                                : config_.model.recompute_layers);
}

// A rare long sequence must not end a run after hours: the largest micro-batch that this data can
// produce is checked now, at the greatest depth of recomputation that is allowed.
void Trainer::check_memory() {
    memory_ = std::make_unique<StepMemory>(queue_, *model_, config_.model,
                                           allowed_degrees(config_, world_.size()),
                                           arena_.current_bytes(), optimizer_->scratch_bytes());
    const std::int64_t budget = arena_.budget_bytes();
    const std::int64_t longest = longest_sequence();
    const std::int64_t largest = std::min(micro_batch_tokens_, largest_batch_tokens());
    const std::int64_t fits =
        memory_->most_tokens(budget, largest, deepest(), is_planned(config_, world_));
    const bool is_chosen = config_.batch.micro_batch_tokens > 0;
    if (fits == 0 || (is_chosen && fits < largest)) {
        fail_step_too_large(largest, fits);
    }
    if (fits < largest) {
        micro_batch_tokens_ = fits;
    }
    check_longest(allowed_degrees(config_, world_.size()).back(), fits < largest);
    predicted_peak_bytes_ = std::min(
        budget,
        memory_->most_bytes(std::min(fits, micro_batch_tokens_), config_.model.recompute_layers));
    check_evaluation_memory(std::max(micro_batch_tokens_, longest));
}

void Trainer::fail_step_too_large(std::int64_t tokens, std::int64_t fits) const {
    const std::string held = format_bytes(arena_.current_bytes());
    const std::string budget = format_bytes(arena_.budget_bytes());
    if (fits == 0) {
        throw ConfigError(fmt::format(
            "memory.budget is too small for the model: one token needs {}, of which {} are "
            "parameters, gradients and optimizer states, and the budget is {}. Raise "
            "memory.budget, or lower model.layers, model.hidden, model.ffn or model.vocab",
            format_bytes(memory_->most_bytes(1, deepest())), held, budget));
    }
    const bool may_share =
        fits * allowed_degrees(config_, world_.size()).back() >= longest_sequence();
    throw ConfigError(fmt::format(
        "memory.budget is too small: {} tokens of a micro-batch on one rank (the longest sequence "
        "has {}) need {}, of which {} are parameters, gradients and optimizer states, and the "
        "budget is {}; the most that fits is {} tokens. Raise memory.budget, lower "
        "batch.micro_batch_tokens{}{}{}",
        tokens, longest_sequence(), format_bytes(memory_->most_bytes(tokens, deepest())), held,
        budget, fits, may_share ? "" : " and data.max_tokens",
        may_share && world_.size() > 1 ? " so that more ranks share long sequences" : "",
        deepest() < config_.model.layers
            ? fmt::format(", or let more layers recompute ({} of {} now): planner.recompute auto",
                          deepest(), config_.model.layers)
            : ""));
}

// The largest group holds the longest sequence.
void Trainer::check_longest(int largest_degree, bool of_memory) const {
    const std::int64_t longest = longest_sequence();
    const std::int64_t most = micro_batch_tokens_ * largest_degree;
    if (longest <= most) {
        return;
    }
    const std::string file =
        config_.planner.cost.empty() ? "" : fmt::format(", planner.cost {}", config_.planner.cost);
    throw ConfigError(fmt::format(
        "the longest sequence has {} tokens, but {} rank{} of {} tokens each ({}) hold {}: raise "
        "{}, lower data.max_tokens,{} or {}",
        longest, largest_degree, largest_degree == 1 ? "" : "s", micro_batch_tokens_,
        of_memory
            ? fmt::format("memory.budget {}, {} of {} layers recomputed",
                          format_bytes(arena_.budget_bytes()), deepest(), config_.model.layers)
            : "batch.micro_batch_tokens",
        most, of_memory ? "memory.budget" : "batch.micro_batch_tokens",
        of_memory && deepest() < config_.model.layers
            ? " let more layers recompute (planner.recompute auto),"
            : "",
        largest_degree < world_.size()
            ? fmt::format("allow an SP degree above {} on these {} ranks (planner.degrees {}{})",
                          largest_degree, world_.size(), config_.planner.degrees, file)
            : "start more ranks"));
}

// Held-out sequences are whole on one rank, and packed up to the limit.
void Trainer::check_evaluation_memory(std::int64_t tokens) {
    if (validation_.empty()) {
        return;
    }
    const std::int64_t bytes =
        arena_.current_bytes() + loaded_bytes(tokens) + model_->evaluation_bytes(queue_, tokens);
    predicted_peak_bytes_ = std::max(predicted_peak_bytes_, bytes);
    if (bytes > arena_.budget_bytes()) {
        throw ConfigError(fmt::format(
            "memory.budget is too small for validation, which takes {} tokens on one rank: {} are "
            "needed, the budget is {}. Raise memory.budget, lower data.max_tokens or "
            "batch.micro_batch_tokens, or hold no documents out",
            tokens, format_bytes(bytes), format_bytes(arena_.budget_bytes())));
    }
}

void Trainer::make_plans() {
    evaluator_ =
        std::make_unique<Evaluator>(*model_, validation_table_ ? *validation_table_ : *table_,
                                    std::max(micro_batch_tokens_, longest_sequence()));
    const auto shallowest = static_cast<int>(config_.model.recompute_layers);
    plans_ = std::make_unique<PlanSource>(
        config_, world_,
        PlanLimits{
            .rank_tokens = micro_batch_tokens_,
            .longest_tokens = longest_sequence(),
            .budget_bytes = arena_.budget_bytes(),
            .shallowest = shallowest,
            .deepest = deepest(),
            .memory = memory_.get(),
            .rates = {
                .bytes = memory_->lines(arena_.budget_bytes(), micro_batch_tokens_, shallowest),
                .bytes_per_element = static_cast<double>(size_bytes(machine_.compute))}});
    check_longest(plans_->degrees().back(), false);  // a cost file may allow fewer
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
    if (!config_.planner.cost.empty()) {
        check("the file of planner.cost",
              config::read_text_file(config_.planner.cost, "cost file"));
    }
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
