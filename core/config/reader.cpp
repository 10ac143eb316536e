#include "core/config/reader.hpp"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include <fmt/format.h>

#include "core/base/errors.hpp"
#include "core/config/rules.hpp"
#include "core/config/schema.hpp"
#include "core/config/value.hpp"

namespace dcp::config {

namespace {

constexpr std::uintmax_t kMaxFileBytes = 1 << 20;  // a configuration is a page of text

std::string read_file(const std::string& path) {
    namespace fs = std::filesystem;
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (status.type() == fs::file_type::not_found) {
        throw ConfigError(fmt::format("{}: no such configuration file", path));
    }
    if (fs::is_directory(status)) {
        throw ConfigError(fmt::format("{}: is a folder, expected a YAML file", path));
    }
    std::ifstream file(path, std::ios::binary);
    if (!file) {
        throw ConfigError(
            fmt::format("{}: cannot be read: {}", path, std::generic_category().message(errno)));
    }
    std::string text(kMaxFileBytes + 1, '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(file.gcount()));
    if (text.size() > kMaxFileBytes) {
        throw ConfigError(fmt::format("{}: is larger than 1 MiB, which no configuration is", path));
    }
    return text;
}

// The keys of a section, or the sections, for a message.
std::string known_names(const std::string& section) {
    std::string names;
    std::string last;
    for (const Key& key : schema()) {
        const std::string name = is_section(section) ? key.name : section_of(key.name);
        if (name != last && (!is_section(section) || section_of(key.name) == section)) {
            names += (names.empty() ? "" : ", ") + name;
            last = name;
        }
    }
    return names;
}

[[noreturn]] void throw_unknown(const Assignment& given) {
    const std::string nearest = nearest_name(given.key);
    const std::string hint = nearest.empty() ? "; known: " + known_names(section_of(given.key))
                                             : fmt::format("; did you mean '{}'?", nearest);
    throw ConfigError(fmt::format("{}: unknown key '{}'{}", given.origin, given.key, hint));
}

std::string hint_for(const Key& key, const Value& value) {
    if (value.kind == Value::Kind::kNothing) {
        return "; leave the key out to get the default";
    }
    if (!key.is_number || value.kind != Value::Kind::kScalar) {
        return "";
    }
    Value plain = value;
    plain.quoted = false;
    std::erase(plain.text, '_');
    if (!as_real(plain)) {
        return "";
    }
    if (plain.text != value.text) {
        return fmt::format("; write {} without '_'", plain.text);
    }
    return value.quoted ? "; write it without quotes" : "";
}

void assign(const Assignment& given, Reading& reading) {
    if (is_section(given.key)) {
        if (given.origin == "--set") {
            throw ConfigError(fmt::format("--set {}: names a section, expected one of {}",
                                          given.key, known_names(given.key)));
        }
        if (given.value.kind == Value::Kind::kNothing || given.value.kind == Value::Kind::kMap) {
            return;  // a section with all keys left out
        }
        throw ConfigError(fmt::format("{}: {} is {}, expected keys below it", given.origin,
                                      given.key, shown(given.value)));
    }
    const Key* key = find_key(given.key);
    if (key == nullptr) {
        throw_unknown(given);
    }
    if (!key->read(given.value, reading.config)) {
        throw ConfigError(fmt::format("{}: {} is {}, expected {}{}", given.origin, key->name,
                                      shown(given.value), key->allowed,
                                      hint_for(*key, given.value)));
    }
    reading.provenance[key->name] = given.origin;
}

}  // namespace

Reading parse_config(const std::string& text,
                     const std::string& file,
                     const std::vector<std::string>& overrides) {
    Reading reading;
    for (const Assignment& given : parse_document(text, file)) {
        assign(given, reading);
    }
    for (const std::string& override : overrides) {
        assign(parse_override(override), reading);
    }
    complete_and_check(reading, file);
    return reading;
}

Reading read_config(const std::string& path, const std::vector<std::string>& overrides) {
    return parse_config(read_file(path), path, overrides);
}

}  // namespace dcp::config
