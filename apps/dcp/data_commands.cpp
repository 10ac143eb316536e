#include "apps/dcp/data_commands.hpp"

#include <CLI/CLI.hpp>

namespace dcp {

void add_data_commands(CLI::App& app) {
    CLI::App* data = app.add_subcommand("data", "Make and look at datasets");
    data->require_subcommand(1);
    data->footer(
        "A dataset is a pair of files, PREFIX.bin with the tokens and PREFIX.idx with the\n"
        "lengths of its documents, as Megatron's preprocess_data.py makes them. llm.c token\n"
        "shards (.bin) are read too. `dcp data SUBCOMMAND --help` tells more.");
    add_data_import(*data);
    add_data_inspect(*data);
    add_data_lengths(*data);
}

}  // namespace dcp
