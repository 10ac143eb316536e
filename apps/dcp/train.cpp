// dcp train: a configuration to a trained model.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "apps/dcp/commands.hpp"
#include "apps/dcp/ranks.hpp"
#include "core/config/reader.hpp"
#include "core/train/trainer.hpp"

namespace dcp {

namespace {

constexpr const char* kDescription =
    "Train a transformer as a configuration file says\n\n"
    "Reads CONFIG (YAML, docs/configuration.md), draws batches of the datasets it names, trains "
    "and\n"
    "writes into run.folder: config.yaml (every value in force), metrics.jsonl (a line an\n"
    "iteration), samples.jsonl when run.log_samples is true, event files for TensorBoard and "
    "traces\n"
    "when monitor asks for them, and weights/ at the end (docs/output.md).";

constexpr const char* kFooter = R"(Examples:
  dcp train configs/quickstart.yaml
  dcp train run.yaml --set optimizer.lr=2e-5 --set 'data.train=[data/a, data/b]'
  dcp train run.yaml --set monitor.tensorboard=true --set monitor.prometheus_port=9400
  dcp train run.yaml --print-config

Exit status: 0 done, 2 the configuration or the data are wrong, 3 the run could not go on.)";

struct Arguments {
    std::string config;
    std::vector<std::string> overrides;
    bool print_config = false;
    bool profile_ops = false;
};

void run(const Arguments& arguments) {
    run_in_world([&](const train::World& world) {
        const config::Reading reading =
            read_config_on_all(world, arguments.config, arguments.overrides);
        if (arguments.print_config) {
            if (world.is_first()) {
                fmt::print("{}", config::print(reading.config, reading.provenance));
            }
            return;
        }
        train::run_training(reading.config, world, {.profile_ops = arguments.profile_ops});
    });
}

}  // namespace

void add_train_command(CLI::App& app) {
    CLI::App* train = app.add_subcommand("train", kDescription);
    const auto arguments = std::make_shared<Arguments>();
    train->footer(kFooter);
    train->add_option("CONFIG", arguments->config, "Configuration file")->required()->type_name("");
    train
        ->add_option("--set", arguments->overrides,
                     "Replace a value of the file, such as run.seed=2; may be repeated")
        ->type_name("KEY=VALUE")
        ->allow_extra_args(false);
    train->add_flag("--print-config", arguments->print_config,
                    "Print every value and where it came from, then end");
    train->add_flag("--profile-ops", arguments->profile_ops,
                    "Print at the end where the time went, by operation");
    train->callback([arguments] { run(*arguments); });
}

}  // namespace dcp
