// dcp profile: what one layer of a model costs on these ranks, as a file.
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "apps/dcp/commands.hpp"
#include "apps/dcp/ranks.hpp"
#include "core/train/trainer.hpp"

namespace dcp {

namespace {

constexpr const char* kDescription =
    "Measure what micro-batches of a model cost on these ranks\n\n"
    "Reads CONFIG (YAML, docs/configuration.md), runs two of its layers forward and backward for\n"
    "many sizes of micro-batches on groups of every SP degree, and writes a profile\n"
    "(docs/profile.md). `dcp train` does the same where it finds none; `dcp plan --cost` and\n"
    "`dcp simulate` plan with it. Start it with the launcher and the number of ranks that will\n"
    "train.";

constexpr const char* kFooter = R"(Examples:
  mpirun -np 2 dcp profile configs/quickstart.yaml
  mpirun -np 8 dcp profile run.yaml --out here.json --set run.threads=2
  dcp train run.yaml --set profile=here.json
  dcp plan --distribution wikipedia --batch-sequences 64 --cost here.json --ranks 8 --planner dcp

Exit status: 0 done, 2 the configuration or the data are wrong, 3 the profile cannot be written.)";

struct Arguments {
    std::string config;
    std::string out;
    std::vector<std::string> overrides;
};

void run(const Arguments& arguments) {
    run_in_world([&](const train::World& world) {
        const config::Reading reading =
            read_config_on_all(world, arguments.config, arguments.overrides);
        train::run_profile(reading.config, world, arguments.out);
    });
}

}  // namespace

void add_profile_command(CLI::App& app) {
    CLI::App* profile = app.add_subcommand("profile", kDescription);
    const auto arguments = std::make_shared<Arguments>();
    profile->footer(kFooter);
    profile->add_option("CONFIG", arguments->config, "Configuration file")
        ->required()
        ->type_name("");
    profile
        ->add_option("--out", arguments->out,
                     "Where to write it; by default where `profile: auto` looks for it")
        ->type_name("FILE");
    profile
        ->add_option("--set", arguments->overrides,
                     "Replace a value of the file, such as run.threads=2; may be repeated")
        ->type_name("KEY=VALUE")
        ->allow_extra_args(false);
    profile->callback([arguments] { run(*arguments); });
}

}  // namespace dcp
