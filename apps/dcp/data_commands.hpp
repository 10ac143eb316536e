// `dcp data` and its subcommands. Each function adds one to `parent`; what the callback cannot do
// leaves it as a dcp::Error.
#pragma once

namespace CLI {
class App;
}

namespace dcp {

void add_data_commands(CLI::App& app);  // `data` with the three below

void add_data_import(CLI::App& parent);
void add_data_inspect(CLI::App& parent);
void add_data_lengths(CLI::App& parent);

}  // namespace dcp
