// The subcommands of `dcp`. Each function adds one to `app`; its work is done in a callback, and
// what that cannot do leaves it as a dcp::Error, which main() turns into a line and an exit code.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace dcp {

void add_train_command(CLI::App& app);
void add_profile_command(CLI::App& app);
void add_eval_command(CLI::App& app);
void add_export_command(CLI::App& app);
void add_plan_command(CLI::App& app);
void add_simulate_command(CLI::App& app);

// What `dcp --version` prints.
std::string describe_version();

}  // namespace dcp
