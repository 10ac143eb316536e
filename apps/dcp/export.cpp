// dcp export: the weights of a run as a folder for other programs.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "apps/dcp/commands.hpp"
#include "core/base/errors.hpp"
#include "core/base/units.hpp"
#include "core/model/hf_layout.hpp"

namespace dcp {

namespace {

constexpr const char* kDescription =
    "Write the weights of a run as a Hugging Face folder\n\n"
    "Checks RUN/weights and writes config.json and model.safetensors (in shards above 5 GB) to "
    "the\n"
    "folder given by --out, whole or not at all. transformers loads a model with RMSNorm, RoPE,\n"
    "SwiGLU and causal attention as LlamaForCausalLM; docs/weights.md lists the rest. An --out "
    "that\n"
    "holds weights is replaced, one that holds anything else is refused.";

constexpr const char* kFooter = R"(Examples:
  dcp export --run runs/first --out exported
  dcp export --run runs/first --out exported-bf16 --dtype bf16

Exit status: 0 done, 2 the run has no usable weights or --out is taken, 3 writing failed.)";

struct Arguments {
    std::string run;
    std::string out;
    std::string dtype = "fp32";
};

void run(const Arguments& arguments) {
    const std::string source = (std::filesystem::path(arguments.run) / "weights").string();
    if (!std::filesystem::is_directory(source)) {
        throw DataError(
            fmt::format("{}: no such folder; `dcp train` writes it when a run ends", source));
    }
    const model::WeightsFolder weights(source);
    std::int64_t num_parameters = 0;
    std::vector<float> values;  // of one tensor: all that is in memory at a time
    const auto read = [&](const std::string& name) {
        for (const model::TensorSpec& spec : weights.specs()) {
            if (spec.name == name) {
                values.resize(static_cast<std::size_t>(spec.shape.num_elems()));
            }
        }
        weights.read(name, values);
        num_parameters += static_cast<std::int64_t>(values.size());
        return std::span<const float>(values);
    };
    const DType stored = arguments.dtype == "bf16" ? DType::kBFloat16 : DType::kFloat32;
    model::save_weights(arguments.out, weights.config(), read, {.stored = stored});
    const config::ModelConfig& m = weights.config().model;
    const bool is_llama = m.norm == config::NormKind::kRmsNorm &&
                          m.positions == config::Positions::kRope &&
                          m.activation == config::Activation::kSwiGlu && m.causal;
    if (is_llama && m.hidden % m.heads != 0) {
        fmt::print(stderr,
                   "dcp: warning: transformers will refuse {}: hidden {} is not a multiple of "
                   "heads {} (docs/weights.md)\n",
                   arguments.out, m.hidden, m.heads);
    }
    fmt::print("{}: {} parameters in {}\n", arguments.out, format_count(num_parameters),
               arguments.dtype);
}

}  // namespace

void add_export_command(CLI::App& app) {
    CLI::App* command = app.add_subcommand("export", kDescription);
    const auto arguments = std::make_shared<Arguments>();
    command->footer(kFooter);
    command->add_option("--run", arguments->run, "Run folder")->required()->type_name("FOLDER");
    command->add_option("--out", arguments->out, "Folder to write")
        ->required()
        ->type_name("FOLDER");
    command->add_option("--dtype", arguments->dtype, "fp32 (default) or bf16")
        ->check(CLI::IsMember({"fp32", "bf16"}))
        ->type_name("TYPE");
    command->callback([arguments] { run(*arguments); });
}

}  // namespace dcp
