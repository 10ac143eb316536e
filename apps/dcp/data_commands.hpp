// `dcp data` and its subcommands. Each function adds one to `parent`; what the callback cannot do
// leaves it as a dcp::Error.
#pragma once

#include <cstdint>
#include <optional>

namespace CLI {
class App;
}

namespace dcp {

namespace data {
class TokenStore;
}

void add_data_commands(CLI::App& app);  // `data` with those below

void add_data_import(CLI::App& parent);
void add_data_inspect(CLI::App& parent);
void add_data_lengths(CLI::App& parent);
void add_data_sample(CLI::App& parent);
void add_data_synth(CLI::App& parent);

// A line on stderr where the .bin is longer than its index covers.
void warn_of_unused_bytes(const data::TokenStore& store);

// ConfigError naming the option when its value was given and is below 1.
void require_positive(const char* option, std::optional<std::int64_t> value);

}  // namespace dcp
