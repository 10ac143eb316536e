#include "core/train/eval.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>

#include <fmt/format.h>

#include "core/base/atomic_file.hpp"
#include "core/base/copy.hpp"
#include "core/base/errors.hpp"
#include "core/base/units.hpp"
#include "core/data/sequences.hpp"
#include "core/model/hf_layout.hpp"
#include "core/model/transformer.hpp"
#include "core/train/evaluator.hpp"
#include "core/train/machine.hpp"
#include "core/train/weights.hpp"

namespace dcp::train {

namespace {

// The lines of --per-sequence, written in large pieces.
class PerSequenceFile {
public:
    explicit PerSequenceFile(const std::string& path) : file_(path) {}

    void append(std::string_view line) {
        buffer_ += line;
        if (buffer_.size() >= kBufferBytes) {
            flush();
        }
    }
    void commit() {
        flush();
        file_.commit();
    }

private:
    static constexpr std::size_t kBufferBytes = std::size_t{1} << 20;
    void flush() {
        file_.write(buffer_);
        buffer_.clear();
    }

    AtomicFile file_;
    std::string buffer_;
};

// The first weight tensor with an element that is not finite, or an empty text.
std::string first_bad_weight(Queue& queue, const model::Transformer& model) {
    std::vector<float> values;
    for (const model::ParameterSlot& slot : model.layout().slots()) {
        values.resize(static_cast<std::size_t>(slot.shape.num_elems()));
        copy_to_host(queue, std::as_writable_bytes(std::span(values)),
                     model::view(model.parameters(), slot));
        if (!std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); })) {
            return slot.name;
        }
    }
    return "";
}

[[noreturn]] void fail_not_finite(Queue& queue,
                                  const EvalOptions& options,
                                  const model::Transformer& model,
                                  std::int64_t sequence) {
    const std::string bad = first_bad_weight(queue, model);
    throw NonFiniteError(fmt::format(
        "{}: the loss of sequence {} is not finite; {}", options.weights, sequence,
        bad.empty() ? "all weights are finite, but so large that the model overflows"
                    : fmt::format("tensor '{}' has elements that are not, so these weights are of "
                                  "no use: take earlier ones",
                                  bad)));
}

}  // namespace

void run_eval(const EvalOptions& options) {
    require_output_place("--per-sequence", options.per_sequence);
    const Machine machine =
        resolve_machine(config::Device::kAuto, options.dtype, options.threads, config::kAutomatic);
    const model::FolderConfig folder = model::read_model_config(options.weights);
    const std::int64_t max_tokens = options.max_tokens > 0 ? options.max_tokens : folder.max_tokens;
    const auto table =
        data::SequenceTable::open(options.datasets, max_tokens, folder.model.vocab,
                                  "name a dataset made with the tokenizer of these weights");

    Queue queue = Queue::cpu(machine.threads);
    Arena arena(machine.budget_bytes);
    std::int64_t longest = 1;
    for (std::int64_t document = 0; document < table.num_documents(); ++document) {
        longest = std::max(longest, std::min(table.document_tokens(document) - 1, max_tokens));
    }
    model::Transformer model(folder.model, machine.compute, longest, model::Purpose::kEvaluation,
                             queue, arena);
    load_weights(options.weights, queue, model);
    model.prepare(queue);

    // Short sequences are packed up to a few thousand tokens, enough for the products to run at
    // full rate.
    constexpr std::int64_t kPackedTokens = 4096;
    const std::int64_t micro_batch_tokens = std::max(longest, kPackedTokens);
    const std::int64_t needed = arena.current_bytes() + BatchLoader::bytes(micro_batch_tokens) +
                                Arena::padded_bytes(DType::kFloat32, {micro_batch_tokens}) +
                                model.evaluation_bytes(queue, micro_batch_tokens);
    if (needed > arena.budget_bytes()) {
        throw ConfigError(fmt::format(
            "a sequence of {} tokens needs {} and {} is available: give --max-tokens to cut it",
            longest, format_bytes(needed), format_bytes(arena.budget_bytes())));
    }

    std::optional<PerSequenceFile> lines;
    if (!options.per_sequence.empty()) {
        lines.emplace(options.per_sequence);
    }
    std::vector<std::int64_t> sequences(static_cast<std::size_t>(table.num_sequences()));
    std::iota(sequences.begin(), sequences.end(), 0);
    const LossTotal total =
        Evaluator(model, table, micro_batch_tokens)
            .run(queue, arena, sequences, [&](std::int64_t id, std::int64_t tokens, double loss) {
                if (!std::isfinite(loss)) {
                    fail_not_finite(queue, options, model, id);
                }
                if (lines) {
                    lines->append(
                        fmt::format("{{\"sequence\":{},\"tokens\":{},\"loss_sum\":{:.9g}}}\n", id,
                                    tokens, loss));
                }
            });
    if (lines) {
        lines->commit();
    }
    fmt::print("sequences {}\ntokens {}\nloss {:.6f}\nperplexity {:.4f}\n", table.num_sequences(),
               total.tokens, total.mean(), std::exp(total.mean()));
}

}  // namespace dcp::train
