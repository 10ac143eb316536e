#include "apps/dcp/manual_page.hpp"

#include <sstream>

#include <fmt/format.h>

namespace dcp {

namespace {

std::string first_paragraph(const std::string& text) {
    return text.substr(0, text.find("\n\n"));
}

std::string rest(const std::string& text) {
    const std::size_t end = text.find("\n\n");
    return end == std::string::npos ? "" : text.substr(end + 2);
}

std::string indented(const std::string& text) {
    std::istringstream lines(text);
    std::string out;
    for (std::string line; std::getline(lines, line);) {
        out += line.empty() ? "\n" : "  " + line + "\n";
    }
    return out;
}

}  // namespace

std::string ManualPage::make_help(const CLI::App* app,
                                  std::string name,
                                  CLI::AppFormatMode /*mode*/) const {
    const std::string description = app->get_description();
    std::string usage = make_usage(app, name);
    usage = usage.substr(0, usage.find_last_not_of('\n') + 1);
    std::string page = fmt::format("{} - {}\n\n{}\n", name, first_paragraph(description), usage);
    if (!rest(description).empty()) {
        page += "\nDescription:\n" + indented(rest(description));
    }
    page += make_positionals(app) + make_groups(app, CLI::AppFormatMode::Normal) +
            make_subcommands(app, CLI::AppFormatMode::Normal);
    return page + "\n" + make_footer(app);
}

std::string ManualPage::make_subcommand(const CLI::App* app) const {
    return fmt::format("  {:<{}}{}\n", app->get_name(), get_column_width() - 2,
                       first_paragraph(app->get_description()));
}

}  // namespace dcp
