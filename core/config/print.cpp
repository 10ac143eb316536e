#include <fmt/format.h>

#include "core/config/reader.hpp"
#include "core/config/schema.hpp"

namespace dcp::config {

namespace {

// Of the two measures of a batch the one that is not used has no value that could be read back.
bool has_value(const Key& key, const Config& config) {
    return !(key.name == "batch.sequences" && config.batch.sequences == 0) &&
           !(key.name == "batch.tokens" && config.batch.tokens == 0);
}

std::string write(const Config& config, const Provenance* provenance) {
    std::string yaml;
    std::string section;
    for (const Key& key : schema()) {
        const bool is_top = section_of(key.name) == key.name;
        if (section != section_of(key.name)) {
            section = section_of(key.name);
            yaml += is_top ? "" : section + ":\n";
        }
        if (!has_value(key, config)) {
            continue;
        }
        const std::string line =
            is_top
                ? fmt::format("{}: {}", key.name, key.print(config))
                : fmt::format("  {}: {}", key.name.substr(section.size() + 1), key.print(config));
        yaml += provenance == nullptr
                    ? line + "\n"
                    : fmt::format("{:<34}  # {}\n", line, provenance->at(key.name));
    }
    return yaml;
}

}  // namespace

std::string to_yaml(const Config& config) {
    return write(config, nullptr);
}

std::string print(const Config& config, const Provenance& provenance) {
    return write(config, &provenance);
}

}  // namespace dcp::config
