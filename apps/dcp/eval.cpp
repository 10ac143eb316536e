// dcp eval: the loss of a dataset under a weights folder.
#include "core/train/eval.hpp"

#include <memory>

#include <CLI/CLI.hpp>

#include "apps/dcp/commands.hpp"
#include "apps/dcp/option_checks.hpp"

namespace dcp {

namespace {

constexpr const char* kDescription =
    "Compute the loss of datasets under a weights folder\n\n"
    "Cuts the documents into sequences as training does and prints the number of tokens, the mean\n"
    "loss of a token and the perplexity. The folder is one that `dcp train` or `dcp export` "
    "wrote,\n"
    "or a Llama-family model of another program (config.json and model.safetensors).";

constexpr const char* kFooter = R"(Examples:
  dcp eval --weights runs/first/weights --dataset data/manpages
  dcp eval --weights runs/first/weights --dataset data/a data/b --per-sequence losses.jsonl

--per-sequence writes one object a line: {"sequence": i, "tokens": n, "loss_sum": x}.

Exit status: 0 done, 2 the weights or the data are wrong, 3 the evaluation could not go on.)";

}  // namespace

void add_eval_command(CLI::App& app) {
    CLI::App* eval = app.add_subcommand("eval", kDescription);
    const auto options = std::make_shared<train::EvalOptions>();
    const auto dtype = std::make_shared<std::string>("fp32");
    eval->footer(kFooter);
    eval->add_option("--weights", options->weights, "Weights folder")
        ->required()
        ->type_name("FOLDER");
    eval->add_option("--dataset", options->datasets, "Datasets, numbered in this order")
        ->required()
        ->type_name("PREFIX");
    eval->add_option("--per-sequence", options->per_sequence,
                     "Also write the loss of each sequence to this file")
        ->type_name("FILE");
    eval->add_option("--max-tokens", options->max_tokens,
                     "Longest sequence; default: max_position_embeddings of the weights")
        ->check(whole_number())
        ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 31))
        ->type_name("N");
    eval->add_option("--dtype", *dtype, "fp32 (default) or bf16")
        ->check(CLI::IsMember({"fp32", "bf16"}))
        ->type_name("TYPE");
    eval->add_option("--threads", options->threads, "Threads; default: one a core")
        ->check(whole_number())
        ->check(CLI::Range(1, 1024))
        ->type_name("N");
    eval->callback([options, dtype] {
        options->dtype =
            *dtype == "bf16" ? config::ComputeType::kBFloat16 : config::ComputeType::kFloat32;
        train::run_eval(*options);
    });
}

}  // namespace dcp
