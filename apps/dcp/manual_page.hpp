// `--help` in the order of a manual page: name, synopsis, description, options, then the footer
// with examples and exit codes. The first paragraph of an App's description is its name line.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace dcp {

class ManualPage : public CLI::Formatter {
public:
    ManualPage() { column_width(28); }
    std::string make_help(const CLI::App* app,
                          std::string name,
                          CLI::AppFormatMode mode) const override;
    std::string make_subcommand(const CLI::App* app) const override;
};

}  // namespace dcp
