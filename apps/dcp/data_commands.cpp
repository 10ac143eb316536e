#include "apps/dcp/data_commands.hpp"

#include <cstdio>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "core/base/errors.hpp"
#include "core/data/token_store.hpp"

namespace dcp {
namespace {

constexpr const char* kDescription = R"(Make and look at datasets

A dataset is a pair of files, PREFIX.bin with the tokens and PREFIX.idx with the
lengths of its documents, as Megatron's preprocess_data.py makes them. llm.c token
shards (.bin) are read too. `dcp data SUBCOMMAND --help` tells more.)";

}  // namespace

void add_data_commands(CLI::App& app) {
    CLI::App* data = app.add_subcommand("data", kDescription);
    data->require_subcommand(1);
    add_data_import(*data);
    add_data_inspect(*data);
    add_data_lengths(*data);
    add_data_sample(*data);
    add_data_synth(*data);
}

void require_positive(const char* option, std::optional<std::int64_t> value) {
    if (value && *value < 1) {
        throw ConfigError(fmt::format("{} {}: must be at least 1", option, *value));
    }
}

void warn_of_unused_bytes(const data::TokenStore& store) {
    if (const std::string warning = store.warning(); !warning.empty()) {
        fmt::print(stderr, "dcp: warning: {}\n", warning);
    }
}

}  // namespace dcp
